#include "cli/feast_python.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "base/json.h"
#include "cli/connection.h"
#include "cli/local_file.h"
#include "cli/own_machine.h"
#include "exec/child.h"

namespace falaj::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPrintedMax = 2000;

// Answers that Feast fails to give are part of what is found out, so each is caught by itself.
constexpr const char* kScript = R"(import json, sys, warnings
warnings.filterwarnings("ignore")
import feast, pandas
repository, questions, outcome = sys.argv[1:]
store = feast.FeatureStore(repo_path=repository)
told = {"version": feast.__version__, "failed": {}}
told["offline_store"] = str(getattr(store.config.offline_store, "type", "?"))
with open(questions) as file:
    asked = json.load(file)
for each in asked:
    try:
        spine = pandas.read_parquet(each["spine"])
        frame = store.get_historical_features(
            entity_df=spine, features=each["features"], full_feature_names=True
        ).to_df()
        frame.to_parquet(each["answers"])
    except Exception as error:
        words = f"{type(error).__name__}: {error}".split()
        told["failed"][each["view"]] = " ".join(words)[:500]
with open(outcome, "w") as file:
    json.dump(told, file)
)";

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    // Not resolved: a virtual environment is told by the path of its link.
    if (access(name.c_str(), X_OK) == 0) return fs::absolute(name).lexically_normal().string();
    return Error{Code::kNotFound, "--python '" + name + "' is no program that can be run"};
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/" + name;
    if (folder.starts_with("/") && access(program.c_str(), X_OK) == 0) return program;
  }
  return Error{Code::kNotFound, "no program '" + name + "' is in PATH: pass its path to --python"};
}

Value to_value(const std::vector<FeastQuestion>& questions) {
  Value out = Value::array();
  for (const FeastQuestion& question : questions) {
    Value each;
    each["view"] = question.view;
    each["spine"] = question.spine;
    each["answers"] = question.answers;
    each["features"] = Value::array();
    for (const std::string& name : question.features) each["features"].push(name);
    out.push(std::move(each));
  }
  return out;
}

Status run(const std::string& program, std::vector<std::string> words, const std::string& folder) {
  exec::ChildSpec spec;
  spec.argv = {program};
  spec.argv.insert(spec.argv.end(), words.begin(), words.end());
  spec.env = own_environment();
  spec.env.emplace_back("FEAST_USAGE", "False");  // Older ones report to their makers.
  spec.work_dir = folder;
  spec.channel_fd = -1;
  const std::unique_ptr<exec::Child> child = FALAJ_TRY(exec::Child::start(std::move(spec)));
  const exec::ChildExit end = child->wait();
  if (end.reason == exec::ExitReason::kExited && end.code == 0) return {};
  std::string said = end.output;
  if (said.size() > kPrintedMax) said = said.substr(said.size() - kPrintedMax);
  return Error{Code::kFailedPrecondition,
               "Feast did not answer in " + program + ", which printed:\n" + said};
}

}  // namespace

Result<FeastOutcome> ask_feast(const std::string& python, const std::string& repository,
                               const std::string& folder,
                               const std::vector<FeastQuestion>& questions) {
  const std::string program = FALAJ_TRY(find_program(python));
  const std::string script = folder + "/answers.py";
  const std::string asked = folder + "/questions.json";
  const std::string told = folder + "/outcome.json";
  FALAJ_TRY(write_new(script, kScript));
  FALAJ_TRY(write_new(asked, to_json(to_value(questions))));
  const std::string where = fs::absolute(repository).lexically_normal().string();
  FALAJ_TRY(run(program, {script, where, asked, told}, folder));
  const std::string text = FALAJ_TRY(read_text(told));
  const Value value = FALAJ_TRY(parse_json(text));
  FeastOutcome out;
  out.version = value.text("version");
  out.offline_store = value.text("offline_store");
  if (!value["failed"].is_object()) return out;
  for (const auto& [view, why] : value["failed"].as_object()) {
    out.failed.emplace(view, why.is_string() ? why.as_string() : "it failed");
  }
  return out;
}

}  // namespace falaj::cli
