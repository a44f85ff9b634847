#include "cli/batch/askers.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include "base/json.h"
#include "cli/client_options.h"

namespace falaj::cli::batch {
namespace {

constexpr std::string_view kLengthHeader = "Inference-Header-Content-Length";
constexpr std::size_t kRequestBytes = 4u << 20;
// They are answered on the server's event loop: few at once, so that nobody else waits.
constexpr std::size_t kEntitiesUsual = 250;
constexpr std::size_t kEntitiesMax = 1000;

Error strange(std::string_view what) {
  return Error{Code::kInternal, "the server's answer is not understood: " + std::string(what)};
}

// One connection that asks again while the server is busy.
class Line {
 public:
  static Result<std::unique_ptr<Line>> open(const AskOptions& options, net::Headers headers) {
    net::ClientOptions client = FALAJ_TRY(client_options(options.target));
    for (auto& header : headers) client.headers.push_back(std::move(header));
    std::unique_ptr<net::Client> made = FALAJ_TRY(net::Client::create(client));
    return std::unique_ptr<Line>(new Line(std::move(made), options.patience));
  }
  Result<net::ClientReply> post(const std::string& target, std::string_view body,
                                std::string_view content_type) {
    net::ClientReply reply = FALAJ_TRY(ask_patiently(
        [&] { return client_->send(net::Method::kPost, target, body, content_type); }, patience_));
    if (reply.status != 200) return error_of_reply(reply);
    return reply;
  }

 private:
  Line(std::unique_ptr<net::Client> client, Patience patience)
      : client_(std::move(client)), patience_(std::move(patience)) {}
  std::unique_ptr<net::Client> client_;
  Patience patience_;
};

class TensorAsker final : public Asker {
 public:
  TensorAsker(const Served& served, std::vector<InputPlan> plans, std::unique_ptr<Line> line,
              std::string target)
      : served_(served),
        plans_(std::move(plans)),
        line_(std::move(line)),
        target_(std::move(target)) {}

  void plan_reads(const table::Schema& file, Typed typed) {
    for (const InputPlan& plan : plans_) {
      for (const std::string& column : plan.columns) {
        if (reads_.find(column)) continue;
        const table::Type found = file.fields[*file.find(column)].type;
        reads_.fields.push_back({column, type_to_read(plan.form, found, typed)});
      }
    }
  }
  void plan_rows(std::size_t wanted) {
    std::size_t row_bytes = 1;
    for (const InputPlan& plan : plans_) row_bytes += plan.columns.size() * 8;
    const bool one = together_of(served_.inputs, served_.outputs) == Together::kNo;
    rows_ = one ? 1 : (wanted > 0 ? wanted : served_.rows_together);
    rows_ = std::clamp<std::size_t>(kRequestBytes / row_bytes, 1, std::max<std::size_t>(rows_, 1));
  }

  Status ask(const Rows& rows, table::Batch& answered) override {
    std::string tensors;
    std::vector<std::size_t> sizes;
    for (const InputPlan& plan : plans_) {
      const std::size_t before = tensors.size();
      FALAJ_TRY(append_input(plan, rows, tensors));
      sizes.push_back(tensors.size() - before);
    }
    const std::string body = infer_head(plans_, rows.count, sizes) + tensors;
    const net::ClientReply reply =
        FALAJ_TRY(line_->post(target_, body, "application/octet-stream"));
    const Answer answer =
        FALAJ_TRY(read_answer(reply.body, net::find_header(reply.headers, kLengthHeader)));
    if (answer.version != std::to_string(served_.version)) return strange("another version's");
    if (!fields_) {
      std::vector<TensorForm> forms;
      for (const OutputTensor& output : answer.outputs) forms.push_back(output.form);
      fields_ =
          table::Schema{FALAJ_TRY(output_fields(forms, static_cast<std::int64_t>(rows.count)))};
    }
    if (answered.columns.empty()) answered = table::Batch(*fields_);
    return append_outputs(answer.outputs, rows.count, answered.columns);
  }
  Result<table::Schema> fields() const override {
    if (fields_) return *fields_;
    std::vector<TensorForm> forms = served_.outputs;
    for (TensorForm& form : forms) {
      if (!form.shape.empty()) form.shape[0] = -1;
    }
    return table::Schema{FALAJ_TRY(output_fields(forms, -1))};
  }
  const table::Schema& reads() const override { return reads_; }
  bool takes(const std::string& column) const override { return reads_.find(column).has_value(); }
  std::size_t rows_of_request() const override { return rows_; }
  void tell(Value&) const override {}

 private:
  Served served_;
  std::vector<InputPlan> plans_;
  std::unique_ptr<Line> line_;
  std::string target_;
  table::Schema reads_;
  std::optional<table::Schema> fields_;  // Set by the first answer.
  std::size_t rows_ = 1;
};

class EntityAsker final : public Asker {
 public:
  EntityAsker(const Served& served, table::Schema keys, std::unique_ptr<Line> line,
              std::string target)
      : served_(served),
        reads_(std::move(keys)),
        line_(std::move(line)),
        target_(std::move(target)) {}

  void plan_rows(std::size_t wanted) {
    rows_ = std::min(wanted > 0 ? wanted : kEntitiesUsual, kEntitiesMax);
  }

  Status ask(const Rows& rows, table::Batch& answered) override {
    const std::string body = FALAJ_TRY(entities(rows));
    const net::ClientReply reply = FALAJ_TRY(line_->post(target_, body, "application/json"));
    const Value answer = FALAJ_TRY(parse_json(reply.body, {.bytes_max = 64u << 20}));
    if (answer.integer("version") != served_.version) return strange("another version's");
    const Value::Array& predictions = items(answer["predictions"]);
    if (predictions.size() != rows.count) return strange("not one prediction for each row");
    if (answered.columns.empty()) answered = table::Batch(FALAJ_TRY(fields()));
    for (const Value& each : predictions) {
      // JSON has no NaN.
      answered.columns[0].push_double(
          each.number("score", std::numeric_limits<double>::quiet_NaN()));
    }
    const std::int64_t first = answer["commits"].integer("first");
    first_commit_ = first_commit_ ? std::min(*first_commit_, first) : first;
    last_commit_ = std::max(last_commit_, answer["commits"].integer("last"));
    return {};
  }
  Result<table::Schema> fields() const override {
    return table::Schema{{{"score", table::Type::kFloat64}}};
  }
  const table::Schema& reads() const override { return reads_; }
  bool takes(const std::string&) const override { return false; }
  std::size_t rows_of_request() const override { return rows_; }
  void tell(Value& summary) const override {
    if (!first_commit_) return;
    summary["commits"]["first"] = *first_commit_;
    summary["commits"]["last"] = last_commit_;
  }

 private:
  Result<std::string> entities(const Rows& rows) const {
    std::string body = "{\"entities\":[";
    for (std::size_t row = rows.from; row < rows.from + rows.count; ++row) {
      body += row == rows.from ? "{" : ",{";
      for (std::size_t i = 0; i < reads_.fields.size(); ++i) {
        const table::Column& column = *rows.batch.find(reads_.fields[i].name);
        if (column.is_null(row)) {
          return Error{Code::kInvalidArgument, "line " + std::to_string(rows.lines[row]) +
                                                   " has no key '" + reads_.fields[i].name + "'"};
        }
        if (i > 0) body += ',';
        append_json_string(body, reads_.fields[i].name);
        body += ':';
        if (column.type() == table::Type::kString) {
          append_json_string(body, column.strings()[row]);
        } else {
          body += std::to_string(column.ints()[row]);
        }
      }
      body += '}';
    }
    return body + "]}";
  }

  Served served_;
  table::Schema reads_;
  std::unique_ptr<Line> line_;
  std::string target_;
  std::size_t rows_ = 1;
  std::optional<std::int64_t> first_commit_;
  std::int64_t last_commit_ = 0;
};

std::string path_of(const Served& served) {
  return "/v2/models/" + url_encode(served.deployment) + "/versions/" +
         std::to_string(served.version);
}

std::string in_project(const Target& target) { return "?project=" + url_encode(target.project); }

// What the registry says of the version: its file's hash.
Status add_registered(Connection& connection, Served& served) {
  const Value model = FALAJ_TRY(connection.get("/api/v1/models/" + url_encode(served.model)));
  for (const Value& each : items(model["versions"])) {
    if (each.integer("version") == served.version) served.sha256 = each.text("onnx");
  }
  return {};
}

std::string parameter(const Value& config, std::string_view name) {
  return config["parameters"][name].text("string_value");
}

Status add_tensors(Connection& connection, Served& served) {
  const std::string path = path_of(served);
  const Value metadata = FALAJ_TRY(connection.get(path));
  served.inputs = FALAJ_TRY(tensor_forms(metadata["inputs"]));
  served.outputs = FALAJ_TRY(tensor_forms(metadata["outputs"]));
  const Value config = FALAJ_TRY(connection.get(path + "/config"));
  const std::string rows = parameter(config, "falaj_rows_together");
  served.graph = parameter(config, "falaj_graph");
  std::size_t together = 0;
  std::from_chars(rows.data(), rows.data() + rows.size(), together);
  served.rows_together = std::max<std::size_t>(together, 1);
  const std::string names = parameter(config, "falaj_features");
  if (names.empty()) return {};
  const Value features = FALAJ_TRY(parse_json(names));
  for (const Value& name : items(features)) served.features.push_back(name.as_string());
  return {};
}

}  // namespace

Result<Served> find_served(Connection& connection, const std::string& deployment,
                           std::int64_t version) {
  const Value reply = FALAJ_TRY(connection.get("/api/v1/deployments"));
  for (const Value& each : items(reply["deployments"])) {
    if (each.text("name") != deployment) continue;
    Served served;
    served.deployment = deployment;
    served.model = each.text("model");
    served.version = version > 0 ? version : each.integer("version");
    if (served.version == 0) {
      return Error{ErrorId::kModelNotReady,
                   "deployment '" + deployment + "' is not ready: " + each.text("error")};
    }
    FALAJ_TRY(add_tensors(connection, served));
    FALAJ_TRY(add_registered(connection, served));
    return served;
  }
  return Error{ErrorId::kModelNotFound, "there is no deployment '" + deployment + "' in project '" +
                                            connection.target().project + "'"};
}

Status take_key_types(Connection& connection, const std::vector<std::string>& keys,
                      table::Schema& file) {
  const Value reply = FALAJ_TRY(connection.get("/api/v1/objects?kind=Entity&project=" +
                                               url_encode(connection.target().project)));
  for (const Value& entity : items(reply["objects"])) {
    for (const Value& key : items(entity["spec"]["keys"])) {
      const std::string name = key.text("name");
      const auto at = file.find(name);
      if (!at || std::find(keys.begin(), keys.end(), name) == keys.end()) continue;
      const bool text = key.text("type") == table::type_name(table::Type::kString);
      file.fields[*at].type = text ? table::Type::kString : table::Type::kInt64;
    }
  }
  return {};
}

Status check_unchanged(Connection& connection, const Served& served) {
  if (served.graph.empty()) return {};
  const Value config = FALAJ_TRY(connection.get(path_of(served) + "/config"));
  if (parameter(config, "falaj_graph") == served.graph) return {};
  return Error{Code::kConflict, "another version of a step of '" + served.deployment +
                                    "' began to serve meanwhile; ask again"};
}

Result<std::unique_ptr<Asker>> tensor_asker(const Served& served, const AskOptions& options,
                                            const table::Schema& file, Typed typed) {
  std::vector<InputPlan> plans =
      FALAJ_TRY(plan_inputs(served.inputs, {served.features, options.inputs}, file, typed));
  net::Headers headers{{std::string(kLengthHeader), std::to_string(head_bytes(plans))}};
  std::unique_ptr<Line> line = FALAJ_TRY(Line::open(options, std::move(headers)));
  const std::string target = path_of(served) + "/infer" + in_project(options.target);
  auto asker = std::make_unique<TensorAsker>(served, std::move(plans), std::move(line), target);
  asker->plan_reads(file, typed);
  asker->plan_rows(options.rows);
  return std::unique_ptr<Asker>(std::move(asker));
}

Result<std::unique_ptr<Asker>> entity_asker(const Served& served, const AskOptions& options,
                                            const table::Schema& file) {
  table::Schema keys;
  for (const std::string& key : options.keys) {
    const auto at = file.find(key);
    if (!at) return Error{ErrorId::kSchemaMismatch, "the file has no column '" + key + "'"};
    const table::Type type = file.fields[*at].type;
    if (type != table::Type::kInt64 && type != table::Type::kString) {
      return Error{ErrorId::kSchemaMismatch, "column '" + key + "' is " +
                                                 std::string(table::type_name(type)) +
                                                 ": keys are int64 or string"};
    }
    if (keys.find(key)) return Error{ErrorId::kUsage, "--key " + key + " is given twice"};
    keys.fields.push_back(file.fields[*at]);
  }
  std::unique_ptr<Line> line = FALAJ_TRY(Line::open(options, {}));
  const std::string target = "/api/v1/deployments/" + url_encode(served.deployment) + ":predict" +
                             in_project(options.target) +
                             "&commits=true&version=" + std::to_string(served.version);
  auto asker = std::make_unique<EntityAsker>(served, std::move(keys), std::move(line), target);
  asker->plan_rows(options.rows);
  return std::unique_ptr<Asker>(std::move(asker));
}

}  // namespace falaj::cli::batch
