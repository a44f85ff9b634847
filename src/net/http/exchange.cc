#include "net/http/exchange.h"

#include <array>
#include <charconv>
#include <exception>

#include "base/log.h"
#include "net/http/connection.h"
#include "net/internal/replies.h"

namespace falaj::net {
namespace {

Error thrown(std::string_view what) {
  log::error("handler threw", {{"what", what}});
  return Error(Code::kInternal, "the handler failed; the server's log says why");
}

}  // namespace

Status run_gate(const ServerCore& core, const Route& route, Request& request) {
  if (core.gate == nullptr) return {};
  try {
    const std::int64_t begun = monotonic_nanos();
    Status passed = core.gate(route, request);
    request.gate_nanos = monotonic_nanos() - begun;
    return passed;
  } catch (const std::exception& fault) {
    return thrown(fault.what());
  }
}

Response run_handler(const Route& route, const Request& request) {
  try {
    return route.sync_handler(request);
  } catch (const std::exception& fault) {
    return error_reply(route.dialect, thrown(fault.what()), 500, request);
  }
}

Exchange::Exchange(std::shared_ptr<Loop> loop, std::weak_ptr<Connection> connection,
                   Request request, const Route& route)
    : loop_(std::move(loop)),
      connection_(std::move(connection)),
      request_(std::make_shared<Request>(std::move(request))),
      route_(route) {}

Exchange::~Exchange() {
  if (!answered_.load()) {
    answer(problem(Error(Code::kInternal, "the handler ended without an answer"), *request_));
  }
}

void Exchange::answer(Response response) {
  if (answered_.exchange(true)) return;
  loop_->post([connection = connection_, request = request_,
               reply = std::make_shared<Response>(std::move(response))] {
    if (const auto alive = connection.lock()) alive->answered(*request, std::move(*reply));
  });
}

void Exchange::run(const std::shared_ptr<Exchange>& self, const ServerCore& core, GateState gate) {
  const Route& route = self->route_;
  if (core.cut.load()) return;  // Its connection was closed by the drain.
  if (gate == GateState::kOpen) {
    const Status passed = run_gate(core, route, *self->request_);
    if (!passed.ok()) {
      const int status = http_status(passed.error());
      self->answer(error_reply(route.dialect, passed.error(), status, *self->request_));
      return;
    }
  }
  if (route.handler == nullptr) {
    self->answer(run_handler(route, *self->request_));
    return;
  }
  try {
    route.handler(*self->request_,
                  [self](Response response) { self->answer(std::move(response)); });
  } catch (const std::exception& fault) {
    self->answer(error_reply(route.dialect, thrown(fault.what()), 500, *self->request_));
  }
}

bool EventStream::send(std::string_view bytes) {
  MutexLock lock(mutex_);
  if (!open_) return false;
  if (bytes.empty()) return true;
  if (queued_.size() + bytes.size() > kQueuedBytesMax) {
    open_ = false;
    overflowed_ = true;
    wake();
    return false;
  }
  if (chunked_ == Chunked::kYes) {
    std::array<char, 24> size{};
    const auto end = std::to_chars(size.data(), size.data() + size.size(), bytes.size(), 16).ptr;
    queued_.append(size.data(), end).append("\r\n").append(bytes).append("\r\n");
  } else {
    queued_.append(bytes);
  }
  wake();
  return true;
}

bool EventStream::open() const {
  MutexLock lock(mutex_);
  return open_;
}

void EventStream::close() {
  MutexLock lock(mutex_);
  if (!open_) return;
  open_ = false;
  if (chunked_ == Chunked::kYes) queued_ += "0\r\n\r\n";
  wake();
}

void EventStream::wake() {
  if (woken_) return;
  woken_ = true;
  loop_->post([connection = connection_] {
    if (const auto alive = connection.lock()) alive->stream_ready();
  });
}

EventStream::Progress EventStream::take(std::string& out) {
  MutexLock lock(mutex_);
  woken_ = false;
  if (overflowed_) return Progress::kOverflowed;
  out += queued_;
  queued_.clear();
  return open_ ? Progress::kOpen : Progress::kEnded;
}

bool EventStream::overflowed() const {
  MutexLock lock(mutex_);
  return overflowed_;
}

void EventStream::disconnect() {
  MutexLock lock(mutex_);
  open_ = false;
  queued_.clear();
}

}  // namespace falaj::net
