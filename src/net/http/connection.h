// net/http/connection.h — one client connection as a state machine on one loop.
//
// Lives on its loop's thread; nothing here locks. Bytes walk: socket → parser → checks → route →
// handler (here, or on the pool through an Exchange) → out_ → socket. pump() is the only place that
// moves the machine on; everything else changes state and lets pump() see it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/http/core.h"
#include "net/http/exchange.h"
#include "net/http/loop.h"
#include "net/http/parser.h"
#include "net/internal/replies.h"
#include "net/tls/transport.h"

namespace falaj::net {

class Connection final : public Pollable, public std::enable_shared_from_this<Connection> {
 public:
  // Takes the socket. start() follows, once it is the last of the loop's connections.
  Connection(ServerCore& core, LoopState& loop, int socket, std::string peer, TlsSession session);
  ~Connection() override = default;

  void start();
  void on_readable() override;
  void on_writable() override;
  // Cuts whatever has waited longer than its limit; called now and then.
  void sweep(std::int64_t now);
  // Closes at once if idle, else after the reply that is being made. When the drain was announced:
  // only if it was silent since; who came since may ask once.
  void begin_drain();
  // Closes who has come and still asks nothing.
  void end_silence();
  void close();

  // From an Exchange, on the loop's thread.
  void answered(const Request& request, Response response);
  void stream_ready();

 private:
  enum class State : std::uint8_t {
    kHandshake,
    kIdle,  // Between requests.
    kHead,  // Some bytes of a head have come.
    kGate,  // The pool asks whether a large body is welcome.
    kBody,
    kStoring,  // The pool writes a part of the body to a file.
    kRunning,  // A handler has the request.
    kStreaming,
    kLinger,  // Said goodbye; reads on so that the client can see the reply.
    kClosed,
  };
  enum class After : std::uint8_t { kAsAsked, kClose };
  struct Refused {
    int status;
    Error error;
    Refusal reason;
  };

  void pump();
  bool step();
  bool yield();
  bool shake_hands();
  bool give_up_handshake();
  bool read_some();
  bool wants_bytes() const;
  void take_bytes(std::string_view bytes);
  void discard(std::size_t bytes);
  bool flush();
  bool finish_output();
  bool has_output() const { return out_at_ < out_.size() || !large_.empty(); }
  std::size_t output_bytes() const { return out_.size() - out_at_ + large_.size(); }
  void owe(const std::shared_ptr<const Caller>& caller, std::size_t before);
  void settle(std::size_t bytes);
  bool output_full() const;
  void feed_stream();
  void drop_slow_reader();
  bool may_still_ask() const;

  std::size_t consume(std::string_view bytes);
  std::size_t consume_head(std::string_view bytes);
  std::size_t consume_body(std::string_view bytes);
  void begin_request();
  void refuse_parse(ParseState state);

  void on_head(ParseState state);
  void take_over_ids();
  Status check_target();
  bool check_peer();
  bool check_head();
  bool host_allowed(std::string_view authority);
  bool is_host_of_ours(std::string_view authority) const;
  bool find_route();
  bool answer_preflight();
  void refuse_origin(std::string_view origin);
  bool gate_comes_first() const;
  // Where gate and handler of this request run.
  RunsOn runs_on() const;
  void run_gate_first();
  void expect_body();
  void store_body(ParseState state);
  void stored(const Status& status);
  void dispatch();
  void dispatch_on_loop();
  void dispatch_on_pool();

  // Answers with an error in the route's dialect.
  void fail(int status, const Error& error, After after);
  void refuse(Refused refused);
  std::string_view dialect() const;
  void reply(const Request& request, Response response, After after);
  void tell_answered(const Request& request, const Response& response, std::int64_t nanos) const;
  void reply_with_stream(const Request& request, Response response, AfterReply after);
  void append_body(const Request& request, Response& response);
  void become_idle();

  ServerCore& core_;
  LoopState& loop_;
  std::unique_ptr<Watch> watch_;
  int socket_;  // Until start() gives it to watch_.
  Transport transport_;
  const std::string peer_;
  TlsPeer tls_peer_;

  State state_;
  bool pumping_ = false;
  bool yielded_ = false;  // The answers wait for the end of the round.
  bool readable_ = true;  // The socket may hold bytes.
  bool starved_ = false;  // in_ was looked at; more bytes are needed.
  bool keep_alive_ = true;
  bool close_after_output_ = false;
  bool linger_ = false;  // Unread bytes may be on their way: no reset before the reply is read.
  bool rests_ = false;   // No request has begun since the last sweep.
  bool gate_passed_ = false;
  bool body_follows_ = false;
  bool is_foreign_ = false;    // Sent by a page of another origin that may ask for predictions.
  std::int64_t deadline_ = 0;  // Monotonic; 0: none.
  std::int64_t write_deadline_ = 0;
  std::int64_t started_ = 0;
  std::size_t discarded_ = 0;
  int reads_left_ = 0;  // In this turn of the loop.
  int requests_left_ = 0;
  std::size_t index_ = 0;  // In loop_.connections.

  std::string in_;  // Received and not yet consumed.
  std::string out_;
  std::size_t out_at_ = 0;
  std::string large_owned_;
  std::string_view large_;  // Follows out_: a body too large to be copied.
  // Whose answers the output is, in order, for who counts what the socket took.
  struct Owed {
    std::shared_ptr<const Caller> caller;
    std::size_t bytes;
  };
  std::vector<Owed> owed_;

  RequestParser parser_;
  Request request_;
  std::string_view authority_;     // In request_.headers or the parser's target.
  std::string allowed_authority_;  // The last one that was found to be ours.
  const Route* route_ = nullptr;
  std::shared_ptr<std::atomic<bool>> gone_;  // Of the request that runs; see Request::gone.
  std::shared_ptr<Upload> upload_;
  ParseState upload_state_ = ParseState::kNeedMore;
  std::shared_ptr<EventStream> stream_;
  std::shared_ptr<const Caller> stream_caller_;
  std::function<void(std::shared_ptr<Stream>)> on_stream_;
};

// Adds the connection to its loop and starts it. Loop's thread. Already counted as open.
void open_connection(ServerCore& core, LoopState& loop, int socket, std::string peer);

}  // namespace falaj::net
