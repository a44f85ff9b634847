// exec/internal/memory_group.h — a control group around one child: its memory limit, its peak, and
// the certainty that no descendant outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "exec/internal/fd.h"

namespace falaj::exec::internal {

class MemoryGroup {
 public:
  // Under this process's own group: version 2 where its memory controller is ours to use, else
  // version 1. `bytes_max` 0 sets no limit. kUnavailable when neither can be written.
  // Groups that a dead Falaj process left behind are emptied and removed on the way.
  static Result<std::unique_ptr<MemoryGroup>> create(std::int64_t bytes_max);
  ~MemoryGroup();  // Kills what is left inside and removes the group.

  // The child writes "0" here to move itself in.
  int procs_fd() const { return procs_.get(); }
  // Whether the kernel killed something here for want of memory.
  bool out_of_memory() const;
  std::int64_t peak_bytes() const;  // 0 if the kernel does not say.
  void kill_all() const;

 private:
  enum class Version : std::uint8_t { kV1, kV2 };
  MemoryGroup(Version version, std::string folder)
      : version_(version), folder_(std::move(folder)) {}
  static std::unique_ptr<MemoryGroup> create_in(Version version, const std::string& parent,
                                                std::int64_t bytes_max);
  Status limit(std::int64_t bytes_max) const;

  Version version_;
  std::string folder_;
  Fd procs_;
};

}  // namespace falaj::exec::internal
