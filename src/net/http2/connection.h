// net/http2/connection.h — one HTTP/2 connection with its gRPC calls, on the server's loop.
//
// Lives on the loop's thread; nothing here locks. nghttp2 reads and writes frames; calls go to the
// pool, one message of a call at a time, and come back through the loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http2/core.h"
#include "net/http2/messages.h"
#include "net/tls/transport.h"

struct nghttp2_session;
struct nghttp2_session_callbacks;

namespace falaj::net {

// How a call ended.
struct GrpcEnd {
  int status = 0;
  std::string text;
};

class H2Connection final : public Pollable, public std::enable_shared_from_this<H2Connection> {
 public:
  // Takes the socket; it is counted as open already. start() follows.
  H2Connection(GrpcCore& core, int socket, std::string peer, TlsSession session);
  ~H2Connection() override;

  void start();
  void on_readable() override;
  void on_writable() override;
  void sweep(std::int64_t now);
  // Says goodbye, and closes once the calls have ended and the client has closed.
  void begin_drain();
  // Waits no longer for a client that has nothing running.
  void end_farewell();
  void close();

 private:
  struct Call {
    explicit Call(std::size_t message_max) : reader(message_max) {}
    const BoundMethod* method = nullptr;
    std::shared_ptr<Request> request = std::make_shared<Request>();
    std::shared_ptr<std::atomic<bool>> gone = std::make_shared<std::atomic<bool>>(false);
    std::string content_type;
    std::size_t metadata_bytes = 0;
    Coding coding = Coding::kIdentity;
    MessageReader reader;
    std::string id;                      // X-Request-Id; that of a stream's messages is longer.
    std::deque<FramedMessage> messages;  // Whole, and not yet given to the pool.
    std::size_t begun_messages = 0;      // Given to the pool so far.
    std::size_t counted = 0;             // Its share of core.buffered and of buffered_.
    std::optional<Turn> turn;            // In core.unfinished, while a message is not whole.
    Turn::Caller caller = Turn::Caller::kUnknown;
    std::size_t unconsumed = 0;    // Received, and not yet given back to the client's window.
    bool running = false;          // The pool has a message of it.
    bool held = false;             // Its next message waits until more of `out` is taken.
    bool ended_by_client = false;  // Nothing more comes.
    bool answering = false;        // The head was submitted.
    std::string out;               // Frames of messages on their way out.
    std::size_t out_at = 0;
    std::optional<GrpcEnd> end;  // Follows what is in `out`.
    std::int64_t begun = 0;
    std::int64_t deadline = 0;        // Monotonic, for the message that is coming; 0: none is.
    std::int64_t write_deadline = 0;  // For the client to take some of `out`; 0: it is empty.
  };
  struct Callbacks;  // What nghttp2 calls; see connection.cc.

  void pump();
  bool shake_hands();
  bool read_some();
  bool flush();
  Status make_session();

  void take_header(std::int32_t id, std::string_view name, std::string_view value);
  void begin_call(std::int32_t id);
  Status check_head(Call& call);
  void take_data(std::int32_t id, std::string_view bytes);
  void end_of_input(std::int32_t id);
  void read_messages(std::int32_t id, Call& call);
  void go_on_later(std::int32_t id);
  void run_next(std::int32_t id, Call& call);
  void answered(std::int32_t id, Result<std::string> answer);
  void give_window(std::int32_t id, Call& call);
  void count(Call& call, std::size_t bytes);
  void recount(std::int32_t id, Call& call);
  bool make_room(const Call& call, std::size_t bytes);
  void give_way(std::int32_t id);
  void end_call(std::int32_t id, Call& call, GrpcEnd end);
  void tell_answered(const Call& call, int status) const;
  void fail(std::int32_t id, Call& call, const Error& error);
  void begin_answer(std::int32_t id, Call& call);
  enum class Trailers : std::uint8_t { kOnly, kAfterMessages };
  void submit_end(std::int32_t id, const Call& call, Trailers trailers);
  std::int64_t read_answer(std::int32_t id, std::uint8_t* into, std::size_t size,
                           std::uint32_t* flags);
  void closed(std::int32_t id);
  void sent_end(std::int32_t id);
  Call* find(std::int32_t id);
  bool host_allowed(std::string_view authority) const;

  GrpcCore& core_;
  std::unique_ptr<Watch> watch_;
  int socket_;  // Until start() gives it to watch_.
  Transport transport_;
  const std::string peer_;
  TlsPeer tls_peer_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, std::unique_ptr<Call>> calls_;
  std::size_t buffered_ = 0;  // Its share of core_.buffered.
  std::string out_;
  std::size_t out_at_ = 0;
  bool handshaken_ = false;
  bool readable_ = true;
  bool pumping_ = false;
  bool closed_ = false;
  bool draining_ = false;
  bool said_all_ = false;      // After the farewell nothing is written any more.
  std::int64_t deadline_ = 0;  // Monotonic; of the handshake, then of idling.
  std::int64_t write_deadline_ = 0;
  std::size_t index_ = 0;  // In core_.connections.
};

}  // namespace falaj::net
