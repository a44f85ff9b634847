// scheduler/rules.h — the hard rules: where a shape may be at all. Nothing later in the pipeline
// can overrule them.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/decisions.h"
#include "scheduler/snapshot.h"

namespace falaj::scheduler {

// What the rules say about one shape.
struct ShapeRules {
  std::uint64_t zones = ~0ULL;        // Where all its data may be.
  std::uint32_t choices = 1;          // How many lists of GPU models there are to try.
  std::vector<std::uint8_t> allowed;  // [choice][group][class]
  Reason never;                       // Why no node will ever do; kNone if one might.

  bool allows(std::uint32_t choice, std::size_t group, std::size_t groups, Index node_class,
              std::size_t classes) const {
    return allowed[(choice * groups + group) * classes + node_class] != 0;
  }
};

// Which rule a class breaks for a group at a choice of model: kDevice, kLabel, kTooLarge (one pod
// is larger than the node) or kNone.
ReasonCode class_rule(const NodeClass& node_class, const Shape& shape, const TaskGroup& group,
                      std::uint32_t choice);

ShapeRules shape_rules(const Snapshot& snapshot, const Shape& shape);

// Whether new pods that may run until `end` may be put on the node, or could if it had cooled down.
inline bool open_until(const Node& node, Timestamp end) {
  return node.health == NodeHealth::kUp && node.drain_at >= end;
}
inline bool open_once_cool(const Node& node, Timestamp end) {
  return (node.health == NodeHealth::kUp || node.health == NodeHealth::kHot) &&
         node.drain_at >= end;
}

}  // namespace falaj::scheduler
