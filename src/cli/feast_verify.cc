// verify --against-feast: Feast's point-in-time answers beside the exact ones. Its words:
// features.cc.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "cli/feast.h"
#include "cli/feast_python.h"
#include "features/feast/rows.h"
#include "features/feast/verify.h"
#include "launch/launch.h"
#include "table/io.h"

namespace falaj::cli {
namespace {

namespace feast = features::feast;
using table::Batch;
using table::Type;

constexpr const char* kFeastTime = "event_timestamp";

// A view with what is asked about it; `why` says why nothing is.
struct Checked {
  const feast::ViewPlan* view = nullptr;
  Batch spine;
  std::string time_column = kFeastTime;
  std::string answers;
  std::string why;
  feast::Comparison found;
};

Result<std::vector<Checked>> chosen_views(const FeastRepository& repository,
                                          const std::vector<std::string>& names) {
  std::vector<Checked> out;
  for (const feast::ViewPlan& view : repository.translation.views) {
    const bool wanted = names.empty() || std::count(names.begin(), names.end(), view.feast_name);
    if (!wanted) continue;
    Checked& added = out.emplace_back();
    added.view = &view;
    if (view.path.empty()) added.why = "its rows are in no file of this machine";
  }
  for (const std::string& name : names) {
    const bool there = std::any_of(
        out.begin(), out.end(), [&](const Checked& each) { return each.view->feast_name == name; });
    if (!there) {
      return Error{Code::kNotFound,
                   "no FeatureView '" + name +
                       "' of the repository can be checked; "
                       "falaj features import-feast says which there are, and why not all"};
    }
  }
  if (out.empty()) {
    return Error{Code::kFailedPrecondition, "the repository has no FeatureView to check"};
  }
  return out;
}

Result<std::string> time_column_of(const Batch& spine, const std::string& asked) {
  if (!asked.empty()) return asked;
  if (spine.find(kFeastTime) != nullptr) return std::string(kFeastTime);
  std::vector<std::string> times;
  for (const table::Field& field : spine.schema.fields) {
    if (field.type == Type::kTimestamp) times.push_back(field.name);
  }
  if (times.size() == 1) return times[0];
  return Error{ErrorId::kSpineInvalid,
               "the spine has no column event_timestamp: name its column of times with --time"};
}

// The file, its rows numbered unless they are.
Status read_spine(const FeastVerify& choice, Checked& out) {
  const table::Format format = FALAJ_TRY(table::format_of_path(choice.spine));
  out.spine = FALAJ_TRY(table::read_all(choice.spine, format));
  out.time_column = FALAJ_TRY(time_column_of(out.spine, choice.time_column));
  if (out.spine.find(feast::kRowNumber) != nullptr) return {};
  std::vector<std::int64_t> numbers(out.spine.rows());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  return out.spine.add({std::string(feast::kRowNumber), Type::kInt64},
                       table::Column::of_ints(Type::kInt64, std::move(numbers)));
}

// What cannot be asked about one view does not stop the others.
void prepare(const FeastVerify& choice, Checked& each) {
  if (!each.why.empty()) return;
  const Status ready = [&]() -> Status {
    if (!choice.spine.empty()) {
      FALAJ_TRY(read_spine(choice, each));
    } else {
      const Batch rows = FALAJ_TRY(feast::read_rows(*each.view));
      each.spine = feast::sample_spine(
          *each.view, rows, {static_cast<std::size_t>(std::max<std::int64_t>(choice.rows, 1))});
    }
    for (const table::Field& key : each.view->keys) {
      if (each.spine.find(key.name) != nullptr) continue;
      return Error{ErrorId::kEntityKeyMissing, "the spine lacks its key " + key.name};
    }
    if (each.spine.rows() > 0) return {};
    return Error{ErrorId::kSpineInvalid, "there is no row to ask about"};
  }();
  if (!ready.ok()) each.why = ready.error().message;
}

// Asks Feast about every view that can be asked about.
Result<FeastOutcome> ask(const FeastVerify& choice, const std::string& folder,
                         std::vector<Checked>& views) {
  std::vector<FeastQuestion> questions;
  for (Checked& each : views) {
    if (!each.why.empty()) continue;
    const std::string number = folder + "/" + std::to_string(questions.size());
    FeastQuestion question;
    question.view = each.view->feast_name;
    question.spine = number + ".spine.parquet";
    question.answers = each.answers = number + ".answers.parquet";
    for (const table::Field& feature : each.view->features) {
      question.features.push_back(question.view + ":" + feature.name);
    }
    FALAJ_TRY(table::write_file(question.spine, table::Format::kParquet, each.spine));
    questions.push_back(std::move(question));
  }
  if (questions.empty()) return FeastOutcome{};
  Progress progress("feast", choice.where.folder);
  FeastOutcome out = FALAJ_TRY(ask_feast(choice.python, choice.where.folder, folder, questions));
  progress.done("Feast " + out.version + ", " + out.offline_store);
  for (Checked& each : views) {
    const auto failed = out.failed.find(each.view->feast_name);
    if (each.why.empty() && failed != out.failed.end()) {
      each.why = "Feast failed: " + failed->second;
    }
  }
  return out;
}

// A view whose files cannot be read is told about; a fault of ours stops everything.
Status compare(Checked& each) {
  if (!each.why.empty()) return {};
  const Result<feast::Comparison> found = [&]() -> Result<feast::Comparison> {
    const Batch rows = FALAJ_TRY(feast::read_rows(*each.view));
    const Batch answers = FALAJ_TRY(table::read_all(each.answers, table::Format::kParquet));
    return feast::compare_answers({*each.view, rows, each.spine, each.time_column, answers});
  }();
  if (found.ok()) {
    each.found = *found;
  } else if (found.error().code == Code::kInternal) {
    return found.error();
  } else {
    each.why = found.error().message;
  }
  return {};
}

Value to_value(const feast::Example& example) {
  Value out;
  out["spine_row"] = example.spine_row;
  out["key"] = example.key;
  out["at"] = example.at;
  if (example.feature.empty()) return out;
  out["feature"] = example.feature;
  out["exact"] = example.exact;
  out["feast"] = example.theirs;
  return out;
}

Value to_value(const Checked& each) {
  Value out;
  out["view"] = each.view->feast_name;
  if (!each.why.empty()) {
    out["not_checked"] = each.why;
    return out;
  }
  out["spine_rows"] = each.found.spine_rows;
  out["answer_rows"] = each.found.answer_rows;
  out["right_rows"] = each.found.right_rows;
  out["order_kept"] = each.found.order_kept;
  out["faults"] = Value::array();
  for (const auto& [fault, rows] : each.found.counts) {
    Value row;
    row["fault"] = feast::fault_name(fault);
    row["what"] = feast::fault_text(fault);
    row["rows"] = rows;
    row["examples"] = Value::array();
    for (const feast::Example& example : each.found.examples.at(fault)) {
      row["examples"].push(to_value(example));
    }
    out["faults"].push(std::move(row));
  }
  return out;
}

std::string tables_of(const std::vector<Checked>& views) {
  Table table({"VIEW", "SPINE ROWS", "RIGHT", "FAULT", "ROWS", "WHAT"});
  Table examples({"VIEW", "FAULT", "KEY", "AT", "FEATURE", "EXACT", "FEAST"});
  for (const Checked& each : views) {
    const std::string& name = each.view->feast_name;
    const feast::Comparison& found = each.found;
    if (!each.why.empty()) table.add({name, "", "", "not checked", "", each.why});
    const std::string rows = std::to_string(found.spine_rows);
    const std::string right = std::to_string(found.right_rows);
    if (each.why.empty() && found.counts.empty()) table.add({name, rows, right, "none", "0", ""});
    for (const auto& [fault, count] : found.counts) {
      const std::string kind(feast::fault_name(fault));
      table.add(
          {name, rows, right, kind, std::to_string(count), std::string(feast::fault_text(fault))});
      for (const feast::Example& one : found.examples.at(fault)) {
        examples.add({name, kind, one.key, one.at, one.feature, one.exact, one.theirs});
      }
    }
  }
  return table.str() + (examples.empty() ? "" : "\n" + examples.str());
}

Status check_words(const FeastVerify& choice) {
  const int ways = static_cast<int>(!choice.python.empty()) +
                   static_cast<int>(!choice.answers.empty()) +
                   static_cast<int>(!choice.write_spine.empty());
  if (ways != 1) {
    return Error{ErrorId::kUsage,
                 "pass one of: --python PATH, where Feast is installed; --answers FILE, what Feast "
                 "answered; --write-spine FILE, to ask Feast elsewhere"};
  }
  if (choice.python.empty() && choice.views.size() != 1) {
    return Error{ErrorId::kUsage, "which view? a file is of one: pass --view NAME"};
  }
  if (!choice.answers.empty() && choice.spine.empty()) {
    return Error{ErrorId::kUsage, "--answers are those of a spine: pass it with --spine FILE"};
  }
  return {};
}

}  // namespace

Result<std::uint64_t> verify_feast(OutputFormat format, const FeastVerify& choice) {
  FALAJ_TRY(check_words(choice));
  const FeastRepository repository = FALAJ_TRY(open_feast(choice.where));
  std::vector<Checked> views = FALAJ_TRY(chosen_views(repository, choice.views));
  for (Checked& each : views) prepare(choice, each);
  if (!choice.write_spine.empty()) {
    if (!views[0].why.empty()) return Error{Code::kFailedPrecondition, views[0].why};
    FALAJ_TRY(table::write_file(choice.write_spine, table::Format::kParquet, views[0].spine));
    return std::uint64_t{0};
  }
  const launch::LaunchFolder folder = FALAJ_TRY(launch::LaunchFolder::create());
  FeastOutcome outcome;
  if (choice.python.empty()) {
    views[0].answers = choice.answers;
  } else {
    outcome = FALAJ_TRY(ask(choice, folder.path(), views));
  }
  Value report;
  report["project"] = repository.project;
  report["feast"] = outcome.version;
  report["offline_store"] = outcome.offline_store;
  report["views"] = Value::array();
  std::uint64_t faults = 0;
  bool any = false;
  for (Checked& each : views) {
    FALAJ_TRY(compare(each));
    any = any || each.why.empty();
    faults += each.found.faults();
    report["views"].push(to_value(each));
  }
  report["faults"] = faults;
  print(format, report, tables_of(views));
  if (any) return faults;
  return Error{Code::kFailedPrecondition, "no view could be checked: " + views[0].why};
}

int run_verify(OutputFormat format, const FeastVerify& choice) {
  const Result<std::uint64_t> faults = verify_feast(format, choice);
  if (!faults.ok()) return fail(faults.error());
  if (*faults == 0) return 0;
  std::fprintf(stderr, "falaj: Feast's answers are wrong in %llu row(s)\n",
               static_cast<unsigned long long>(*faults));
  return static_cast<int>(ExitCode::kConflict);
}

}  // namespace falaj::cli
