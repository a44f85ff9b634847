// Any bytes as a segment: an error or rows, never a crash; and a join over them likewise.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "features/internal/segment_file.h"
#include "features/point_in_time_join.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj;            // NOLINT: one function, one file.
  using namespace falaj::features;  // NOLINT
  std::string bytes(reinterpret_cast<const char*>(data), size);
  auto opened = SegmentFile::open(std::make_shared<TextReader>(std::move(bytes)));
  if (!opened.ok()) return 0;
  const auto file = std::make_shared<SegmentFile>(std::move(opened).value());
  const auto rows = file->read(file->schema());
  if (rows.ok()) FALAJ_CHECK(rows->rows() == file->rows());

  JoinView view;
  table::Batch spine;
  for (std::size_t i = 0; i < file->keys(); ++i) {
    const table::Field key{"key" + std::to_string(i), file->schema().fields[i].type};
    view.keys.push_back(key);
    table::Column column(key.type);
    for (std::int64_t n = 0; n < 3; ++n) {
      if (key.type == table::Type::kString) {
        column.push_string(std::string(static_cast<std::size_t>(n), 'a'));
      } else {
        column.push_int(n);
      }
    }
    FALAJ_CHECK(spine.add(key, std::move(column)).ok());
  }
  FALAJ_CHECK(spine
                  .add({"at", table::Type::kTimestamp},
                       table::Column::of_ints(table::Type::kTimestamp, {0, 50, 1'000}))
                  .ok());
  for (const table::Field& field : file->schema().fields)
    view.features.push_back({field, field.name});
  view.features.erase(view.features.begin(),
                      view.features.begin() + static_cast<std::ptrdiff_t>(file->keys()));
  view.created = CreatedRule::kKnownByRow;
  view.segments = {{file, 1}};
  JoinOptions options;
  options.time_column = "at";
  options.threads = 1;
  const auto joined = point_in_time_join(spine, {view}, options);
  if (joined.ok()) FALAJ_CHECK(joined->rows() == 3 || joined->columns.empty());
  return 0;
}
