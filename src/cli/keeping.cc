#include "cli/keeping.h"

#include <cstdio>

#include "base/units.h"

namespace falaj::cli {
namespace {

namespace ckpt = jobs::checkpoint;

void tell(const ckpt::Event& event) {
  if (event.kind == ckpt::EventKind::kSuperseded) return;
  std::fprintf(stderr, "falaj: checkpoint %s %s: %s\n", event.name.c_str(),
               std::string(ckpt::to_string(event.kind)).c_str(), event.message.c_str());
}

}  // namespace

Result<std::unique_ptr<Keeping>> Keeping::start(const KeepChoice& choice) {
  const Duration limit = FALAJ_TRY(parse_duration(choice.wait));
  ckpt::KeeperOptions options;
  options.archive = choice.folder;
  options.memory_folder = choice.memory_folder;
  options.keep.last = choice.last;
  options.keep.best = choice.best;
  options.keep.better = choice.lower_is_better ? ckpt::Better::kLower : ckpt::Better::kHigher;
  options.memory_bytes_max = FALAJ_TRY(parse_bytes(choice.memory));
  options.on_event = tell;
  std::unique_ptr<Keeping> keeping(new Keeping(limit));
  keeping->keeper_ = FALAJ_TRY(ckpt::Keeper::start(std::move(options), keeping->clock_));
  return keeping;
}

Result<std::string> Keeping::restore_path() {
  const std::optional<ckpt::Restored> newest = FALAJ_TRY(keeper_->restore(limit_));
  if (!newest) return std::string();
  for (const std::string& skipped : newest->skipped) {
    std::fprintf(stderr, "falaj: passed over, damaged: %s\n", skipped.c_str());
  }
  return newest->path;
}

}  // namespace falaj::cli
