// Receipts of predictions: three signed notes in base64, joined by dots.
#pragma once

#include <optional>
#include <string_view>

#include "bundle.h"

namespace falaj_verify {

// What was asked and answered, where the reader has it.
struct Exchange {
  std::optional<std::string> asked;
  std::optional<std::string> answered;
};

// Whether a key that the log's signer vouched for signed it in that key's time, and the signed head
// in it is the log's. Every byte is covered: what was changed anywhere does not hold.
Report check_receipt(std::string_view text, const Trust& trust, const Exchange& exchange);

}  // namespace falaj_verify
