// What a server that died between the end of a job and the removal of its files left behind.
#include <chrono>
#include <filesystem>
#include <set>
#include <utility>

#include "base/log.h"
#include "jobs/internal/local_queue.h"
#include "jobs/oci/bundle.h"

namespace falaj::jobs::internal {
namespace {

constexpr auto kAskAgain = std::chrono::seconds(1);
constexpr std::string_view kSwept = ".swept-";

// "01J…-2", "01J…-2.log", "01J…-2.log.tail": whose they are.
std::optional<AttemptId> owner_of(const std::string& name) {
  auto id = parse_attempt(std::string_view(name).substr(0, name.find('.')));
  return id.ok() ? std::optional<AttemptId>(std::move(*id)) : std::nullopt;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ended;
  for (std::filesystem::directory_iterator at(folder, ended), none; !ended && at != none;
       at.increment(ended)) {
    names.push_back(at->path().filename().string());
  }
  return names;
}

}  // namespace

// The folder is read before it is asked who runs: what comes later is nobody's leftover. A name is
// taken away under the lock, so that a job that begins just now makes a new one.
void LocalQueue::sweep() {
  const std::vector<std::string> names = names_in(options_.work_folder);
  if (names.empty()) return;
  std::set<AttemptId> known;
  while (executor_ != nullptr) {
    const auto listed = executor_->list();
    if (listed.ok()) {
      for (const Attempt& attempt : *listed) known.insert(attempt.id);
      break;
    }
    MutexLock lock(mutex_);
    if (changed_.wait_for(mutex_, kAskAgain,
                          [this]() FALAJ_REQUIRES(mutex_) { return stopping_; })) {
      return;
    }
  }
  const std::filesystem::path folder = options_.work_folder;
  std::size_t swept = 0;
  for (const std::string& name : names) {
    std::error_code ignored;
    if (name.starts_with(kSwept)) {
      oci::remove_bundle(folder / name);
      continue;
    }
    const auto owner = owner_of(name);
    if (!owner || known.contains(*owner)) continue;
    const std::filesystem::path aside = folder / (std::string(kSwept) + name);
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      if (running_.contains(owner->job)) continue;
      std::filesystem::rename(folder / name, aside, ignored);
    }
    oci::remove_bundle(aside);
    ++swept;
  }
  if (swept > 0) log::info("left-over files of ended jobs removed", {{"count", swept}});
}

}  // namespace falaj::jobs::internal
