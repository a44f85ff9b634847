// cli/demo/demo.h — the whole walk on generated data, over the public API.
//
// Declare → ingest → freeze → train → register → serve → watch → retrain → promote, then proof by
// the audit. Each stage shows a progress bar; the end is a table, or one JSON object.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cli/commands.h"

namespace falaj::cli::demo {

struct DemoOptions {
  std::uint64_t seed = 20260101;
  // The world's last day ends here; midnight UTC before now by default, so that nothing is too old
  // for its time to live.
  Timestamp end{};
};

// Whether the walk's result shows what the demo is for: drift detected, a new version promoted, and
// better on the new world than the old one. The error names what is missing.
Status judge(const Value& result);

// The first of demo, demo-2, demo-3 … that is no project yet.
Result<std::string> free_project(Connection& connection);

// What `falaj apply` would do with these documents; the server's reply.
Result<Value> apply_yaml(Connection& connection, const std::string& yaml);

// Runs against session.target; fails when judge() does, after printing the result. In a
// free_project().
Status run(const Session& session, const DemoOptions& options);

}  // namespace falaj::cli::demo
