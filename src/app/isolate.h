// app/isolate.h — models in processes of their own (serving/isolated): `runtime: isolated` of a
// Deployment for ONNX Runtime, `runtime: isolated-NAME` for a library of serving.runtimes.
#pragma once

#include <string>

#include "app/options.h"
#include "serving/deployments.h"
#include "telemetry/metrics.h"

namespace falaj::app {

// Offers one for ONNX Runtime and one for each library. Such a process is confined like one that
// opens strangers' models: no network, no files but its library's folder, as much memory as
// serving.isolated_memory. `threads` run one request in it.
void offer_isolated(serving::Deployments& deployments, const Options& options, unsigned threads,
                    telemetry::Metrics& metrics);

// The process's side: `falaj engine model LANES`, started by the server only. Which library, and
// how many threads, its environment says.
int run_model_engine(const std::string& lanes);

}  // namespace falaj::app
