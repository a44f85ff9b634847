// jobs/internal/drawing.h — a scene as the scheduler's numbers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "jobs/admission.h"
#include "scheduler/snapshot.h"

namespace falaj::jobs::internal {

inline constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

// One machine is one node. Zone 0 is where it stands; a data reference that may not be there may
// only be in zone 1, where nothing is.
class Drawing {
 public:
  Drawing(const Scene& scene, Timestamp now);

  bool has_queue(const std::string& project, const std::string& name) const;

  scheduler::Snapshot snapshot;

 private:
  using Index = scheduler::Index;
  void draw_machine(const Machine& machine);
  void draw_node(const NodeSpec& spec);
  void collect_tags();
  std::uint64_t tag_bits(const std::string& project, const std::vector<std::string>& tags) const;
  std::uint64_t needed_bits(const std::string& project, const std::vector<std::string>& tags) const;
  // Parents first. A queue that was deleted under its jobs is the project's default.
  Index queue_index(const std::string& project, const std::string& name, std::size_t below = 2);
  std::vector<scheduler::Allowance> allowances_of(const QueueSpec& spec, const std::string& name);
  Index other_model();
  std::uint64_t required_labels(const Labels& labels) const;
  std::uint64_t forbidden_labels(const Labels& labels) const;
  void constrain(const Candidate& candidate, scheduler::Shape& shape);
  scheduler::Shape shape_of(const Candidate& candidate);
  Index shape_index(const Candidate& candidate);
  scheduler::Placement placement_of(const Candidate& candidate) const;
  Index array_of(const Candidate& candidate);
  void add_job(const Candidate& candidate);

  const Scene& scene_;
  const Timestamp now_;
  std::map<std::string, const QueueSpec*, std::less<>> declared_;
  std::map<std::string, Index, std::less<>> queues_;
  using ShapeKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<ShapeKey, Index> shapes_;
  std::map<std::string, Index, std::less<>> narrow_shapes_;  // Of jobs with constraints.
  std::map<std::string, Index, std::less<>> arrays_;
  std::map<std::string, unsigned, std::less<>> sought_;  // "project/tag": its bit.
  Index other_model_ = scheduler::kAbsent;
};

}  // namespace falaj::jobs::internal
