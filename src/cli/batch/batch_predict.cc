#include "cli/batch/batch_predict.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/units.h"
#include "cli/batch/askers.h"
#include "cli/batch/output_file.h"
#include "cli/internal/tree.h"
#include "table/table_writer.h"

namespace falaj::cli::batch {
namespace {

constexpr std::size_t kPieceRows = 16'384;
constexpr std::size_t kPieceBytes = 32u << 20;

// The file, and how much of it was read.
class Watched final : public ByteReader {
 public:
  explicit Watched(std::unique_ptr<ByteReader> file) : file_(std::move(file)) {}
  std::int64_t size() const override { return file_->size(); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<char> out) const override {
    Result<std::size_t> got = file_->read_at(offset, out);
    if (got.ok()) read_ += *got;
    return got;
  }
  double share() const {
    const auto size = static_cast<double>(std::max<std::int64_t>(file_->size(), 1));
    return std::min(1.0, static_cast<double>(read_.load()) / size);
  }

 private:
  std::unique_ptr<ByteReader> file_;
  mutable std::atomic<std::size_t> read_ = 0;
};

// Which columns are written before the answers.
Result<std::vector<std::string>> kept_columns(const std::vector<std::string>& wanted,
                                              const table::Schema& file, const Asker& asker) {
  for (const std::string& name : wanted) {
    if (!file.find(name)) {
      return Error{ErrorId::kSchemaMismatch, "the file has no column '" + name + "' to keep"};
    }
  }
  if (!wanted.empty()) return wanted;
  std::vector<std::string> kept;
  for (const table::Field& field : file.fields) {
    if (!asker.takes(field.name)) kept.push_back(field.name);
  }
  return kept;
}

// What is read of the file: what is asked with, and what is kept. A CSV file has texts, and what is
// only kept stays the text that it is: "00042" is no number.
table::Schema columns_to_read(const table::Schema& file, table::Format format, const Asker& asker,
                              const std::vector<std::string>& kept) {
  table::Schema schema = asker.reads();
  for (const std::string& name : kept) {
    if (schema.find(name)) continue;
    table::Field field = file.fields[*file.find(name)];
    if (format == table::Format::kCsv) field.type = table::Type::kString;
    schema.fields.push_back(std::move(field));
  }
  return schema;
}

class Run {
 public:
  Run(const Served& served, const BatchChoice& choice, Asker& asker, OutputFile& out)
      : served_(served), choice_(choice), asker_(asker), out_(out) {}

  // `unchanged` has the last word before the file appears.
  Status go(const std::function<Status()>& unchanged, const Watched& file, table::Format in,
            table::Format out, const table::Schema& found) {
    format_ = out;
    kept_ = FALAJ_TRY(kept_columns(choice_.keep, found, asker_));
    table::ReadOptions options;
    options.schema = columns_to_read(found, in, asker_, kept_);
    kept_schema_ = table::Schema{};
    for (const std::string& name : kept_) {
      kept_schema_.fields.push_back(options.schema.fields[*options.schema.find(name)]);
    }
    const std::size_t row_bytes = 16 * std::max<std::size_t>(options.schema.fields.size(), 1);
    options.batch_rows = std::clamp<std::size_t>(kPieceBytes / row_bytes, 1, kPieceRows);
    Progress progress("predict", choice_.in);
    FALAJ_TRY(table::read_table(
        file, in, options,
        [&](table::Batch piece, const std::vector<std::uint64_t>& lines) -> Status {
          return answer(piece, lines,
                        [&] { progress.set(file.share(), std::to_string(rows_) + " rows"); });
        }));
    if (!writer_) FALAJ_TRY(open_writer());
    FALAJ_TRY(writer_->finish());
    FALAJ_TRY(unchanged());
    FALAJ_TRY(out_.keep());
    seconds_ = static_cast<double>(std::max<std::int64_t>(progress.elapsed_ms(), 1)) / 1000;
    progress.done(std::to_string(rows_) + " rows");
    return {};
  }

  Value summary() const {
    Value value;
    value["deployment"] = served_.deployment;
    value["model"] = served_.model;
    value["version"] = served_.version;
    value["model_sha256"] = served_.sha256;
    if (!served_.graph.empty()) value["graph_sha256"] = served_.graph;
    value["rows"] = rows_;
    value["seconds"] = seconds_;
    value["rows_per_second"] = static_cast<double>(rows_) / seconds_;
    value["requests"] = requests_;
    value["rows_per_request"] = std::uint64_t{asker_.rows_of_request()};
    value["out"] = choice_.out;
    asker_.tell(value);
    return value;
  }

 private:
  template <class Moved>
  Status answer(const table::Batch& piece, const std::vector<std::uint64_t>& lines,
                const Moved& moved) {
    table::Batch answered;
    const std::size_t step = asker_.rows_of_request();
    for (std::size_t from = 0; from < piece.rows(); from += step) {
      const std::size_t count = std::min(step, piece.rows() - from);
      FALAJ_TRY(asker_.ask({piece, lines, from, count}, answered));
      rows_ += count;
      ++requests_;
      moved();
    }
    if (piece.rows() == 0) return {};
    if (!writer_) FALAJ_TRY(open_writer());
    table::Batch written;
    for (const std::string& name : kept_) {
      const table::Column& column = *piece.find(name);
      FALAJ_TRY(written.add({name, column.type()}, column));
    }
    for (std::size_t i = 0; i < answered.columns.size(); ++i) {
      FALAJ_TRY(written.add(answered.schema.fields[i], std::move(answered.columns[i])));
    }
    return writer_->add(std::move(written));
  }

  // At the first answer: only then all columns are known.
  Status open_writer() {
    table::Schema schema = kept_schema_;
    for (const table::Field& field : FALAJ_TRY(asker_.fields()).fields) {
      if (schema.find(field.name)) {
        return Error{ErrorId::kUsage, "the file has a column '" + field.name +
                                          "', as the answers do: say with --keep what to keep"};
      }
      schema.fields.push_back(field);
    }
    table::WriteOptions options;
    options.metadata = {{"falaj.deployment", served_.deployment},
                        {"falaj.model", served_.model},
                        {"falaj.version", std::to_string(served_.version)},
                        {"falaj.model_sha256", served_.sha256}};
    if (!served_.graph.empty()) options.metadata.emplace_back("falaj.graph_sha256", served_.graph);
    writer_ = FALAJ_TRY(table::TableWriter::open(out_, format_, schema, options));
    return {};
  }

  const Served& served_;
  const BatchChoice& choice_;
  Asker& asker_;
  OutputFile& out_;
  table::Format format_ = table::Format::kParquet;
  std::vector<std::string> kept_;
  table::Schema kept_schema_;
  std::optional<table::TableWriter> writer_;
  std::uint64_t rows_ = 0;
  std::uint64_t requests_ = 0;
  double seconds_ = 1;
};

Result<table::Format> format_named(const std::string& path) {
  const Result<table::Format> format = table::format_of_path(path);
  if (!format.ok()) return Error{ErrorId::kUsage, format.error().message};
  return format;
}

Status check_choice(const BatchChoice& choice) {
  if (choice.out.empty()) return Error{ErrorId::kUsage, "--batch wants --out, where answers go"};
  if (!choice.keys.empty() && !choice.inputs.empty()) {
    return Error{ErrorId::kUsage, "give --key or --input: either features are looked up or sent"};
  }
  return {};
}

std::string text_of(const Value& summary) {
  return cell(summary["rows"]) + " rows by " + summary.text("model") + " version " +
         cell(summary["version"]) + " (sha256 " + summary.text("model_sha256").substr(0, 12) +
         "…) to " + summary.text("out") + ", " +
         std::to_string(static_cast<std::int64_t>(summary.number("rows_per_second"))) + " rows/s\n";
}

}  // namespace

Status predict_file(const Session& session, const BatchChoice& choice) {
  FALAJ_TRY(check_choice(choice));
  const table::Format in = FALAJ_TRY(format_named(choice.in));
  const table::Format out = FALAJ_TRY(format_named(choice.out));
  std::uint64_t waits = 0;
  AskOptions options{
      session.target, choice.inputs, choice.keys, static_cast<std::size_t>(choice.rows), {}};
  options.patience.limit = FALAJ_TRY(parse_duration(choice.patience));
  options.patience.waits = &waits;
  options.patience.wait = [](Duration length) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(length.nanos));
  };
  const Watched file(FALAJ_TRY(open_local_file(choice.in)));
  Result<table::Schema> found = table::read_schema(file, in);
  if (!found.ok()) return found.error().within(choice.in);
  const auto connection = FALAJ_TRY(Connection::open(session.target));
  const Served served = FALAJ_TRY(find_served(*connection, choice.deployment, choice.version));
  if (in == table::Format::kCsv && !choice.keys.empty()) {
    FALAJ_TRY(take_key_types(*connection, choice.keys, *found));
  }
  const Typed typed = in == table::Format::kCsv ? Typed::kByModel : Typed::kByFile;
  const std::unique_ptr<Asker> asker = choice.keys.empty()
                                           ? FALAJ_TRY(tensor_asker(served, options, *found, typed))
                                           : FALAJ_TRY(entity_asker(served, options, *found));
  const std::unique_ptr<OutputFile> written = FALAJ_TRY(OutputFile::create(choice.out));
  Run run(served, choice, *asker, *written);
  const Status done =
      run.go([&] { return check_unchanged(*connection, served); }, file, in, out, *found);
  if (!done.ok()) return done.error().within(choice.in + ": nothing was written");
  Value summary = run.summary();
  summary["waits"] = waits;
  print(session.format, summary, text_of(summary));
  return {};
}

}  // namespace falaj::cli::batch

namespace falaj::cli {

void Tree::add_predict() {
  CLI::App* ask = remote(
      root_, "predict", "Ask a deployment by entity id, or for every row of a file",
      [this](const Session& s) -> Status {
        if (batch_.in.empty() == words_.keys.empty()) {
          return Error{ErrorId::kUsage, "give the keys of an entity, or a file with --batch"};
        }
        if (batch_.in.empty()) return predict(s, words_.name, words_.keys);
        batch_.deployment = words_.name;
        return batch::predict_file(s, batch_);
      });
  ask->add_option("deployment", words_.name, "Deployment")->required();
  ask->add_option("keys", words_.keys, "Entity keys: customer_id=42 merchant_id=7");
  ask->add_option("--batch", batch_.in, "File of rows: .parquet, .csv or .arrow");
  ask->add_option("--out", batch_.out, "File for the answers, of any of these formats");
  ask->add_option("--key", batch_.keys,
                  "Column with an entity key, whose features the server looks up; may be repeated")
      ->allow_extra_args(false);
  ask->add_option("--input", batch_.inputs,
                  "NAME=COLUMN,COLUMN… of an input of the model (default: its features' names); "
                  "may be repeated")
      ->allow_extra_args(false);
  ask->add_option("--keep", batch_.keep,
                  "Column to write before the answers (default: all that are no input); may be "
                  "repeated")
      ->allow_extra_args(false);
  ask->add_option("--version", batch_.version, "The version that has to answer")
      ->check(CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()));
  ask->add_option("--rows", batch_.rows,
                  "Rows of a request (default: as many as are answered as each alone)")
      ->check(CLI::Range(1, 1'000'000));
  ask->add_option("--patience", batch_.patience, "How long to wait for a busy server")
      ->capture_default_str();
}

}  // namespace falaj::cli
