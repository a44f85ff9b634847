// features: what is online about an entity.
#include <charconv>
#include <memory>

#include "base/json.h"
#include "cli/feast.h"
#include "cli/feature_commands.h"
#include "cli/internal/tree.h"
#include "cli/profile.h"

namespace falaj::cli {
namespace {

// "customer_id=42": a whole number is one, anything else is a text.
Result<Value> entity_of(const std::vector<std::string>& pairs, bool texts) {
  Value entity = Value::object();
  for (const std::string& pair : pairs) {
    const std::size_t sign = pair.find('=');
    if (sign == std::string::npos || sign == 0) {
      return Error{ErrorId::kUsage, "'" + pair + "' is no key: write it as customer_id=42"};
    }
    const std::string id = pair.substr(sign + 1);
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(id.data(), id.data() + id.size(), number);
    const bool whole = failure == std::errc() && end == id.data() + id.size();
    entity[pair.substr(0, sign)] = whole && !texts ? Value(number) : Value(id);
  }
  return entity;
}

// "amount=5": what JSON has no value of is a text.
Result<Value> row_of(const std::vector<std::string>& pairs) {
  Value row = Value::object();
  for (const std::string& pair : pairs) {
    const std::size_t sign = pair.find('=');
    if (sign == std::string::npos || sign == 0) {
      return Error{ErrorId::kUsage, "'" + pair + "' is no column: write it as amount=5"};
    }
    const std::string text = pair.substr(sign + 1);
    Result<Value> value = parse_json(text);
    row[pair.substr(0, sign)] = value.ok() ? std::move(value).value() : Value(text);
  }
  return row;
}

std::string path_of(const FeatureChoice& choice, std::string_view verb) {
  return (choice.of_view ? "/api/v1/feature-views/" : "/api/v1/feature-services/") +
         url_encode(choice.name) + ":" + std::string(verb);
}

void add_feast_folder(CLI::App& command, FeastFolder& where) {
  command.add_option("--registry", where.registry,
                     "Registry file (default: the one that feature_store.yaml names)");
}

void add_import_words(CLI::App& command, FeastImport& choice) {
  command.add_option("folder", choice.where.folder, "The folder with feature_store.yaml")
      ->required();
  add_feast_folder(command, choice.where);
  command.add_option("--out", choice.out, "Write the YAML to this new file");
  command.add_flag("--apply", choice.apply,
                   "Declare them, and ingest the Parquet files of views that have no rows");
}

void add_verify_words(CLI::App& command, FeastVerify& choice) {
  command
      .add_option("--against-feast", choice.where.folder,
                  "A Feast repository: the folder with feature_store.yaml")
      ->required();
  add_feast_folder(command, choice.where);
  command.add_option("--view", choice.views, "Only this FeatureView; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--python", choice.python,
                     "Python in which feast is installed: it is run, and answers");
  command.add_option("--answers", choice.answers,
                     "Instead: Parquet file with Feast's answers for --view and --spine");
  command.add_option("--spine", choice.spine,
                     "Rows to ask about: keys and times (default: sampled from the view's own)");
  command.add_option("--time", choice.time_column,
                     "The spine's column of times (default: event_timestamp, or the only one)");
  command.add_option("--rows", choice.rows, "Of a sampled spine")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command.add_option("--write-spine", choice.write_spine,
                     "Only write the spine of --view to this Parquet file");
}

}  // namespace

Status features_get(const Session& session, const FeatureChoice& choice) {
  Value body;
  body["entities"] = Value::array();
  body["entities"].push(FALAJ_TRY(entity_of(choice.keys, choice.text_keys)));
  for (const std::string& name : choice.features) body["features"].push(name);
  if (!choice.max_age.empty()) body["max_age"] = choice.max_age;
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply =
      FALAJ_TRY(connection->call(net::Method::kPost, path_of(choice, "read"), body));
  Table table({"FEATURE", "VALUE", "STATUS", "EVENT TIME"});
  const Value& row = items(reply["rows"]).at(0);
  for (std::size_t i = 0; i < items(reply["features"]).size(); ++i) {
    table.add({items(reply["features"])[i].as_string(), cell(items(row["values"])[i]),
               cell(items(row["statuses"])[i]), cell(items(row["event_times"])[i])});
  }
  print(session.format, reply, table.str());
  return {};
}

Status features_push(const Session& session, const FeatureChoice& choice) {
  Value body;
  body["rows"] = Value::array();
  body["rows"].push(FALAJ_TRY(row_of(choice.keys)));
  body["to"] = choice.to;
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value report = FALAJ_TRY(connection->call(
      net::Method::kPost, "/api/v1/feature-views/" + url_encode(choice.name) + ":push", body));
  Table table({"VIEW", "ROWS", "TO", "COMMIT"});
  table.add({report.text("view"), cell(report["rows"]), report.text("to"), cell(report["commit"])});
  print(session.format, report, table.str());
  return {};
}

Status features_explain(const Session& session, const FeatureChoice& choice) {
  Value body;
  body["entity"] = FALAJ_TRY(entity_of(choice.keys, choice.text_keys));
  if (!choice.at.empty()) body["at"] = choice.at;
  if (choice.commit >= 0) body["commit"] = choice.commit;
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->call(
      net::Method::kPost, "/api/v1/feature-views/" + url_encode(choice.name) + ":explain", body));
  Table table({"WHAT", "VALUE"});
  for (const char* name :
       {"status", "candidates", "event_time", "created_time", "ttl_margin_seconds", "file",
        "file_row", "commit", "row", "to", "committed_at", "action", "actor", "audit_sequence",
        "generation", "segment"}) {
    if (reply.has(name)) table.add({name, cell(reply[name])});
  }
  if (reply["features"].is_object()) {
    for (const auto& [name, value] : reply["features"].as_object()) {
      table.add({"feature " + name, cell(value)});
    }
  }
  print(session.format, reply, table.str());
  return {};
}

void Tree::add_features() {
  CLI::App* features = root_.add_subcommand(
      "features", "What is online about an entity; views from a sample or from Feast");
  features->require_subcommand(1);
  CLI::App* get = remote(*features, "get", "Read an entity's newest features",
                         [this](const Session& s) { return features_get(s, features_); });
  get->add_option("name", features_.name, "FeatureService, or with --view a FeatureView")
      ->required();
  get->add_option("key", features_.keys, "Its keys, as customer_id=42")->required();
  get->add_flag("--view", features_.of_view, "The name is that of a FeatureView");
  get->add_flag("--text-keys", features_.text_keys, "Ids are texts even if they look like numbers");
  get->add_option("--feature", features_.features, "Only this one; may be repeated")
      ->allow_extra_args(false);
  get->add_option("--max-age", features_.max_age, "Nothing older than this: 15m, 1d");

  CLI::App* why =
      remote(*features, "explain", "Where an entity's values come from, and who brought them",
             [this](const Session& s) { return features_explain(s, features_); });
  why->add_option("view", features_.name, "FeatureView")->required();
  why->add_option("key", features_.keys, "Its keys, as customer_id=42")->required();
  why->add_flag("--text-keys", features_.text_keys, "Ids are texts even if they look like numbers");
  why->add_option("--at", features_.at,
                  "What a training row of this time gets (RFC 3339); default: what is online now");
  why->add_option("--commit", features_.commit,
                  "With --at: what was read online then, by a reply that named this commit");

  CLI::App* profile = remote(*features, "profile", "What the rows of an ingest looked like",
                             [this](const Session& s) { return features_profile(s, features_); });
  profile->add_option("view", features_.name, "FeatureView")->required();
  profile->add_option("--commit", features_.commit,
                      "Of the ingest that this commit was; default: the newest");

  remote(*features, "arrivals", "Whether the rows of views keep coming, where they are expected to",
         [](const Session& s) { return features_arrivals(s); });

  CLI::App* push = remote(*features, "push", "Add one row to a feature view, durable and visible",
                          [this](const Session& s) { return features_push(s, features_); });
  push->add_option("view", features_.name, "FeatureView")->required();
  push->add_option("column", features_.keys, "Its columns, as amount=5; texts as they are")
      ->required();
  push->add_option("--to", features_.to, "What the row is for")
      ->check(CLI::IsMember({"both", "online", "offline"}))
      ->capture_default_str();
  add_infer(*features);
  add_erase(*features);

  const auto taken = std::make_shared<FeastImport>();
  add_import_words(
      *remote(*features, "import-feast",
              "Translate a Feast repository into declarations; with --apply take its rows too",
              [taken](const Session& s) { return import_feast(s, *taken); }),
      *taken);
  const auto checked = std::make_shared<FeastVerify>();
  CLI::App* verify = local(
      root_, "verify", "Compare Feast's training rows with the exact ones; exit 5 when they differ",
      [this, checked] { return run_verify(session().format, *checked); });
  add_verify_words(*verify, *checked);
  add_output(*verify);
}

}  // namespace falaj::cli
