// api/inference/nv_metrics.h — what boards and autoscalers of other servers of this dialect read:
// the counts of deployments under their names nv_*, in microseconds.
#pragma once

#include <span>
#include <string>

#include "serving/deployments.h"

namespace falaj::api {

// Prometheus text format 0.0.4; "" of nothing. Deployments without a version are left out. Pure.
std::string nv_metrics(std::span<const serving::DeploymentStatus> statuses);

}  // namespace falaj::api
