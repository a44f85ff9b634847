// How many short processes a second go from being asked for to being ended and recorded, and how
// exactly limits are held. Run by bench/scenarios/job_rate.py and limits.py:
//   wards_bench rate FOLDER COUNT     /bin/true, 64 at a time, each in its own control group
//   wards_bench limits FOLDER SECONDS a hog of processor time (half a processor), one of memory
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <string>
#include <string_view>

#include "exec/testing/processes.h"
#include "exec/warden.h"
#include "exec/wards.h"

namespace falaj::exec {
namespace {

using testing::own_program;

constexpr std::size_t kAtOnce = 64;
constexpr std::int64_t kHogMemory = std::int64_t{512} << 20;
constexpr double kHogCpus = 0.5;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "wards_bench: %s\n", why.c_str());
  std::exit(1);
}

WardSpec spec_of(const std::string& folder, std::vector<std::string> argv) {
  WardSpec spec;
  spec.argv = std::move(argv);
  spec.work_dir = folder;
  spec.log_path = folder + "/log";
  spec.limits.cpus_max = 1;
  spec.limits.memory_bytes_max = 64 << 20;
  spec.limits.processes_max = 64;
  return spec;
}

std::unique_ptr<Wards> open_wards(const std::string& folder, testing::Bell& bell) {
  WardsOptions options;
  options.folder = folder + "/warden";
  options.warden = {own_program(), "warden"};
  options.changed = [&bell](std::string_view) { bell.ring(); };
  auto wards = Wards::open(std::move(options));
  if (!wards.ok()) give_up(wards.error().message);
  return std::move(*wards);
}

void require(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) {
    if (!status.ok()) give_up(status.error().message);
  }
}

// Keeps kAtOnce going; an end counts once it is on the disk, was read and is forgotten.
int measure_rate(const std::string& folder, int count) {
  testing::Bell bell;
  const auto wards = open_wards(folder, bell);
  const WardSpec spec = spec_of(folder, {"/bin/true"});
  int begun = 0;
  int ended = 0;
  const std::int64_t start = monotonic_nanos();
  const bool done = bell.wait_until([&] {
    std::vector<std::string> over;
    const auto list = wards->list();
    if (!list.ok()) give_up(list.error().message);
    for (const Ward& ward : *list) {
      if (!ward.end) continue;
      if (ward.end->reason != WardEndReason::kExited || ward.end->code != 0) {
        give_up("a ward failed: " + ward.end->detail);
      }
      over.push_back(ward.id);
    }
    require(wards->forget_all(over));
    ended += static_cast<int>(over.size());
    std::vector<std::pair<std::string, WardSpec>> next;
    while (begun < count && static_cast<std::size_t>(begun - ended) < kAtOnce) {
      next.emplace_back("b" + std::to_string(begun++), spec);
    }
    require(wards->start_all(next));
    return ended == count;
  });
  if (!done) give_up("they did not end within a minute");
  const double seconds = static_cast<double>(monotonic_nanos() - start) * 1e-9;
  std::printf("{\"per_s\": %.1f, \"count\": %d, \"seconds\": %.3f}\n", count / seconds, ended,
              seconds);
  return wards->dismiss().ok() ? 0 : 1;
}

Ward run_one(Wards& wards, testing::Bell& bell, const WardSpec& spec) {
  require(wards.start_all({{"hog", spec}}));
  Ward out;
  bell.wait_until([&] {
    const auto ward = wards.get("hog");
    if (ward.ok()) out = *ward;
    return out.end.has_value();
  });
  if (!out.end) give_up("the hog did not end within a minute");
  require({wards.forget("hog")});
  return out;
}

int measure_limits(const std::string& folder, int seconds) {
  testing::Bell bell;
  const auto wards = open_wards(folder, bell);
  WardSpec busy = spec_of(folder, {own_program(), "burn"});
  busy.limits.cpus_max = kHogCpus;
  busy.limits.run_time_max = Duration::seconds(seconds);
  const Ward burnt = run_one(*wards, bell, busy);
  const double cpus =
      burnt.end->cpu_time.as_seconds() / (burnt.end->ended_at - burnt.started_at).as_seconds();
  WardSpec large = spec_of(folder, {own_program(), "hoard"});
  large.limits.memory_bytes_max = kHogMemory;
  const Ward killed = run_one(*wards, bell, large);
  if (killed.end->reason != WardEndReason::kOutOfMemory) give_up("the hog was not stopped");
  std::ifstream told(folder + "/hoarded");
  double hoarded = 0;
  told >> hoarded;
  std::printf(
      "{\"cpu_off_percent\": %.3f, \"memory_off_percent\": %.3f, \"cpus\": %.4f, "
      "\"memory_mb\": %.1f}\n",
      std::abs(cpus / kHogCpus - 1) * 100,
      std::abs(hoarded / static_cast<double>(kHogMemory) - 1) * 100, cpus, hoarded / 1e6);
  return wards->dismiss().ok() ? 0 : 1;
}

[[noreturn]] void burn() {
  volatile unsigned turns = 0;
  while (true) turns = turns + 1;
}

// Touches a quarter of a MiB at a time and writes down how much it has, until it is killed.
int hoard() {
  constexpr std::size_t kStep = 256 << 10;
  const int told = ::open("hoarded", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (std::size_t have = kStep;; have += kStep) {
    void* piece =
        ::mmap(nullptr, kStep, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) return 1;
    std::memset(piece, 1, kStep);
    const std::string text = std::to_string(have) + "\n";
    if (::pwrite(told, text.data(), text.size(), 0) < 0) return 1;
  }
}

}  // namespace
}  // namespace falaj::exec

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "warden" && argc == 3) {
    return falaj::exec::run_warden({argv[2], falaj::Duration::seconds(20)});
  }
  if (what == "burn") falaj::exec::burn();
  if (what == "hoard") return falaj::exec::hoard();
  if (what == "rate" && argc == 4) return falaj::exec::measure_rate(argv[2], std::atoi(argv[3]));
  if (what == "limits" && argc == 4) {
    return falaj::exec::measure_limits(argv[2], std::atoi(argv[3]));
  }
  std::fprintf(stderr, "usage: wards_bench rate|limits FOLDER COUNT|SECONDS\n");
  return 2;
}
