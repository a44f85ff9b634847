#include "features/internal/segment_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "features/internal/segments.h"
#include "features/testing/join_oracle.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

table::Schema schema_of(const std::vector<table::Field>& keys,
                        const std::vector<table::Field>& features) {
  FeatureView view;
  for (const table::Field& feature : features)
    view.features.push_back({feature.name, feature.type, {}});
  Entity entity;
  entity.keys = keys;
  return segment_schema(view, entity);
}

// Rows with every type, nulls, and keys that repeat.
Batch rows_of(std::uint32_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  Batch out(schema_of({{"name", Type::kString}, {"id", Type::kInt64}}, {{"b", Type::kBool},
                                                                        {"i", Type::kInt64},
                                                                        {"wide", Type::kInt64},
                                                                        {"f", Type::kFloat64},
                                                                        {"narrow", Type::kFloat64},
                                                                        {"s", Type::kString},
                                                                        {"t", Type::kTimestamp},
                                                                        {"same", Type::kFloat64},
                                                                        {"none", Type::kInt64}}));
  const auto null_or = [&](Cell cell) { return below(5) == 0 ? Cell() : cell; };
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<Cell> row{
        "name" + std::to_string(below(4)),
        below(5) - 2,
        below(1000) - 500,
        null_or(below(50)),
        static_cast<std::int64_t>(i),
        null_or(below(2) == 0),
        null_or(below(seed % 2 == 0 ? 200 : 100'000)),
        below(2) == 0 ? std::numeric_limits<std::int64_t>::min()
                      : std::numeric_limits<std::int64_t>::max(),
        null_or(static_cast<double>(below(1'000'000)) / 7),
        static_cast<double>(below(64)) / 8,
        null_or(below(3) == 0 ? std::string()
                              : std::string(static_cast<std::size_t>(below(9)), 'x')),
        below(1'000'000'000) * 1'000'000'000,
        std::nan(""),
        Cell()};
    for (std::size_t column = 0; column < row.size(); ++column)
      push(out.columns[column], row[column]);
  }
  return sorted_rows(std::move(out), 2);
}

std::string written(const Batch& rows, std::size_t keys, std::size_t block_rows = kBlockRows) {
  TextWriter writer;
  const Status status = write_segment_file(writer, rows, keys, block_rows);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return writer.take();
}
Result<SegmentFile> opened(std::string bytes) {
  return SegmentFile::open(std::make_shared<TextReader>(std::move(bytes)));
}

TEST(SegmentFile, gives_back_what_was_written_to_the_bit) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Batch rows = rows_of(seed, 1 + seed * 7);
    const Result<SegmentFile> file = opened(written(rows, 2, 1 + seed % 17));
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->rows(), rows.rows());
    EXPECT_EQ(file->schema(), rows.schema);
    const Result<Batch> read = file->read(rows.schema);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(difference(*read, rows), "");
  }
}

// Made by hand from docs/reference/segment-format.md: the bytes are a promise.
TEST(SegmentFile, has_the_bytes_that_its_page_describes) {
  Batch rows(schema_of({{"id", Type::kInt64}}, {{"v", Type::kFloat64}, {"city", Type::kString}}));
  const std::vector<std::vector<Cell>> cells{
      {std::int64_t{7}, std::int64_t{100}, Cell(), std::int64_t{1}, 0.5, std::string("Dubai")},
      {std::int64_t{7}, std::int64_t{300}, std::int64_t{310}, std::int64_t{0}, 1.5, Cell()},
      {std::int64_t{9}, std::int64_t{200}, std::int64_t{200}, std::int64_t{2}, 0.5,
       std::string("Dubai")}};
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) push(rows.columns[i], row[i]);
  }
  const std::string_view golden =
      "46414c414a5345470001000200c86406006e000100020000003f0000c03f0000003f05020000000500000005"
      "000000447562616900010001000000060000000300000000000000010000000102000000696404070000005f"
      "5f6576656e7404090000005f5f6372656174656401050000005f5f726f770201000000760304000000636974"
      "7903000000020000006400000000000000090000000180000000000000070100000000020000000200000000"
      "0000000300000000000000010000000002000000070000000000000009000000000000000100000000030000"
      "0064000000000000002c01000000000000010100000004000000c80000000000000036010000000000000100"
      "000000030000000000000000000000020000000000000005000000000c000000000000000000e03f00000000"
      "0000f83f060100000015000000000000000000000000000000000000001a0100000100000046414c414a5345"
      "47";
  std::string hex;
  for (const char byte : written(rows, 1)) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(byte) >> 4];
    hex += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  EXPECT_EQ(hex, golden);
}

TEST(SegmentFile, the_same_rows_give_the_same_bytes) {
  EXPECT_EQ(written(rows_of(3, 500), 2), written(rows_of(3, 500), 2));
}

TEST(SegmentFile, is_small_where_the_data_allow_it) {
  Batch rows(schema_of({{"id", Type::kInt64}}, {{"flag", Type::kBool}, {"city", Type::kString}}));
  for (std::int64_t i = 0; i < 100'000; ++i) {
    rows.columns[0].push_int(1'000'000'000'000 + i / 100);
    rows.columns[1].push_int(1'700'000'000'000'000'000 + i % 100 * 1'000'000);
    rows.columns[2].push_null();
    rows.columns[3].push_int(i);
    rows.columns[4].push_bool(true);
    rows.columns[5].push_string(i % 2 == 0 ? "Dubai" : "Sharjah");
  }
  // 4 bytes of time, 2 of position, 1 of text a row, and hardly anything else; plain: 41.
  EXPECT_LT(written(rows, 1).size(), 100'000u * 8);
}

TEST(SegmentFile, features_that_it_does_not_have_are_null_and_other_types_are_refused) {
  const Batch rows = rows_of(5, 30);
  const SegmentFile file = opened(written(rows, 2)).value();
  table::Schema wanted;
  wanted.fields = {{"i", Type::kInt64}, {"later", Type::kString}};
  const Batch read = file.read(wanted).value();
  EXPECT_EQ(read.columns[0], *rows.find("i"));
  EXPECT_EQ(read.columns[1].null_count(), rows.rows());
  wanted.fields = {{"i", Type::kString}};
  EXPECT_EQ(file.read(wanted).error().id, ErrorId::kSchemaMismatch);
}

TEST(SegmentFile, rows_out_of_order_or_without_a_key_are_refused) {
  const Batch rows = rows_of(6, 50);
  const auto refused = [](const Batch& batch) {
    TextWriter writer;
    const Status status = write_segment_file(writer, batch, 2);
    return !status.ok() && status.error().code == Code::kInvalidArgument;
  };
  std::vector<std::uint32_t> backwards;
  for (std::uint32_t i = 50; i > 0; --i) backwards.push_back(i - 1);
  EXPECT_TRUE(refused(rows.take(backwards)));
  EXPECT_TRUE(refused(rows.take({})));
  Batch without_key = rows;
  without_key.append(rows.take({Column::kNoRow}));
  EXPECT_TRUE(refused(without_key));
}

TEST(SegmentFile, a_file_cut_anywhere_is_refused) {
  const std::string bytes = written(rows_of(1, 40), 2, 9);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto file = opened(bytes.substr(0, size));
    ASSERT_FALSE(file.ok()) << size;
    EXPECT_EQ(file.error().id, ErrorId::kSegmentCorrupt);
  }
}

TEST(SegmentFile, another_version_is_named) {
  std::string bytes = written(rows_of(1, 4), 2);
  bytes[bytes.size() - 12] = 9;
  const auto file = opened(bytes);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find("version 9"), std::string::npos);
}

// Every byte turned: an error or some rows, never a crash.
TEST(SegmentFile, damage_never_stops_the_process) {
  const Batch rows = rows_of(2, 40);
  const std::string bytes = written(rows, 2, 9);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    const auto file = opened(damaged);
    if (!file.ok() || !file->read(rows.schema).ok()) ++refused;
  }
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace falaj::features
