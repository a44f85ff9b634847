// cli/bench/request.h — what is sent: the parts of an address, and a body that fits a model. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/value.h"

namespace falaj::cli::bench {

struct Address {
  std::string server;  // "http://127.0.0.1:7070"
  std::string target;  // "/v2/models/fraud/infer?x=1"
};
// kInvalidArgument when it is no http(s) address with a path.
Result<Address> split_address(std::string_view url);

// The path of the model's metadata when the target is its /infer; "" otherwise.
std::string metadata_target(std::string_view target);

// An inference request of so many rows from the model's metadata: every open dimension but the
// first is 1, numbers are drawn from a fixed seed. kInvalidArgument for what it does not
// understand, for a type that JSON cannot carry and for over a million elements.
Result<std::string> infer_body(const Value& metadata, std::int64_t rows);

}  // namespace falaj::cli::bench
