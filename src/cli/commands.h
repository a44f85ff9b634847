// cli/commands.h — what each command does, once its words are parsed (cli.cc).
//
// Every command prints its answer itself and returns why it failed, which becomes the exit code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/connection.h"
#include "cli/terminal.h"

namespace falaj::cli {

struct Session {
  Target target;
  OutputFormat format = OutputFormat::kTable;
};

// Objects ("-" reads standard input; a file may hold several documents).
enum class DryRun : std::uint8_t { kNo, kYes };
Status apply_files(const Session& session, const std::vector<std::string>& files, DryRun dry_run);
// Prints what apply would change, line by line; kConflict (exit 5) when something would.
Status diff_files(const Session& session, const std::vector<std::string>& files);
Status get_object(const Session& session, const std::string& kind, const std::string& name);
Status list_objects(const Session& session, const std::string& kind);
Status delete_object(const Session& session, const std::string& kind, const std::string& name);
Status export_objects(const Session& session);

// Data. `file` empty: the path of the view's Source, read here and sent.
Status ingest(const Session& session, const std::string& view, const std::string& file,
              const std::string& format);
Status freeze(const Session& session, const std::string& set, const std::string& spine);

// Training. kWait follows the run with a progress bar and fails when it fails.
enum class Wait : std::uint8_t { kNo, kWait };
Status train(const Session& session, const std::string& job, Wait wait);
Status show_runs(const Session& session, const std::string& id);

// Serving.
Status show_models(const Session& session, const std::string& model);
Status set_alias(const Session& session, const std::string& model, const std::string& alias,
                 std::int64_t version, const std::string& reason);
// `keys` are name=value.
Status predict(const Session& session, const std::string& deployment,
               const std::vector<std::string>& keys);

// Audit.
Status show_audit(const Session& session, const std::string& action, std::int64_t limit);
Status verify_audit(const Session& session);
Status replay_audit(const Session& session, std::int64_t sequence);

// `falaj explain FJ-1003`
Status explain_error(const Session& session, const std::string& id);

// Follows a run to its end: reports progress (0–1) and the newest metrics as they come.
Result<Value> follow_run(Connection& connection, const std::string& run, const std::string& job,
                         const std::function<void(double, const std::string&)>& on_progress);

}  // namespace falaj::cli
