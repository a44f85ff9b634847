// net/internal/trace_ids.h — new request ids and W3C trace contexts, cheap enough for every
// request.
#pragma once

#include <cstdint>
#include <string>

namespace falaj::net {

// Makes ids without a lock or a system call (telemetry's own ask the kernel each time). One per
// thread; not for secrets.
class TraceIds {
 public:
  explicit TraceIds(std::uint64_t seed) : state_(seed) {}
  void new_request_id(std::string& out);
  void new_traceparent(std::string& out);

 private:
  std::uint64_t next();
  std::uint64_t state_;
};

}  // namespace falaj::net
