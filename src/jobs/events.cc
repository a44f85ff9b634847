#include "jobs/events.h"

#include <algorithm>
#include <array>

namespace falaj::jobs {
namespace {

constexpr std::array<std::string_view, 5> kStatusNames{"queued", "running", "succeeded", "failed",
                                                       "cancelled"};
constexpr std::array<std::string_view, 5> kEventNames{"submitted", "admitted", "requeued", "ended",
                                                      "cancel_asked"};

bool ended(JobStatus status) {
  return status != JobStatus::kQueued && status != JobStatus::kRunning;
}

Error cannot(const Progress& before, const Event& event) {
  return Error(Code::kConflict, "'" + std::string(event_name(event.kind)) + "' of attempt " +
                                    std::to_string(event.attempt) + " cannot follow: the job is " +
                                    std::string(status_name(before.status)) + " with attempt " +
                                    std::to_string(before.epoch));
}

}  // namespace

std::string_view status_name(JobStatus status) {
  return kStatusNames[static_cast<std::size_t>(status)];
}
std::string_view event_name(EventKind kind) { return kEventNames[static_cast<std::size_t>(kind)]; }

Value to_value(const Event& event) {
  Value value;
  value["sequence"] = event.sequence;
  value["at"] = to_rfc3339(event.at);
  value["event"] = event_name(event.kind);
  value["attempt"] = event.attempt;
  value["detail"] = event.detail;
  // The log has a route of its own.
  if (value["detail"].is_object()) {
    value["detail"].as_object().erase("log");
    value["detail"].as_object().erase("log_offset");
  }
  return value;
}

Result<Progress> apply(const Progress& before, const Event& event) {
  Progress after = before;
  if (ended(before.status)) return cannot(before, event);
  switch (event.kind) {
    case EventKind::kSubmitted:
      if (event.sequence != 1) return cannot(before, event);
      return after;
    case EventKind::kAdmitted:
      if (before.status != JobStatus::kQueued || event.attempt != before.epoch + 1) {
        return cannot(before, event);
      }
      after.status = JobStatus::kRunning;
      after.epoch = event.attempt;
      after.attempts = static_cast<int>(event.detail.integer("attempts"));
      return after;
    case EventKind::kRequeued:
      if (before.status != JobStatus::kRunning || event.attempt != before.epoch) {
        return cannot(before, event);
      }
      after.status = JobStatus::kQueued;
      after.attempts = static_cast<int>(event.detail.integer("attempts"));
      after.error = event.detail.text("error");
      return after;
    case EventKind::kEnded: {
      if (event.attempt != before.epoch) return cannot(before, event);
      const auto at =
          std::find(kStatusNames.begin(), kStatusNames.end(), event.detail.text("status"));
      if (at == kStatusNames.end()) return cannot(before, event);
      after.status = static_cast<JobStatus>(at - kStatusNames.begin());
      if (!ended(after.status)) return cannot(before, event);
      after.error = event.detail.text("error");
      after.result = event.detail["result"];
      after.ended_at = event.at;
      return after;
    }
    case EventKind::kCancelAsked:
      return after;
  }
  return cannot(before, event);
}

Result<Progress> fold(const std::vector<Event>& events) {
  Progress progress;
  std::int64_t expected = 1;
  for (const Event& event : events) {
    auto next = event.sequence == expected++ ? apply(progress, event)
                                             : Result<Progress>(cannot(progress, event));
    if (!next.ok()) return Error(ErrorId::kDatabaseCorrupt, next.error().message);
    progress = std::move(next).value();
  }
  return progress;
}

}  // namespace falaj::jobs
