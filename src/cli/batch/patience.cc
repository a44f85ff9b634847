#include "cli/batch/patience.h"

#include <algorithm>
#include <charconv>

namespace falaj::cli::batch {
namespace {

constexpr std::int64_t kToldSecondsMax = 60;
constexpr Duration kFirst = Duration::milliseconds(100);
constexpr Duration kLongest = Duration::seconds(10);

std::optional<Duration> wait_after(const Result<net::ClientReply>& reply, unsigned attempt) {
  if (reply.ok()) {
    return wait_before_again(reply->status, net::find_header(reply->headers, "Retry-After"),
                             attempt);
  }
  if (reply.error().code == Code::kUnavailable) return wait_before_again(503, "", attempt);
  return std::nullopt;
}

}  // namespace

std::optional<Duration> wait_before_again(int status, std::string_view retry_after,
                                          unsigned attempt) {
  if (status != 429 && status != 503) return std::nullopt;
  std::int64_t seconds = 0;
  const auto [end, failure] =
      std::from_chars(retry_after.data(), retry_after.data() + retry_after.size(), seconds);
  if (failure == std::errc() && end == retry_after.data() + retry_after.size() && seconds >= 0 &&
      !retry_after.empty()) {
    return std::max(kFirst, Duration::seconds(std::min(seconds, kToldSecondsMax)));
  }
  return std::min(kLongest, Duration{kFirst.nanos << std::min(attempt, 10U)});
}

Result<net::ClientReply> ask_patiently(const std::function<Result<net::ClientReply>()>& ask,
                                       const Patience& patience) {
  Duration waited{};
  for (unsigned attempt = 0;; ++attempt) {
    Result<net::ClientReply> reply = ask();
    const std::optional<Duration> wait = wait_after(reply, attempt);
    if (!wait || (waited + *wait) > patience.limit) return reply;
    if (patience.waits != nullptr) ++*patience.waits;
    patience.wait(*wait);
    waited = waited + *wait;
  }
}

}  // namespace falaj::cli::batch
