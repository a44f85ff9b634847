// net/testing/raw_socket.h — a client that sends exactly the bytes it is told, for tests.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace falaj::net::testing {

// One connection to 127.0.0.1. Every read gives up (and fails the test) after twenty seconds, so
// that a broken server shows as a failure and not as a hang.
class RawSocket {
 public:
  explicit RawSocket(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawSocket() { close(); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  bool connected() const { return connected_; }
  int descriptor() const { return socket_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void finish_writing() { ::shutdown(socket_, SHUT_WR); }

  // False when the server has closed.
  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  // The next reply, head and body (by Content-Length, which the server gives except for streams
  // and bodiless replies). "" when the server closed instead.
  enum class Expect : std::uint8_t { kBody, kHeadOnly };
  std::string reply(Expect expect = Expect::kBody) {
    while (true) {
      const std::size_t head = received_.find("\r\n\r\n");
      if (head != std::string::npos) {
        const std::size_t length = expect == Expect::kBody ? length_in(head) : 0;
        if (received_.size() >= head + 4 + length) return take(head + 4 + length);
      }
      if (!read_more()) return take(received_.size());
    }
  }

  // Everything up to and with `mark`; "" when the server closed before.
  std::string until(std::string_view mark) {
    while (true) {
      const std::size_t at = received_.find(mark);
      if (at != std::string::npos) return take(at + mark.size());
      if (!read_more()) return "";
    }
  }

  // Everything until the server closes.
  std::string rest() {
    while (read_more()) {
    }
    return take(received_.size());
  }

 private:
  std::size_t length_in(std::size_t head) const {
    constexpr std::string_view kName = "\r\nContent-Length: ";
    const std::size_t at = received_.find(kName);
    if (at == std::string::npos || at > head) return 0;
    std::size_t length = 0;
    const char* digits = received_.data() + at + kName.size();
    std::from_chars(digits, received_.data() + received_.size(), length);
    return length;
  }

  std::string take(std::size_t count) {
    std::string taken = received_.substr(0, count);
    received_.erase(0, count);
    return taken;
  }

  bool read_more() {
    pollfd waiting{socket_, POLLIN, 0};
    if (::poll(&waiting, 1, 20'000) <= 0) {
      ADD_FAILURE() << "the server neither answered nor closed";
      return false;
    }
    std::array<char, 16 << 10> buffer{};
    const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (count <= 0) return false;
    received_.append(buffer.data(), static_cast<std::size_t>(count));
    return true;
  }

  int socket_;
  bool connected_ = false;
  std::string received_;
};

inline int status_of(std::string_view reply) {
  if (!reply.starts_with("HTTP/1.1 ") || reply.size() < 12) return 0;
  int status = 0;
  std::from_chars(reply.data() + 9, reply.data() + 12, status);
  return status;
}

inline std::string body_of(std::string_view reply) {
  const std::size_t head = reply.find("\r\n\r\n");
  return head == std::string_view::npos ? "" : std::string(reply.substr(head + 4));
}

inline std::string request_text(std::string_view line, std::string_view more_headers = "",
                                std::string_view body = "") {
  std::string text;
  text.reserve(256 + line.size() + more_headers.size() + body.size());
  text.append(line).append(" HTTP/1.1\r\nHost: localhost\r\n").append(more_headers);
  if (!body.empty()) text.append("Content-Length: " + std::to_string(body.size()) + "\r\n");
  text.append("\r\n").append(body);
  return text;
}

}  // namespace falaj::net::testing
