// features infer: a declaration, and what to expect of rows, from a sample of a file.
#include "features/infer.h"

#include <algorithm>

#include "cli/feature_commands.h"
#include "cli/internal/tree.h"
#include "config/yaml.h"
#include "table/io.h"

namespace falaj::cli {
namespace {

constexpr std::size_t kSampleRows = 100'000;

// "data/My orders.csv" → "my_orders"
std::string name_of_file(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  name = name.substr(0, name.find('.'));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    if (c >= 'A' && c <= 'Z') return static_cast<char>(c + 32);
    const bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    return kept || c == '-' ? c : '_';
  });
  return name;
}

Result<table::Batch> first_rows(const std::string& path, table::Format format) {
  table::Batch out;
  table::ReadOptions options;
  options.on_bad_row = [](const table::BadRow&) {};  // Ingest tells about them.
  const Error enough(Code::kCancelled, "enough rows");
  const Status read = table::read_file(
      path, format, options, [&](table::Batch batch, const std::vector<std::uint64_t>&) -> Status {
        out.append(std::move(batch));
        if (out.rows() >= kSampleRows) return enough;
        return {};
      });
  if (!read.ok() && out.rows() < kSampleRows) return read.error();
  return out;
}

}  // namespace

Status features_infer(const InferChoice& choice) {
  const table::Format format =
      FALAJ_TRY(choice.format.empty() ? table::format_of_path(choice.file)
                                      : table::parse_format(choice.format));
  features::InferOptions options;
  options.name = choice.name.empty() ? name_of_file(choice.file) : choice.name;
  options.entity = choice.entity;
  options.keys = choice.keys;
  options.event_time = choice.event_time;
  options.created_time = choice.created_time;
  options.format = format == table::Format::kCsv       ? "csv"
                   : format == table::Format::kParquet ? "parquet"
                                                       : "arrow";
  options.path = choice.file;
  const table::Batch sample = FALAJ_TRY(first_rows(choice.file, format));
  const std::vector<Value> objects = FALAJ_TRY(features::infer_objects(sample, options));
  std::string text = "# From " + std::to_string(sample.rows()) + " rows of " + choice.file +
                     ". What it expects only warns: look at it before you apply it.\n";
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i > 0) text += "---\n";
    text += config::to_yaml(objects[i]);
  }
  std::fputs(text.c_str(), stdout);
  return {};
}

void Tree::add_infer(CLI::App& features) {
  CLI::App* command =
      local(features, "infer", "Write a FeatureView, and what to expect of its rows, from a file",
            [this] { return done(features_infer(infer_)); });
  command->add_option("file", infer_.file, "A sample: CSV, Parquet or Arrow; up to 100 000 rows")
      ->required();
  command->add_option("--format", infer_.format, "csv, parquet or arrow; default: by the name");
  command->add_option("--name", infer_.name, "Of the view; default: the file's");
  command->add_option("--entity", infer_.entity, "Default: the key's name without _id");
  command->add_option("--key", infer_.keys, "A key column; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--event-time", infer_.event_time, "The column that tells when it was so");
  command->add_option("--created-time", infer_.created_time,
                      "The column that tells when it was known");
}

}  // namespace falaj::cli
