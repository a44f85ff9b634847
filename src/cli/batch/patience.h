// cli/batch/patience.h — asking again when a server is busy or away.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/time.h"
#include "net/client.h"

namespace falaj::cli::batch {

// How long to wait before asking for the `attempt`th time again (0: the first): what Retry-After
// says in seconds, up to a minute; without it from 100 ms on, doubled each time, up to ten seconds.
// Nothing: the answer is final. Pure.
std::optional<Duration> wait_before_again(int status, std::string_view retry_after,
                                          unsigned attempt);

struct Patience {
  Duration limit = Duration::minutes(2);  // Waited for one answer, in all.
  std::function<void(Duration)> wait;     // Tests do not.
  std::uint64_t* waits = nullptr;         // Counted here unless null.
};

// Asks until there is an answer other than 429 and 503, or the patience ends: then the last one, or
// the last error. Errors other than kUnavailable are final.
Result<net::ClientReply> ask_patiently(const std::function<Result<net::ClientReply>()>& ask,
                                       const Patience& patience);

}  // namespace falaj::cli::batch
