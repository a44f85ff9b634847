#include "net/http/parser.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <limits>

#include "net/text.h"

namespace falaj::net {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using ErrorCode = beast::error_code;
using BeastText = beast::string_view;

std::string_view view(BeastText text) { return {text.data(), text.size()}; }

constexpr std::uint32_t kBeastHeadMax = 1u << 30;  // Our own count is the limit.

std::optional<Method> method_of(http::verb verb) {
  switch (verb) {
    case http::verb::get:
      return Method::kGet;
    case http::verb::head:
      return Method::kHead;
    case http::verb::post:
      return Method::kPost;
    case http::verb::put:
      return Method::kPut;
    case http::verb::patch:
      return Method::kPatch;
    case http::verb::delete_:
      return Method::kDelete;
    case http::verb::options:
      return Method::kOptions;
    default:
      return std::nullopt;
  }
}

constexpr std::uint64_t kChunksFree = 65'536;  // Of any size; past them they must be…
constexpr std::uint64_t kChunkBytesMin = 256;  // …so large on the average.

// What both directions share: a body into a string, a limit on it.
template <bool kIsRequest>
class Message : public http::basic_parser<kIsRequest> {
 public:
  Message() {
    this->header_limit(kBeastHeadMax);
    this->body_limit(boost::none);
  }
  std::string* body = nullptr;
  std::uint64_t body_max = 0;
  std::uint64_t body_bytes = 0;
  bool head_done = false;

  // True when `bytes` cannot complete the chunk header or the trailer that they begin: five bytes
  // ("0", two line ends) are the least. Beast stops the process over fewer after a final chunk.
  bool must_wait(std::string_view bytes) const {
    return head_done && this->chunked() && chunk_left_ == 0 && bytes.size() < 5;
  }

 protected:
  void on_header_impl(ErrorCode& ec) override {
    ec = {};
    head_done = true;
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, ErrorCode& ec) override {
    ec = {};
    if (length && *length > body_max) ec = http::error::body_limit;
  }
  std::size_t on_body_impl(BeastText bytes, ErrorCode& ec) override {
    ec = {};
    if (bytes.size() > body_max - body_bytes) {
      ec = http::error::body_limit;
      return 0;
    }
    body->append(bytes.data(), bytes.size());
    body_bytes += bytes.size();
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t size, BeastText, ErrorCode& ec) override {
    ec = {};
    chunk_left_ = size;
    ++chunks_;
    if (size > body_max - body_bytes || is_crumbled()) ec = http::error::body_limit;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, BeastText bytes, ErrorCode& ec) override {
    const std::size_t taken = on_body_impl(bytes, ec);
    chunk_left_ -= taken;
    return taken;
  }
  void on_finish_impl(ErrorCode& ec) override { ec = {}; }

 private:
  // Chunks cost more than their bytes: many tiny ones are an attack, not a body.
  bool is_crumbled() const {
    return chunks_ > kChunksFree && body_bytes / chunks_ < kChunkBytesMin;
  }

  std::uint64_t chunk_left_ = 0;
  std::uint64_t chunks_ = 0;
};

class RequestMessage final : public Message<true> {
 public:
  RequestMessage(Request& request, RequestHead& head) : request_(request), head_(head) {
    body = &request.body;
  }

 private:
  void on_request_impl(http::verb verb, BeastText, BeastText target, int version,
                       ErrorCode& ec) override {
    ec = {};
    const std::optional<Method> method = method_of(verb);
    head_.method_known = method.has_value();
    request_.method = method.value_or(Method::kGet);
    head_.target.assign(target.data(), target.size());
    head_.version = version;
  }
  void on_response_impl(int, BeastText, int, ErrorCode& ec) override {
    ec = http::error::bad_version;
  }
  void on_field_impl(http::field field, BeastText name, BeastText value, ErrorCode& ec) override {
    ec = {};
    if (head_done) return;  // A trailer.
    switch (field) {
      case http::field::content_length:
        if (seen_length_ || value.find(',') != BeastText::npos) {
          ec = http::error::bad_content_length;
        }
        seen_length_ = true;
        break;
      case http::field::transfer_encoding:
        if (!equal_ignoring_case(view(value), "chunked") || head_.version != 11) {
          ec = http::error::bad_transfer_encoding;
        }
        break;
      case http::field::host:
        ++head_.host_headers;
        break;
      case http::field::expect:
        (equal_ignoring_case(view(value), "100-continue") ? head_.expects_continue
                                                          : head_.expects_other) = true;
        break;
      default:
        break;
    }
    request_.headers.emplace_back(view(name), view(value));
  }

  Request& request_;
  RequestHead& head_;
  bool seen_length_ = false;
};

class ReplyMessage final : public Message<false> {
 public:
  explicit ReplyMessage(ClientReply& reply) : reply_(reply) {
    body = &reply.body;
    body_max = std::numeric_limits<std::uint64_t>::max();
  }

 private:
  void on_request_impl(http::verb, BeastText, BeastText, int, ErrorCode& ec) override {
    ec = http::error::bad_version;
  }
  void on_response_impl(int status, BeastText, int, ErrorCode& ec) override {
    ec = {};
    reply_.status = status;
  }
  void on_field_impl(http::field, BeastText name, BeastText value, ErrorCode& ec) override {
    ec = {};
    if (!head_done) reply_.headers.emplace_back(view(name), view(value));
  }

  ClientReply& reply_;
};

// Feeds bytes until the parser wants more than there is. Beast stops after each element when it is
// not eager, and leaves partial lines to the caller.
template <class M>
ParseStep feed(M& message, std::string_view bytes) {
  ParseStep step;
  if (message.must_wait(bytes)) return step;
  ErrorCode ec;
  step.consumed = message.put(boost::asio::const_buffer(bytes.data(), bytes.size()), ec);
  if (ec == http::error::need_more || !ec) {
    step.state = message.is_done() ? ParseState::kDone : ParseState::kNeedMore;
  } else {
    step.state = ec == http::error::body_limit ? ParseState::kBodyTooLarge : ParseState::kMalformed;
  }
  return step;
}

}  // namespace

class RequestParser::Impl {
 public:
  explicit Impl(std::size_t head_max) : head_bytes_max(head_max) {}
  std::size_t head_bytes_max;
  std::size_t head_bytes = 0;
  RequestHead head;
  std::optional<RequestMessage> message;
};

RequestParser::RequestParser(std::size_t head_bytes_max)
    : impl_(std::make_unique<Impl>(head_bytes_max)) {}
RequestParser::~RequestParser() = default;

void RequestParser::begin(Request& request) {
  std::string target = std::move(impl_->head.target);
  impl_->head = RequestHead{};
  impl_->head.target = std::move(target);  // Keeps its memory.
  impl_->head_bytes = 0;
  impl_->message.emplace(request, impl_->head);
}

ParseStep RequestParser::put_head(std::string_view bytes) {
  RequestMessage& message = *impl_->message;
  ParseStep step = feed(message, bytes);
  impl_->head_bytes += step.consumed;
  const std::size_t pending = message.head_done ? 0 : bytes.size() - step.consumed;
  if (step.state == ParseState::kMalformed) return step;
  if (impl_->head_bytes + pending > impl_->head_bytes_max) {
    step.state = ParseState::kHeadTooLarge;
    return step;
  }
  if (!message.head_done) return step;
  RequestHead& head = impl_->head;
  head.keep_alive = message.keep_alive();
  head.chunked = message.chunked();
  if (const auto length = message.content_length()) head.content_length = *length;
  if (step.state == ParseState::kNeedMore) step.state = ParseState::kHeadDone;
  return step;
}

ParseStep RequestParser::put_body(std::string_view bytes, std::uint64_t body_max) {
  RequestMessage& message = *impl_->message;
  message.eager(true);
  message.body_max = body_max;
  ParseStep step = feed(message, bytes);
  // A chunk header or trailer without an end must not grow for ever in the caller's buffer.
  if (step.state == ParseState::kNeedMore && bytes.size() - step.consumed > impl_->head_bytes_max) {
    step.state = ParseState::kMalformed;
  }
  return step;
}

const RequestHead& RequestParser::head() const { return impl_->head; }

class ReplyParser::Impl {
 public:
  std::optional<ReplyMessage> message;
  bool told_head = false;
};

ReplyParser::ReplyParser() : impl_(std::make_unique<Impl>()) {}
ReplyParser::~ReplyParser() = default;

void ReplyParser::begin(ClientReply& reply, Body body) {
  impl_->message.emplace(reply);
  if (body == Body::kNone) impl_->message->skip(true);
  impl_->told_head = false;
}

ParseStep ReplyParser::put(std::string_view bytes, std::uint64_t body_max) {
  constexpr std::size_t kHeadMax = 256 << 10;
  ReplyMessage& message = *impl_->message;
  message.body_max = body_max;
  message.eager(message.head_done);
  ParseStep step = feed(message, bytes);
  if (step.state != ParseState::kNeedMore) return step;
  if (message.head_done && !impl_->told_head) {
    impl_->told_head = true;
    step.state = ParseState::kHeadDone;
  } else if (bytes.size() - step.consumed > kHeadMax) {
    step.state = ParseState::kHeadTooLarge;
  }
  return step;
}

ParseState ReplyParser::end() {
  if (!impl_->message->head_done) return ParseState::kMalformed;
  if (impl_->message->is_done()) return ParseState::kDone;
  ErrorCode ec;
  impl_->message->put_eof(ec);
  return ec ? ParseState::kMalformed : ParseState::kDone;
}

bool ReplyParser::keep_alive() const { return impl_->message->keep_alive(); }

}  // namespace falaj::net
