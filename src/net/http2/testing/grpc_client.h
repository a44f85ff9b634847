// net/http2/testing/grpc_client.h — a gRPC client on one blocking socket, for tests: it sends
// what it is told, and shows what came.
#pragma once

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "net/http2/messages.h"
#include "net/testing/raw_socket.h"

namespace falaj::net::testing {

class GrpcTestClient {
 public:
  struct Outcome {
    std::map<std::string, std::string> headers;  // Head and trailers together.
    std::string bytes;                           // Of the data frames.
    bool closed = false;
    std::uint32_t close_code = 0;  // Of HTTP/2: 8 when the server cancelled it.
    std::string status() const {
      const auto found = headers.find("grpc-status");
      return found == headers.end() ? "none" : found->second;
    }
    std::string text() const {
      const auto found = headers.find("grpc-message");
      return found == headers.end() ? "" : found->second;
    }
    std::vector<std::string> messages() const {
      MessageReader reader(1 << 30);
      reader.add(bytes);
      std::vector<std::string> all;
      while (true) {
        auto next = reader.next(Coding::kIdentity);
        if (!next.ok() || !next->has_value()) return all;
        all.push_back((*next)->bytes);
      }
    }
  };

  // `window`: how many bytes of a call's answer it takes before it has read them, at first.
  explicit GrpcTestClient(std::uint16_t port, std::uint32_t window = 65'535) : socket_(port) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_client_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &settings, 1);
    flush();
  }
  ~GrpcTestClient() { nghttp2_session_del(session_); }
  GrpcTestClient(const GrpcTestClient&) = delete;
  GrpcTestClient& operator=(const GrpcTestClient&) = delete;

  enum class End : std::uint8_t { kAtOnce, kLater };
  // Begins a call whose data is `bytes`, frames and all.
  std::int32_t begin(const std::string& path, std::string bytes,
                     std::vector<std::pair<std::string, std::string>> more = {},
                     End end = End::kAtOnce) {
    std::vector<std::pair<std::string, std::string>> fields{
        {":method", "POST"},         {":scheme", "http"}, {":path", path},
        {":authority", "localhost"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
    fields.insert(fields.end(), more.begin(), more.end());
    std::vector<nghttp2_nv> all;
    for (auto& [name, value] : fields) {
      all.push_back({reinterpret_cast<std::uint8_t*>(name.data()),
                     reinterpret_cast<std::uint8_t*>(value.data()), name.size(), value.size(),
                     NGHTTP2_NV_FLAG_NONE});
    }
    nghttp2_data_provider provider{};
    provider.read_callback = read_data;
    const std::int32_t id =
        nghttp2_submit_request(session_, nullptr, all.data(), all.size(), &provider, nullptr);
    sending_[id] = {std::move(bytes), end == End::kAtOnce};
    flush();
    return id;
  }
  void send_more(std::int32_t id, const std::string& bytes, End end) {
    sending_[id].bytes += bytes;
    sending_[id].last = end == End::kAtOnce;
    nghttp2_session_resume_data(session_, id);
    flush();
  }
  // Lets so many bytes more of the call's answer come.
  void grant(std::int32_t id, std::int32_t bytes) {
    nghttp2_submit_window_update(session_, NGHTTP2_FLAG_NONE, id, bytes);
    flush();
  }
  void cancel(std::int32_t id) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    flush();
  }
  // Until the call has ended, or `messages` of it have come.
  const Outcome& wait(std::int32_t id, std::size_t messages = SIZE_MAX) {
    Outcome& outcome = outcomes_[id];
    while (!outcome.closed && outcome.messages().size() < messages && read_some()) flush();
    return outcome;
  }
  // The whole of a call with one message.
  Outcome call(const std::string& path, std::string_view message,
               std::vector<std::pair<std::string, std::string>> more = {}) {
    std::string framed;
    append_message(framed, message);
    return wait(begin(path, std::move(framed), std::move(more)));
  }
  void write_raw(std::string_view bytes) { socket_.write(bytes); }
  // Until the server closes.
  void wait_for_close() {
    while (read_some()) flush();
  }
  // Whether the server has said that no further call is welcome here (GOAWAY).
  bool was_sent_away() const { return nghttp2_session_check_request_allowed(session_) == 0; }

 private:
  struct Sending {
    std::string bytes;
    bool last = true;
    std::size_t at = 0;
  };
  static GrpcTestClient& self(void* user) { return *static_cast<GrpcTestClient*>(user); }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* user) {
    self(user)
        .outcomes_[frame->hd.stream_id]
        .headers[{reinterpret_cast<const char*>(name), name_size}] = {
        reinterpret_cast<const char*>(value), value_size};
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                     std::size_t size, void* user) {
    self(user).outcomes_[id].bytes.append(reinterpret_cast<const char*>(bytes), size);
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user) {
    self(user).outcomes_[id].closed = true;
    self(user).outcomes_[id].close_code = code;
    return 0;
  }
  static ssize_t read_data(nghttp2_session*, std::int32_t id, std::uint8_t* into, std::size_t size,
                           std::uint32_t* flags, nghttp2_data_source*, void* user) {
    Sending& sending = self(user).sending_[id];
    const std::size_t count = std::min(size, sending.bytes.size() - sending.at);
    std::memcpy(into, sending.bytes.data() + sending.at, count);
    sending.at += count;
    const bool all = sending.at == sending.bytes.size();
    if (all && sending.last) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (count == 0 && !sending.last) return NGHTTP2_ERR_DEFERRED;
    return static_cast<ssize_t>(count);
  }
  void flush() {
    while (true) {
      const std::uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
      if (size <= 0) return;
      socket_.write({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
    }
  }
  bool read_some() {
    pollfd waiting{socket_.descriptor(), POLLIN, 0};
    if (::poll(&waiting, 1, 20'000) <= 0) {
      ADD_FAILURE() << "the server neither answered nor closed";
      return false;
    }
    std::array<std::uint8_t, 16 << 10> buffer{};
    const ssize_t count = ::recv(socket_.descriptor(), buffer.data(), buffer.size(), 0);
    return count > 0 &&
           nghttp2_session_mem_recv(session_, buffer.data(), static_cast<std::size_t>(count)) >= 0;
  }

  RawSocket socket_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, Sending> sending_;
  std::map<std::int32_t, Outcome> outcomes_;
};

}  // namespace falaj::net::testing
