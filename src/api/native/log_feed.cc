#include "api/native/log_feed.h"

#include <algorithm>
#include <utility>

#include "api/caller.h"
#include "base/json.h"

namespace falaj::api {
namespace {

constexpr std::size_t kEachMax = 16;
constexpr std::size_t kAllMax = 256;
constexpr int kPartsPerTick = 4;

bool over(jobs::JobStatus status) {
  return status != jobs::JobStatus::kQueued && status != jobs::JobStatus::kRunning;
}

}  // namespace

Status LogFeed::room(std::string_view who) const {
  MutexLock lock(mutex_);
  const auto own = std::count_if(
      followers_.begin(), followers_.end(),
      [&](const Follower& follower) { return principal_of(follower.request).id == who; });
  if (followers_.size() < kAllMax && own < static_cast<std::ptrdiff_t>(kEachMax)) return {};
  return Error(Code::kResourceExhausted,
               "too many logs are followed already; end one of them, or ask for the log as it is");
}

void LogFeed::follow(const net::Request& request, const JobId& id,
                     std::shared_ptr<net::Stream> stream) {
  MutexLock lock(mutex_);
  followers_.push_back({request, id, std::move(stream)});
}

void LogFeed::feed(Follower& follower) const {
  const auto send = [&](const Value& value) {
    if (!follower.stream->send("data: " + to_json(value) + "\n\n")) follower.stream->close();
  };
  for (int i = 0; i < kPartsPerTick && follower.stream->open(); ++i) {
    const auto part = queue_.log_from(follower.id, follower.attempt, follower.offset);
    if (!part.ok()) return follower.stream->close();
    follower.attempt = part->attempt;
    follower.offset = part->next;
    Value value;
    if (!part->text.empty()) {
      value["attempt"] = part->attempt;
      value["offset"] = part->offset;
      value["text"] = part->text;
      send(value);
      continue;
    }
    if (!over(part->status)) return;
    value["status"] = jobs::status_name(part->status);
    send(value);
    return follower.stream->close();
  }
}

void LogFeed::tick() {
  std::vector<Follower> followers;
  {
    MutexLock lock(mutex_);
    followers.swap(followers_);
  }
  for (Follower& follower : followers) {
    if (ask_again(follower.request).ok()) {
      feed(follower);
    } else {
      follower.stream->close();
    }
  }
  std::erase_if(followers, [](const Follower& follower) { return !follower.stream->open(); });
  MutexLock lock(mutex_);
  for (Follower& added : followers_) followers.push_back(std::move(added));
  followers_ = std::move(followers);
}

}  // namespace falaj::api
