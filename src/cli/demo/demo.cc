#include "cli/demo/demo.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/json.h"
#include "cli/demo/objects.h"
#include "cli/demo/payments.h"
#include "config/yaml.h"
#include "table/io.h"

namespace falaj::cli::demo {
namespace {

constexpr int kBadMerchantRows = 14;
constexpr std::int64_t kPredictBatch = 250;
constexpr std::int64_t kPatienceMs = 90'000;
constexpr int kWindowRows = 4000;  // As the Monitor in objects.cc declares.

// A folder of its own for the generated files; gone when the demo ends.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base == nullptr ? "/tmp" : base) + "/falaj-demo-XXXXXX";
    ok_ = mkdtemp(path_.data()) != nullptr;
  }
  ~ScratchFolder() {
    for (const std::string& file : files_) unlink(file.c_str());
    if (ok_) rmdir(path_.c_str());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  bool ok() const { return ok_; }
  std::string file(const std::string& name) {
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }

 private:
  std::string path_;
  bool ok_ = false;
  std::vector<std::string> files_;
};

void nap() { usleep(100'000); }

std::string fixed(double number, int digits) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, number);
  return buffer;
}

std::string thousands(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::int64_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

// The walk, a stage per function; `result_` collects what the closing object says.
class Walk {
 public:
  Walk(Session session, const DemoOptions& options, std::unique_ptr<Connection> connection)
      : session_(std::move(session)),
        connection_(std::move(connection)),
        world_(options.seed, options.end) {
    result_["seed"] = options.seed;
    result_["server"] = session_.target.server;
    result_["project"] = session_.target.project;
  }

  Status run() {
    if (!scratch_.ok()) return Error{Code::kInternal, "demo: cannot make a temporary folder"};
    FALAJ_TRY(declare());
    FALAJ_TRY(ingest_history());
    FALAJ_TRY(freeze());
    FALAJ_TRY(train());
    FALAJ_TRY(serve());
    FALAJ_TRY(calm_traffic());
    FALAJ_TRY(shifted_traffic());
    FALAJ_TRY(close_the_loop());
    FALAJ_TRY(prove());
    print(session_.format, result_, closing_table());
    return judge(result_);
  }

 private:
  Status declare();
  Status ingest_history();
  Status freeze();
  Status train();
  Status serve();
  Status calm_traffic();
  Status shifted_traffic();
  Status close_the_loop();
  Status prove();

  Status send_day(int day);
  Status predict_day(const std::vector<Payment>& payments);
  Status ingest_batch(const std::string& view, const table::Batch& batch);
  Result<Value> upload(const std::string& view, const std::string& format, const std::string& file);
  // Polls until `ready` says so; kDeadlineExceeded naming what was waited for.
  Status wait_for(const std::string& what, const std::function<Result<bool>()>& ready) const;
  Result<Value::Array> windows() const;  // Of the monitor, newest first.
  Result<Value> policy() const;
  void finish_stage(Progress& progress, const std::string& stage, const std::string& text);
  std::string closing_table() const;

  Session session_;
  std::unique_ptr<Connection> connection_;
  World world_;
  ScratchFolder scratch_;
  Value result_;
  std::vector<Payment> yesterday_;
  std::int64_t rows_ingested_ = 0;
  std::int64_t rows_quarantined_ = 0;
  std::int64_t predictions_ = 0;
  std::int64_t predict_nanos_ = 0;
};

void Walk::finish_stage(Progress& progress, const std::string& stage, const std::string& text) {
  result_["milliseconds"][stage] = progress.elapsed_ms();
  progress.done(text);
}

Status Walk::wait_for(const std::string& what, const std::function<Result<bool>()>& ready) const {
  const std::int64_t started = monotonic_nanos();
  while (!FALAJ_TRY(ready())) {
    if (monotonic_nanos() - started > kPatienceMs * 1'000'000) {
      return Error{Code::kInternal,
                   "demo: waited 90 s for " + what + "; the server's log says what holds it up"};
    }
    nap();
  }
  return {};
}

Status Walk::declare() {
  Progress progress("declare", "objects");
  const std::string yaml =
      objects_yaml(session_.target.project, world_.start_of(0), world_.start_of(kTrainDays));
  const Value reply = FALAJ_TRY(apply_yaml(*connection_, yaml));
  const auto count = reply["applied"].as_array().size();
  finish_stage(progress, "declare", std::to_string(count) + " objects");
  return {};
}

Result<Value> Walk::upload(const std::string& view, const std::string& format,
                           const std::string& file) {
  const Value report = FALAJ_TRY(
      connection_->upload("/api/v1/feature-views/" + view + ":ingest?format=" + format, file));
  rows_ingested_ += report.integer("rows_accepted");
  rows_quarantined_ += report.integer("rows_quarantined");
  return report;
}

Status Walk::ingest_batch(const std::string& view, const table::Batch& batch) {
  const std::string file = scratch_.file(view + ".parquet");
  FALAJ_TRY(table::write_file(file, table::Format::kParquet, batch));
  FALAJ_TRY(upload(view, "parquet", file));
  return {};
}

Status Walk::ingest_history() {
  Progress progress("ingest", "60 days of payments");
  std::vector<Payment> history;
  for (int day = 0; day < kTrainDays; ++day) {
    for (const Payment& payment : world_.day(day)) history.push_back(payment);
  }
  progress.set(0.3, "generated");
  FALAJ_TRY(ingest_batch("customer_activity", activity_batch(history)));
  progress.set(0.6, "customer_activity");
  FALAJ_TRY(ingest_batch("payment_labels", label_batch(history)));
  progress.set(0.9, "payment_labels");
  const std::string file = scratch_.file("merchants.csv");
  std::ofstream(file, std::ios::binary) << merchant_csv(world_.merchants(), kBadMerchantRows);
  const Value report = FALAJ_TRY(upload("merchant_profile", "csv", file));
  result_["quarantine_examples"] = report["examples"];
  finish_stage(progress, "ingest",
               thousands(rows_ingested_) + " rows, " + thousands(rows_quarantined_) +
                   " quarantined with line and reason");
  return {};
}

Status Walk::freeze() {
  Progress progress("freeze", "point-in-time join");
  const Value manifest = FALAJ_TRY(
      connection_->call(net::Method::kPost, "/api/v1/training-sets/fraud:freeze", Value::object()));
  result_["training_rows"] = manifest["rows"];
  result_["training_set"] = manifest["id"];
  finish_stage(
      progress, "freeze",
      thousands(manifest.integer("rows")) + " rows, id " + manifest.text("id").substr(0, 12));
  return {};
}

Status Walk::train() {
  Progress progress("train", "lightgbm");
  const Value started = FALAJ_TRY(
      connection_->call(net::Method::kPost, "/api/v1/train-jobs/fraud_train:run", Value::object()));
  const Value run = FALAJ_TRY(
      follow_run(*connection_, started.text("run"), started.text("job"),
                 [&](double share, const std::string& note) { progress.set(share, note); }));
  const Value& model = run["outputs"]["model"];
  result_["first_version"] = model["version"];
  result_["auc_valid"] = run["metrics"]["auc"];
  Value alias;
  alias["version"] = model["version"];
  alias["reason"] = "first model of the demo";
  FALAJ_TRY(connection_->call(net::Method::kPut, "/api/v1/models/fraud/aliases/champion", alias));
  finish_stage(progress, "train",
               "fraud version " + cell(model["version"]) + ", AUC " +
                   fixed(run["metrics"].number("auc"), 3) + ", ONNX proven on " +
                   thousands(run["outputs"]["proof"].integer("rows")) + " rows");
  return {};
}

Status Walk::serve() {
  Progress progress("serve", "fraud");
  FALAJ_TRY(wait_for("deployment fraud to be ready", [this]() -> Result<bool> {
    const Value reply = FALAJ_TRY(connection_->get("/api/v1/deployments"));
    for (const Value& each : reply["deployments"].as_array()) {
      if (each.text("name") == "fraud") return each.text("state") == "ready";
    }
    return false;
  }));
  Value body;
  body["entity"]["customer_id"] = 42;
  body["entity"]["merchant_id"] = 7;
  const std::int64_t began = monotonic_nanos();
  const Value reply = FALAJ_TRY(connection_->call(
      net::Method::kPost, "/api/v1/deployments/fraud:predict?explain=true", body));
  const double millis = static_cast<double>(monotonic_nanos() - began) * 1e-6;
  result_["prediction"] = reply["predictions"].as_array().front();
  finish_stage(progress, "serve",
               "customer 42 at merchant 7: score " +
                   fixed(result_["prediction"].number("score"), 4) + " in " + fixed(millis, 2) +
                   " ms");
  return {};
}

Status Walk::predict_day(const std::vector<Payment>& payments) {
  const std::int64_t began = monotonic_nanos();
  for (std::size_t from = 0; from < payments.size(); from += kPredictBatch) {
    Value body;
    body["entities"] = Value::array();
    const std::size_t to = std::min(payments.size(), from + kPredictBatch);
    for (std::size_t i = from; i < to; ++i) {
      Value entity;
      entity["customer_id"] = payments[i].customer_id;
      entity["merchant_id"] = payments[i].merchant_id;
      body["entities"].push(std::move(entity));
    }
    const Value reply =
        FALAJ_TRY(connection_->call(net::Method::kPost, "/api/v1/deployments/fraud:predict", body));
    predictions_ += static_cast<std::int64_t>(reply["predictions"].as_array().size());
  }
  predict_nanos_ += monotonic_nanos() - began;
  return {};
}

// What a day brings: new activity, what of yesterday turned out to be fraud, and a prediction for
// each payment.
Status Walk::send_day(int day) {
  std::vector<Payment> payments = world_.day(day);
  FALAJ_TRY(ingest_batch("customer_activity", activity_batch(payments)));
  if (!yesterday_.empty()) FALAJ_TRY(ingest_batch("payment_labels", label_batch(yesterday_)));
  FALAJ_TRY(predict_day(payments));
  yesterday_ = std::move(payments);
  return {};
}

Result<Value::Array> Walk::windows() const {
  const Value reply = FALAJ_TRY(connection_->get("/api/v1/monitors"));
  for (const Value& monitor : reply["monitors"].as_array()) {
    if (monitor.text("name") == "fraud_drift") return monitor["windows"].as_array();
  }
  return Value::Array();
}

Result<Value> Walk::policy() const {
  const Value reply = FALAJ_TRY(connection_->get("/api/v1/policies"));
  for (const Value& policy : reply["policies"].as_array()) {
    if (policy.text("policy") == "fraud_loop") return policy;
  }
  return Value();
}

Status Walk::calm_traffic() {
  Progress progress("traffic", "the same world");
  for (int day = kTrainDays; day < kShiftDay; ++day) {
    FALAJ_TRY(send_day(day));
    progress.set(static_cast<double>(day - kTrainDays + 1) / (kShiftDay - kTrainDays),
                 thousands(predictions_) + " predictions");
  }
  constexpr std::size_t kCalmWindows = (kShiftDay - kTrainDays) * kPaymentsPerDay / kWindowRows;
  FALAJ_TRY(wait_for("the calm windows", [this]() -> Result<bool> {
    return FALAJ_TRY(windows()).size() >= kCalmWindows;
  }));
  const Value window = FALAJ_TRY(windows()).front();
  result_["drift"]["before"] = window["drift"];
  finish_stage(progress, "traffic",
               thousands(predictions_) + " predictions, worst PSI " +
                   fixed(window["drift"].number("worst"), 3) + ": calm");
  return {};
}

Status Walk::shifted_traffic() {
  Progress progress("shift", "the world changes");
  int day = kShiftDay;
  const auto show = [&](std::string_view note) {
    progress.set(static_cast<double>(day - kShiftDay) / (kDays - kShiftDay), note);
  };
  const auto alarm_open = [this]() -> Result<bool> {
    return FALAJ_TRY(policy())["current"]["snapshot"]["alarm_open"] == Value(true);
  };
  // Eight days fill two windows with the new world; labels are counted once the alarm stands.
  for (; day < kShiftDay + 8; ++day) {
    FALAJ_TRY(send_day(day));
    show("watching");
  }
  FALAJ_TRY(wait_for("the drift alarm (drift was not detected)", alarm_open));
  const Value window = FALAJ_TRY(windows()).front();
  result_["drift"]["after"] = window["drift"];
  result_["drift_detected"] = window["drift"].integer("drifted") > 0;
  for (; day < kDays; ++day) {
    FALAJ_TRY(send_day(day));
    show("alarm: " + window["drift"].text("worst_feature"));
  }
  finish_stage(progress, "shift",
               "alarm: PSI " + fixed(window["drift"].number("worst"), 2) + " on " +
                   window["drift"].text("worst_feature") + ", " +
                   std::to_string(window["drift"].integer("drifted")) + " features moved");
  return {};
}

Status Walk::close_the_loop() {
  Progress progress("loop", "retrain, gate, promote");
  const auto decided = [&]() -> Result<bool> {
    const Value overview = FALAJ_TRY(connection_->get("/api/v1/overview"));
    const auto& running = overview["running"].as_array();
    const Value now = FALAJ_TRY(policy());
    progress.set(running.empty() ? 0.05 : running.front().number("progress"), now.text("phase"));
    const std::string action = now["last_action"].text("kind");
    return now.text("phase") == "watching" && (action == "promote" || action == "keep");
  };
  FALAJ_TRY(wait_for("the loop to decide", decided));
  const Value model = FALAJ_TRY(connection_->get("/api/v1/models/fraud"));
  const Value now = FALAJ_TRY(policy());
  const Value& snapshot = now["snapshot"];
  result_["versions"] = model["versions"].as_array().size();
  result_["serving_version"] = model["aliases"]["champion"];
  result_["action"] = now["last_action"];
  if (now["last_action"].text("kind") == "promote") {
    result_["promoted_version"] = model["aliases"]["champion"];
  }
  result_["auc_before"] = snapshot["champion_auc"];
  result_["auc_after"] = snapshot["candidate_auc"];
  result_["gate_rows"] = snapshot["gate_rows"];
  finish_stage(progress, "loop",
               now["last_action"].text("kind") + " version " + cell(result_["serving_version"]) +
                   ": AUC on the new world " + fixed(snapshot.number("champion_auc"), 3) + " → " +
                   fixed(snapshot.number("candidate_auc"), 3));
  return {};
}

Status Walk::prove() {
  Progress progress("prove", "audit");
  const Value verified =
      FALAJ_TRY(connection_->call(net::Method::kPost, "/api/v1/audit:verify", Value::object()));
  const Value entries = FALAJ_TRY(connection_->get("/api/v1/audit?action=loop.&limit=100"));
  std::int64_t replayed = 0;
  for (const Value& entry : entries["entries"].as_array()) {
    FALAJ_TRY(connection_->call(net::Method::kPost,
                                "/api/v1/audit/" + cell(entry["sequence"]) + ":replay",
                                Value::object()));
    ++replayed;
  }
  result_["audit"]["entries"] = verified["head"]["sequence"];
  result_["audit"]["head"] = verified["head"]["hash"];
  result_["audit"]["replayed"] = replayed;
  result_["rows_ingested"] = rows_ingested_;
  result_["rows_quarantined"] = rows_quarantined_;
  result_["predictions"] = predictions_;
  finish_stage(progress, "prove",
               cell(verified["head"]["sequence"]) + " entries verified, " +
                   std::to_string(replayed) + " decisions replayed");
  return {};
}

std::string Walk::closing_table() const {
  const Value& drift = result_["drift"];
  Table table({"STEP", "RESULT"});
  table.add({"rows ingested", thousands(result_.integer("rows_ingested")) + " (" +
                                  cell(result_["rows_quarantined"]) + " quarantined)"});
  table.add({"training rows", thousands(result_.integer("training_rows"))});
  table.add({"predictions", thousands(result_.integer("predictions")) + " at " +
                                thousands(predictions_ * 1'000'000'000 /
                                          std::max<std::int64_t>(predict_nanos_, 1)) +
                                "/s from one client"});
  table.add({"worst drift (PSI)", fixed(drift["before"].number("worst"), 3) + " calm, " +
                                      fixed(drift["after"].number("worst"), 3) + " shifted"});
  table.add({"AUC on shifted data", fixed(result_.number("auc_before"), 3) + " before, " +
                                        fixed(result_.number("auc_after"), 3) + " after"});
  table.add({"serving now", "fraud version " + cell(result_["serving_version"]) + " of " +
                                cell(result_["versions"])});
  table.add({"audit", cell(result_["audit"]["entries"]) + " entries, log holds"});
  return "\n" + table.str() +
         "\nLook at it: " + bold(session_.target.server + "/?project=" + session_.target.project) +
         "\n";
}

}  // namespace

Result<std::string> free_project(Connection& connection) {
  const Value reply = FALAJ_TRY(connection.get("/api/v1/projects"));
  const auto taken = [&](const std::string& name) {
    const auto& projects = reply["projects"].as_array();
    return std::any_of(projects.begin(), projects.end(),
                       [&](const Value& project) { return project.text("name") == name; });
  };
  std::string name = "demo";
  for (int i = 2; taken(name); ++i) name = "demo-" + std::to_string(i);
  return name;
}

Result<Value> apply_yaml(Connection& connection, const std::string& yaml) {
  Value body;
  body["objects"] = Value::array();
  for (Value& document : FALAJ_TRY(config::parse_yaml(yaml))) {
    document["apiVersion"] = "falaj.dev/v1";
    body["objects"].push(std::move(document));
  }
  return connection.call(net::Method::kPut, "/api/v1/objects", body);
}

Status judge(const Value& result) {
  const auto missed = [](const std::string& what) {
    return Error{Code::kInternal, "demo: " + what};
  };
  if (result["drift_detected"] != Value(true)) return missed("drift was not detected");
  if (result["action"].text("kind") != "promote" || !result.has("promoted_version")) {
    return missed("nothing was promoted: the loop decided to " + result["action"].text("kind") +
                  " (" + result["action"].text("reason") + ")");
  }
  if (!result["auc_before"].is_number() || !result["auc_after"].is_number() ||
      result.number("auc_after") <= result.number("auc_before")) {
    return missed("the promoted version is not better: AUC " + cell(result["auc_before"]) +
                  " before, " + cell(result["auc_after"]) + " after");
  }
  return {};
}

Status run(const Session& session, const DemoOptions& options) {
  Session own = session;
  auto first = FALAJ_TRY(Connection::open(own.target));
  own.target.project = FALAJ_TRY(free_project(*first));
  auto connection = FALAJ_TRY(Connection::open(own.target));
  return Walk(own, options, std::move(connection)).run();
}

}  // namespace falaj::cli::demo
