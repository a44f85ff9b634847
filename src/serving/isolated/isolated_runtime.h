// serving/isolated/isolated_runtime.h — a runtime whose models live in processes of their own.
//
// A model that crashes, hangs or takes more memory than it may ends its own process: the requests
// that it held fail (FJ-5003), nobody else's. The next request after a pause starts it again; the
// pause doubles with every failure in a row and is forgotten with an answer. While it lasts, and
// while another request starts it, requests are refused at once.
//
// A question costs two copies and two switches between processes on top of the model's own time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "exec/child.h"
#include "serving/runtime.h"
#include "telemetry/metrics.h"

namespace falaj::serving {

struct IsolationOptions {
  // The process that calls run_model_process (model_process.h) with so many lanes: program,
  // environment, sandbox and limits. Descriptors and channel are added.
  std::function<exec::ChildSpec(unsigned lanes)> process;
  std::string version;  // What Runtime::version() says.
  unsigned lanes = 2;   // Questions that one model is asked at a time; as many more may wait.
  Duration load_max = Duration::minutes(1);
  Duration answer_max = Duration::seconds(5);  // Past it the process is ended.
  Duration pause_min = Duration::milliseconds(100);
  Duration pause_max = Duration::seconds(30);
};

// How long to wait before a process is started again that ended `failures` times in a row, the
// last one counted.
Duration pause_after(int failures, const IsolationOptions& options);

// load_bytes() starts the process and waits until the model is ready: FJ-5002 with its words when
// it is no model, FJ-5003 when the process ends or takes longer than load_max, FJ-5005 when it
// cannot be started. run() and score() may wait up to answer_max for a lane, FJ-5040 when none
// becomes free, and up to answer_max for the answer: never on an event loop. Answers
// are checked against the signature: FJ-9001 and a new process for anything else.
std::unique_ptr<Runtime> isolated_runtime(IsolationOptions options, telemetry::Metrics& metrics);

}  // namespace falaj::serving
