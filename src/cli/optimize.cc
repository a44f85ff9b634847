// models optimize.
#include "cli/optimize.h"

#include <unistd.h>

#include <algorithm>

#include "base/byte_stream.h"
#include "cli/internal/tree.h"
#include "cli/local_file.h"
#include "crypto/random.h"
#include "table/encrypted_parquet.h"
#include "table/io.h"

namespace falaj::cli {
namespace {

constexpr std::size_t kModelBytesMax = std::size_t{512} << 20;
constexpr std::size_t kRowsMax = 20'000;

Error usage(const std::string& text) { return Error{ErrorId::kUsage, text}; }

// Names come out of a file that somebody made: nothing in them may steer a terminal.
std::string plain(std::string text) {
  for (char& each : text) {
    if (static_cast<unsigned char>(each) < 0x20 || each == 0x7F) each = '?';
  }
  return text;
}

// The first rows of a table, at most kRowsMax.
class FirstRows {
 public:
  Status take(table::Batch batch) {
    rows_.append(std::move(batch));
    if (rows_.rows() < kRowsMax) return {};
    full_ = true;
    return Error{Code::kCancelled, "enough rows"};
  }
  Result<table::Batch> result(const Status& read) {
    if (!read.ok() && !full_) return read.error();
    if (rows_.rows() > kRowsMax) {
      std::vector<std::uint32_t> first(kRowsMax);
      for (std::uint32_t i = 0; i < first.size(); ++i) first[i] = i;
      return rows_.take(first);
    }
    return std::move(rows_);
  }

 private:
  table::Batch rows_;
  bool full_ = false;
};

Result<table::Batch> rows_of_file(const std::string& path) {
  const table::Format format = FALAJ_TRY(table::format_of_path(path));
  FirstRows rows;
  const Status read = table::read_file(
      path, format, {},
      [&](table::Batch batch, const auto&) -> Status { return rows.take(std::move(batch)); });
  return rows.result(read);
}

std::string bytes_of_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    bytes.push_back(static_cast<char>(value(digits[i]) << 4 | value(digits[i + 1])));
  }
  return bytes;
}

// A frozen set travels encrypted with a key made for this one call.
Result<table::Batch> rows_of_set(Connection& connection, const std::string& set) {
  const std::string digits = crypto::system_random().hex_id(crypto::kKeyBytes);
  Value body;
  body["key"] = digits;
  const net::ClientReply reply = FALAJ_TRY(connection.raw(
      net::Method::kPost, "/api/v1/training-sets/" + url_encode(set) + ":export", body));
  const std::string prefix(net::find_header(reply.headers, "Falaj-Aad-Prefix"));
  const TextReader bytes(reply.body);
  FirstRows rows;
  const Status read = table::read_encrypted_parquet(
      bytes, {bytes_of_hex(digits), prefix}, {},
      [&](table::Batch batch, const auto&) -> Status { return rows.take(std::move(batch)); });
  return rows.result(read);
}

// The newest version's number when none was named.
Result<std::int64_t> version_of(Connection& connection, const OptimizeChoice& choice) {
  if (choice.version != 0) return choice.version;
  const Value reply = FALAJ_TRY(connection.get("/api/v1/models/" + url_encode(choice.model)));
  std::int64_t newest = 0;
  for (const Value& each : items(reply["versions"])) {
    newest = std::max(newest, each.integer("version"));
  }
  if (newest > 0) return newest;
  return Error{ErrorId::kModelNotFound, "model '" + choice.model + "' has no version"};
}

Status write_out(const OptimizeChoice& choice, const OptimizeDone& done, Value& report) {
  if (choice.out.empty()) return {};
  FALAJ_TRY(write_new(choice.out, done.bytes));
  report["file"] = choice.out;
  return {};
}

Result<std::int64_t> enlist(Connection& connection, const OptimizeChoice& choice,
                            std::int64_t version, const OptimizeDone& done) {
  const Value made = FALAJ_TRY(
      connection.upload_bytes("/api/v1/models/" + url_encode(choice.model) +
                                  "/versions:import?optimized_from=" + std::to_string(version),
                              done.bytes));
  return made.integer("version");
}

std::string times(const Value& ratio) {
  return ratio.is_number() ? cell(ratio) + " times as fast" : std::string("–");
}

}  // namespace

Result<OptimizeTerms> optimize_terms(const OptimizeChoice& choice) {
  OptimizeTerms terms = choice.terms;
  std::vector<OptimizeMethod> methods;
  if (choice.int8) methods.push_back(OptimizeMethod::kInt8);
  if (choice.static_int8) methods.push_back(OptimizeMethod::kStaticInt8);
  if (choice.fp16) methods.push_back(OptimizeMethod::kHalf);
  if (choice.trim) methods.push_back(OptimizeMethod::kTrim);
  if (choice.prune != 0) methods.push_back(OptimizeMethod::kPruneUnits);
  if (choice.prune_weights != 0) methods.push_back(OptimizeMethod::kPruneWeights);
  if (methods.size() != 1) {
    return usage(
        "one of --int8, --static-int8, --fp16, --trim, --prune and --prune-weights is wanted");
  }
  if (choice.model.empty() == choice.file.empty()) {
    return usage("either a registered model or --file is wanted");
  }
  if (choice.rows.empty() == choice.training_set.empty()) {
    return usage("either --rows or --training-set is wanted: a variant is judged by its answers");
  }
  if (choice.enlist && choice.model.empty()) {
    return usage(
        "--register makes a new version of a registered model: name one instead of "
        "--file, or register the file with falaj models import");
  }
  terms.method = methods.front();
  terms.share = choice.prune != 0 ? choice.prune : choice.prune_weights;
  terms.smaller = choice.keep_if == "smaller";
  return terms;
}

std::string optimize_text(const Value& report) {
  Table nodes({"NODE", "OPERATOR", "WHAT", "BYTES BEFORE", "AFTER"});
  for (const Value& each : items(report["changed"])) {
    nodes.add({plain(each.text("node")), plain(each.text("op")), each.text("what"),
               cell(each["bytes_before"]), cell(each["bytes_after"])});
  }
  for (const Value& each : items(report["left"])) {
    nodes.add(
        {plain(each.text("node")), plain(each.text("op")), "left: " + each.text("why"), "–", "–"});
  }
  std::string text = nodes.empty() ? "" : nodes.str() + "\n";
  Table facts({"", "ORIGINAL", "VARIANT", ""});
  facts.add({"bytes", cell(report["bytes"]["before"]), cell(report["bytes"]["after"]), ""});
  if (report.has("speed")) {
    const Value& speed = report["speed"];
    facts.add({"rows/s", cell(speed["before"]), cell(speed["after"]),
               times(speed["ratio"]) + ", " + cell(speed["batch"]) + " rows a call, faster in " +
                   cell(speed["won"]) + " of " + cell(speed["rounds"]) + " rounds"});
  }
  if (report.has("quality")) {
    const Value& quality = report["quality"];
    facts.add(
        {quality.text("metric"), cell(quality["before"]), cell(quality["after"]),
         "loss " + cell(quality["loss"]) + ", " + cell(report["allowed"]["loss"]) + " allowed"});
  }
  if (report.has("difference")) {
    facts.add({"difference", "", cell(report["difference"]["mean"]),
               "standard deviations on average over " + cell(report["rows"]) + " rows, " +
                   cell(report["allowed"]["mean"]) + " allowed"});
    facts.add({"", "", cell(report["difference"]["worst"]),
               "at worst, " + cell(report["allowed"]["worst"]) + " allowed"});
  }
  text += facts.str() + "\n" + bold(report.text("verdict"));
  for (const Value& reason : items(report["reasons"])) text += "\n  " + cell(reason);
  if (report.has("file")) text += "\n  written to " + report.text("file");
  if (report.has("version")) text += "\n  registered as version " + cell(report["version"]);
  return text + "\n";
}

Status optimize_model(const Session& session, const OptimizeChoice& choice,
                      const Optimizer& optimizer) {
  OptimizeWork work;
  work.terms = FALAJ_TRY(optimize_terms(choice));
  work.label = choice.label;
  if (!choice.out.empty() && ::access(choice.out.c_str(), F_OK) == 0) {
    return Error{Code::kConflict, choice.out + " exists already: name another file"};
  }
  std::unique_ptr<Connection> connection;
  if (!choice.model.empty() || !choice.training_set.empty()) {
    connection = FALAJ_TRY(Connection::open(session.target));
  }
  std::int64_t version = 0;
  if (choice.model.empty()) {
    work.model = FALAJ_TRY(read_text(choice.file, kModelBytesMax));
  } else {
    version = FALAJ_TRY(version_of(*connection, choice));
    work.model = FALAJ_TRY(connection->raw("/api/v1/models/" + url_encode(choice.model) +
                                           "/versions/" + std::to_string(version) + "/onnx"));
  }
  work.rows = FALAJ_TRY(choice.rows.empty() ? rows_of_set(*connection, choice.training_set)
                                            : rows_of_file(choice.rows));
  OptimizeDone done = FALAJ_TRY(optimizer(work));
  const bool keep = !done.bytes.empty();
  if (keep) {
    FALAJ_TRY(write_out(choice, done, done.report));
    if (choice.enlist) {
      done.report["version"] = FALAJ_TRY(enlist(*connection, choice, version, done));
    }
  }
  print(session.format, done.report, optimize_text(done.report));
  if (keep) return {};
  return Error{Code::kFailedPrecondition, "the variant is refused; nothing was written"};
}

void Tree::add_optimize(CLI::App& models) {
  CLI::App* command =
      remote(models, "optimize",
             "Make a model faster or smaller; kept only when measured so, within the allowed loss",
             [this](const Session& s) { return optimize_model(s, optimize_, hooks_.optimize); });
  OptimizeChoice& to = optimize_;
  command->add_option("model", to.model, "Registered model to start from");
  command->add_option("--version", to.version, "Which version of it (default: the newest)")
      ->check(CLI::Range(std::int64_t{1}, INT64_MAX));
  command->add_option("--file", to.file, "Instead: an ONNX file of this machine");
  command->add_flag("--int8", to.int8, "Weights of MatMul and Gemm as whole numbers of eight bits");
  command->add_flag("--static-int8", to.static_int8,
                    "The same with Conv, and with ranges learnt from half of the rows");
  command->add_flag("--fp16", to.fp16,
                    "Weights kept as half-precision floats: smaller, not faster");
  command->add_flag("--trim", to.trim, "A tree ensemble with fewer trees and leaves");
  command
      ->add_option("--prune", to.prune, "Share of hidden units to take out, those of least weight")
      ->check(CLI::Range(0.001, 0.999));
  command
      ->add_option("--prune-weights", to.prune_weights,
                   "Share of the weights to set to zero, the smallest")
      ->check(CLI::Range(0.001, 0.999));
  command->add_option("--rows", to.rows, "Rows to judge by: CSV, Parquet or Arrow");
  command->add_option("--training-set", to.training_set,
                      "Instead: the newest frozen set of that name");
  command->add_option("--label", to.label, "Column with the truth: auc or rmse is compared too");
  command
      ->add_option("--allow-mean", to.terms.allow_mean,
                   "How far answers may lie apart on average, in standard deviations")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--allow-worst", to.terms.allow_worst, "How far at worst")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--allow-loss", to.terms.allow_loss,
                   "How much auc may fall, or rmse rise as a share")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--keep-if", to.keep_if, "faster, or smaller and not slower")
      ->check(CLI::IsMember({"faster", "smaller"}))
      ->capture_default_str();
  command->add_option("--batch", to.terms.batch, "Rows of one call while measuring")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{4096}))
      ->capture_default_str();
  command->add_option("--out", to.out, "File to write it to; must not exist");
  command->add_flag("--register", to.enlist, "Register it as the model's next version");
}

}  // namespace falaj::cli
