// net/answered.h — what became of a request, for who keeps a log of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "net/http.h"

namespace falaj::net {

struct Answered {
  // As the handler saw it: with its caller, once the gate has let it through.
  const Request& request;
  // The pattern that matched or the gRPC method; "unmatched". Never the path: it may hold an id.
  std::string_view route;
  int status = 0;              // Of HTTP; of gRPC its own, 0 when all is well.
  std::string_view code = "";  // "FJ-1006" of an error that has one.
  std::int64_t bytes_in = -1;  // Of the bodies; -1: not known, as of streams.
  std::int64_t bytes_out = -1;
  std::int64_t nanos = 0;
};

// Called on an event loop: must not block. Everything in it is valid during the call only.
using OnAnswered = std::function<void(const Answered&)>;

}  // namespace falaj::net
