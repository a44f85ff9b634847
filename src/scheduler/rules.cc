#include "scheduler/rules.h"

#include "scheduler/amounts.h"
#include "scheduler/fleet.h"
#include "scheduler/mig.h"

namespace falaj::scheduler {
namespace {

bool device_will_do(const NodeClass& c, const TaskGroup& group, std::uint32_t choice) {
  if (group.gpu.count == 0) return true;
  if (c.gpus == 0 || c.gpu_flavor != model_at(group, choice)) return false;
  if (group.gpu.mig == MigProfile::kWhole) return c.gpu_memory >= group.gpu.memory;
  if (c.mig == MigGeometry::kNone) return false;
  return c.gpu_memory * mig_shape(group.gpu.mig).slices / 8 >= group.gpu.memory;
}

// The rule that the most promising class breaks: the one that is checked last.
ReasonCode first_obstacle(const Snapshot& snapshot, const Shape& shape, const TaskGroup& group,
                          std::uint32_t choices) {
  ReasonCode nearest = ReasonCode::kDevice;
  for (const NodeClass& c : snapshot.classes) {
    for (std::uint32_t choice = 0; choice < choices; ++choice) {
      const ReasonCode code = class_rule(c, shape, group, choice);
      if (code == ReasonCode::kNone) return code;
      if (static_cast<int>(code) > static_cast<int>(nearest)) nearest = code;
    }
  }
  return nearest;
}

// The first data reference that leaves no zone that has nodes.
Index binding_reference(const Snapshot& snapshot, const Shape& shape) {
  std::uint64_t present = 0;
  for (const Node& node : snapshot.nodes) present |= 1ULL << node.zone;
  for (std::size_t i = 0; i < shape.data_zones.size(); ++i) {
    present &= shape.data_zones[i];
    if (present == 0) return static_cast<Index>(i);
  }
  return kAbsent;
}

}  // namespace

ReasonCode class_rule(const NodeClass& c, const Shape& shape, const TaskGroup& group,
                      std::uint32_t choice) {
  if (!device_will_do(c, group, choice)) return ReasonCode::kDevice;
  if ((shape.labels_required & ~c.labels) != 0 || (shape.labels_forbidden & c.labels) != 0) {
    return ReasonCode::kLabel;
  }
  if (!fit(empty_state(c, kUnlimited), c, group)) return ReasonCode::kTooLarge;
  return ReasonCode::kNone;
}

ShapeRules shape_rules(const Snapshot& snapshot, const Shape& shape) {
  ShapeRules rules;
  for (const std::uint64_t zones : shape.data_zones) rules.zones &= zones;
  rules.choices = choices(shape);
  rules.allowed.reserve(rules.choices * shape.groups.size() * snapshot.classes.size());
  for (std::uint32_t choice = 0; choice < rules.choices; ++choice) {
    for (const TaskGroup& group : shape.groups) {
      for (const NodeClass& c : snapshot.classes) {
        rules.allowed.push_back(class_rule(c, shape, group, choice) == ReasonCode::kNone);
      }
    }
  }
  rules.never.latest = Timestamp::max();
  const Index reference = binding_reference(snapshot, shape);
  if (reference != kAbsent) {
    rules.never.code = ReasonCode::kZone;
    rules.never.subject = reference;
    return rules;
  }
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    const ReasonCode code = first_obstacle(snapshot, shape, shape.groups[g], rules.choices);
    if (code == ReasonCode::kNone) continue;
    rules.never.code = code;
    rules.never.subject = static_cast<Index>(g);
    if (shape.groups[g].gpu.count > 0) rules.never.flavor = shape.groups[g].gpu.models[0];
    return rules;
  }
  return rules;
}

}  // namespace falaj::scheduler
