// jobs/runtimes.h — finds the Runtime that a command names, builds virtual environments and unpacks
// images.
//
// A build is a job of its own (type "runtime"), in a sandbox, which the command that needs it comes
// after; whoever comes later finds it built. Below `folder`:
//   builds/<job>   where one is built, and stays: its scripts hold its path
//   <digest>       a link to the build, made when that was whole and on the disk
// Builds that no link leads to are removed at the start.
#pragma once

#include <memory>
#include <string>

#include "jobs/queue.h"
#include "jobs/runtime.h"

namespace falaj::jobs {

struct RuntimesOptions {
  std::string folder;  // Absolute; made when absent.
  std::int64_t memory_bytes_max = std::int64_t{2} << 30;
  Duration run_time_max = Duration::minutes(30);
  exec::Sandbox sandbox;    // As far as it does not depend on the build.
  std::string program;      // Whose `engine unpack LAYOUT DIGEST FOLDER` unpacks an image.
  std::string oci_runtime;  // What runs images; "": nothing, and they are refused.
};

inline constexpr std::string_view kRuntimeType = "runtime";

// Thread-safe.
class Runtimes final : public Handler {
 public:
  // Call before the queue starts. `queue` outlives it.
  static Result<std::unique_ptr<Runtimes>> open(RuntimesOptions options, storage::SqlStore& sql,
                                                Queue& queue);

  // Replaces the name in payload.runtime, if there is one, by what jobs/runtime.h RuntimeUse says,
  // and lets the job come after the build that it needs, which is submitted unless one waits or
  // runs. FJ-2001 for a Runtime that the project does not have, FJ-1015 for an interpreter that is
  // not there; what Queue::submit says of the build.
  Status resolve(const security::RequestContext& context, JobSpec& spec);

  Result<exec::ChildSpec> prepare(const Job& job, const std::string& work_dir) override;
  void on_report(const Job&, const Value&) override {}
  Outcome finish(const Job& job, const exec::ChildExit& exit, const std::string& work_dir) override;
  void abandoned(const Job& job, const Error& error) override;

 private:
  Runtimes(RuntimesOptions options, storage::SqlStore& sql, Queue& queue)
      : options_(std::move(options)), sql_(sql), queue_(queue) {}
  Status sweep() const;
  Result<exec::ChildSpec> prepare_image(const Job& job, const std::string& work_dir);
  Status resolve_image(const RuntimeSpec& runtime, RuntimeUse& use) const;
  Result<RuntimeSpec> find(const std::string& project, const std::string& name) const;
  Result<JobId> build(const security::RequestContext& context, const RuntimeSpec& spec,
                      const RuntimeUse& use);
  std::string build_folder(const JobId& id) const {
    return options_.folder + "/builds/" + id.str();
  }
  bool is_published(const Job& job) const;
  void discard(const Job& job) const;
  Result<Value> publish(const Job& job) const;

  const RuntimesOptions options_;
  storage::SqlStore& sql_;
  Queue& queue_;
};

}  // namespace falaj::jobs
