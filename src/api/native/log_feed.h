// api/native/log_feed.h — what jobs print, sent as it comes to those who follow.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "jobs/queue.h"
#include "net/router.h"

namespace falaj::api {

// Thread-safe. tick() is called by one background ticker, about twice a second.
class LogFeed {
 public:
  explicit LogFeed(const jobs::Queue& queue) : queue_(queue) {}

  // kResourceExhausted when `who` or all together follow as many logs as is allowed.
  Status room(std::string_view who) const;
  // From the beginning of the newest attempt. Keeps the stream and returns.
  void follow(const net::Request& request, const JobId& id, std::shared_ptr<net::Stream> stream);
  // Sends what is new, at most 256 KiB to each; says how a job ended, and closes. Who would not be
  // let through any more is cut off.
  void tick();

 private:
  struct Follower {
    net::Request request;
    JobId id;
    std::shared_ptr<net::Stream> stream;
    int attempt = 0;
    std::int64_t offset = 0;
  };
  void feed(Follower& follower) const;

  const jobs::Queue& queue_;
  mutable Mutex mutex_;
  std::vector<Follower> followers_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::api
