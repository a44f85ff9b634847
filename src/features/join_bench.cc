// For ./dev bench features and windows: the point-in-time join by itself, on segments that an
// ingest would have written. Prints JSON.
//
//   join_bench import FOLDER VIEW.parquet …     columns id, at and float64 features f…
//   join_bench join FOLDER TTL_SECONDS MEMORY_MB
//     each line of the input is a SPINE.parquet (id, at), answered by a line: seconds, those of
//     processors, hashes
//   join_bench windows FOLDER MEMORY_MB DAYS …  the same, of count, sum, mean, min and max of f0
//   over
//                                               each of these windows instead of the features
//
// The store is the product's, without sealing.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "features/internal/segment_writer.h"
#include "features/point_in_time_join.h"
#include "storage/open.h"
#include "table/io.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

storage::Owner owner_of(std::size_t view) {
  return owner_of_view("bench", Zone("bench"), "view" + std::to_string(view));
}

double seconds_since(std::int64_t began) {
  return static_cast<double>(monotonic_nanos() - began) * 1e-9;
}

// Of all threads, the kernel's work for them included: what a busy machine does not change much.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

// The file's columns as a segment has them.
Batch segment_rows(Batch file, std::int64_t& position) {
  Batch out;
  const std::size_t rows = file.rows();
  const auto add = [&](std::string_view name, Type type, Column column) {
    out.schema.fields.push_back({std::string(name), type});
    out.columns.push_back(std::move(column));
  };
  add("id", Type::kInt64, *file.find("id"));
  add(kEventColumn, Type::kTimestamp, *file.find("at"));
  add(kCreatedColumn, Type::kTimestamp,
      Column(Type::kTimestamp).take(std::vector<std::uint32_t>(rows, Column::kNoRow)));
  std::vector<std::int64_t> positions(rows);
  for (std::int64_t& one : positions) one = position++;
  add(kRowColumn, Type::kInt64, Column::of_ints(Type::kInt64, std::move(positions)));
  for (std::size_t i = 0; i < file.columns.size(); ++i) {
    const std::string& name = file.schema.fields[i].name;
    if (name != "id" && name != "at") add(name, Type::kFloat64, std::move(file.columns[i]));
  }
  return out;
}

Status import_view(storage::BlobStore& blobs, std::size_t view, const std::string& path,
                   std::ostream& list) {
  SegmentWriter writer(blobs, owner_of(view), 1, OnlineUse::kOffline);
  std::int64_t position = 0;
  FALAJ_TRY(table::read_file(path, table::Format::kParquet, {},
                             [&](Batch batch, const std::vector<std::uint64_t>&) {
                               return writer.add(segment_rows(std::move(batch), position));
                             }));
  FALAJ_TRY(writer.finish());
  for (const Segment& segment : FALAJ_TRY(writer.commit())) {
    list << view << ' ' << segment.blob.str() << ' ' << segment.rows << '\n';
  }
  return {};
}

Status import_all(const std::string& folder, const std::vector<std::string>& files, Value& out) {
  const auto blobs = FALAJ_TRY(storage::open_files(folder + "/blobs"));
  std::ofstream list(folder + "/segments.txt");
  const std::int64_t began = monotonic_nanos();
  const double cpu_before = cpu_seconds();
  for (std::size_t i = 0; i < files.size(); ++i) {
    FALAJ_TRY(import_view(*blobs, i, files[i], list));
  }
  out["seconds"] = seconds_since(began);
  out["cpu_seconds"] = cpu_seconds() - cpu_before;
  return {};
}

// Opened anew each time, as a freeze does.
Result<std::vector<JoinView>> open_views(const storage::BlobStore& blobs, const std::string& folder,
                                         Duration ttl) {
  std::vector<JoinView> out;
  std::ifstream list(folder + "/segments.txt");
  std::size_t view = 0;
  std::string blob;
  std::uint64_t rows = 0;
  while (list >> view >> blob >> rows) {
    Segment segment;
    segment.commit = 1;
    segment.blob = BlobId(blob);
    segment.rows = rows;
    segment.zone = Zone("bench");
    const std::string name = "view" + std::to_string(view);
    auto file =
        std::make_shared<SegmentFile>(FALAJ_TRY(open_segment(blobs, {"bench", name}, segment)));
    if (view == out.size()) {
      JoinView& added = out.emplace_back();
      added.name = name;
      added.keys = {{"id", Type::kInt64}};
      added.ttl = ttl;
      const auto& fields = file->schema().fields;
      for (std::size_t i = 4; i < fields.size(); ++i) added.features.push_back({fields[i], {}});
    }
    out[view].segments.push_back({std::move(file), 1});
  }
  FALAJ_TRY(name_features(NameStyle::kFull, {"id", "at"}, out));
  return out;
}

// Of every column: values in the order of the spine (a null is 0), then a byte each for validity.
Value hashes_of(const Batch& joined) {
  Value out = Value::object();
  for (std::size_t i = 0; i < joined.columns.size(); ++i) {
    const Column& column = joined.columns[i];
    Sha256Hasher hasher;
    if (column.type() == Type::kFloat64) {
      hasher.update(std::as_bytes(std::span(column.doubles())));
    } else {
      hasher.update(std::as_bytes(std::span(column.ints())));
    }
    std::vector<std::uint8_t> valid(column.size());
    for (std::size_t row = 0; row < valid.size(); ++row) valid[row] = column.is_null(row) ? 0 : 1;
    hasher.update(std::as_bytes(std::span(valid)));
    out[joined.schema.fields[i].name] = hasher.finish().hex();
  }
  return out;
}

struct JoinTask {
  std::string folder;
  Duration ttl{};
  std::int64_t memory_max = 0;
  std::vector<std::int64_t> window_days;  // Empty: the newest rows' features.
};

// What the peer calls w7_sum and the like.
std::vector<JoinFeature> window_features(const std::vector<std::int64_t>& window_days) {
  const table::Field value{"f0", Type::kFloat64};
  std::vector<JoinFeature> out;
  for (const std::int64_t days : window_days) {
    const auto add = [&](const std::string& name, Type type, AggregateFunction function,
                         const table::Field& of) {
      const std::string as = "w" + std::to_string(days) + "_" + name;
      out.push_back({{as, type}, as, Aggregate{function, of, Duration::seconds(days * 86'400), 0}});
    };
    add("count", Type::kInt64, AggregateFunction::kCount, {});
    add("sum", Type::kFloat64, AggregateFunction::kSum, value);
    add("mean", Type::kFloat64, AggregateFunction::kMean, value);
    add("min", Type::kFloat64, AggregateFunction::kMin, value);
    add("max", Type::kFloat64, AggregateFunction::kMax, value);
  }
  return out;
}

Result<Value> join_once(const storage::BlobStore& blobs, const JoinTask& task,
                        const std::string& spine_file) {
  table::ReadOptions read;
  read.schema.fields = {{"id", Type::kInt64}, {"at", Type::kTimestamp}};
  const Batch spine = FALAJ_TRY(table::read_all(spine_file, table::Format::kParquet, read));
  JoinOptions options;
  options.time_column = "at";
  options.memory_max = task.memory_max;
  const std::int64_t began = monotonic_nanos();
  const double cpu_before = cpu_seconds();
  std::vector<JoinView> views = FALAJ_TRY(open_views(blobs, task.folder, task.ttl));
  if (!task.window_days.empty()) views.at(0).features = window_features(task.window_days);
  const Batch joined = FALAJ_TRY(point_in_time_join(spine, views, options));
  Value out = Value::object();
  out["seconds"] = seconds_since(began);
  out["cpu_seconds"] = cpu_seconds() - cpu_before;
  out["rss_mb"] = peak_megabytes();
  out["hashes"] = hashes_of(joined);
  return out;
}

Status join_all(const JoinTask& task) {
  const auto blobs = FALAJ_TRY(storage::open_files(task.folder + "/blobs"));
  for (std::string spine; std::getline(std::cin, spine);) {
    const Value told = FALAJ_TRY(join_once(*blobs, task, spine));
    std::printf("%s\n", to_json(told).c_str());
    std::fflush(stdout);
  }
  return {};
}

std::int64_t number(const char* text) { return std::strtoll(text, nullptr, 10); }

}  // namespace
}  // namespace falaj::features

int main(int argc, char** argv) {
  using namespace falaj;            // NOLINT: one function, one file.
  using namespace falaj::features;  // NOLINT
  Status done = Error(Code::kInvalidArgument, "usage: see the head of join_bench.cc");
  if (argc >= 4 && std::string_view(argv[1]) == "import") {
    Value out = Value::object();
    done = import_all(argv[2], {argv + 3, argv + argc}, out);
    if (done.ok()) std::printf("%s\n", to_json(out).c_str());
  } else if (argc == 5 && std::string_view(argv[1]) == "join") {
    done = join_all({argv[2], Duration::seconds(number(argv[3])), number(argv[4]) << 20, {}});
  } else if (argc >= 5 && std::string_view(argv[1]) == "windows") {
    JoinTask task{argv[2], {}, number(argv[3]) << 20, {}};
    for (int i = 4; i < argc; ++i) task.window_days.push_back(number(argv[i]));
    done = join_all(task);
  }
  if (!done.ok()) {
    std::fprintf(stderr, "join_bench: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}
