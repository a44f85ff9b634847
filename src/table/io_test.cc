#include "table/io.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "table/encrypted_parquet.h"
#include "table/testing/test_folder.h"

namespace falaj::table {
namespace {

constexpr std::int64_t kNow = 1'767'225'600'123'456'789;

// Every type, with and without nulls, extreme values among them.
Batch sample(std::size_t rows) {
  Batch batch(Schema{{{"id", Type::kInt64},
                      {"amount", Type::kFloat64},
                      {"fraud", Type::kBool},
                      {"city", Type::kString},
                      {"at", Type::kTimestamp},
                      {"full", Type::kInt64}}});
  const std::string_view cities[] = {"Dubai", "أبوظبي", "", "Al Ain, \"oasis\""};
  for (std::size_t i = 0; i < rows; ++i) {
    const auto n = static_cast<std::int64_t>(i);
    batch.columns[5].push_int(n);
    if (i % 7 == 3) {
      for (std::size_t c = 0; c < 5; ++c) batch.columns[c].push_null();
      continue;
    }
    batch.columns[0].push_int(i % 2 == 0 ? n : std::numeric_limits<std::int64_t>::min() + n);
    batch.columns[1].push_double(
        std::ldexp(static_cast<double>(n) + 0.1, static_cast<int>(i % 40)));
    batch.columns[2].push_bool(i % 3 == 0);
    batch.columns[3].push_string(cities[i % 4]);
    batch.columns[4].push_int(kNow + n);
  }
  return batch;
}

class RoundTrip : public testing::TestWithParam<Format> {
 protected:
  TestFolder folder_;
};

TEST_P(RoundTrip, gives_back_every_type_and_null) {
  for (const std::size_t rows : {0u, 1u, 8u, 1000u}) {
    const Batch batch = sample(rows);
    const std::string path = folder_.file("t");
    ASSERT_TRUE(write_file(path, GetParam(), batch).ok());
    const Result<Batch> back = read_all(path, GetParam(), {batch.schema, 100, {}});
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(*back, batch) << rows;
  }
}

TEST_P(RoundTrip, the_same_batch_gives_the_same_bytes) {
  const Batch batch = sample(5000);
  WriteOptions options;
  options.row_group_rows = 1000;
  options.metadata = {{"manifest", "{}"}};
  ASSERT_TRUE(write_file(folder_.file("a"), GetParam(), batch, options).ok());
  ASSERT_TRUE(write_file(folder_.file("b"), GetParam(), batch, options).ok());
  EXPECT_EQ(bytes_of_file(folder_.file("a")), bytes_of_file(folder_.file("b")));
  if (GetParam() == Format::kParquet) {
    EXPECT_NE(bytes_of_file(folder_.file("a")).find("manifest"), std::string::npos)
        << "metadata stands in the footer";
  }
}

TEST_P(RoundTrip, batches_are_bounded_in_order_and_numbered) {
  const Batch batch = sample(1000);
  WriteOptions options;
  options.row_group_rows = 300;
  const std::string path = folder_.file("t");
  ASSERT_TRUE(write_file(path, GetParam(), batch, options).ok());
  Batch all;
  std::vector<std::uint64_t> all_lines;
  ReadOptions read;
  read.schema = batch.schema;
  read.batch_rows = 128;
  ASSERT_TRUE(read_file(path, GetParam(), read,
                        [&](Batch piece, const std::vector<std::uint64_t>& lines) -> Status {
                          EXPECT_LE(piece.rows(), 128u);
                          EXPECT_EQ(piece.rows(), lines.size());
                          all_lines.insert(all_lines.end(), lines.begin(), lines.end());
                          all.append(std::move(piece));
                          return {};
                        })
                  .ok());
  EXPECT_EQ(all, batch);
  const std::uint64_t first = GetParam() == Format::kCsv ? 2 : 1;
  for (std::size_t i = 0; i < all_lines.size(); ++i) ASSERT_EQ(all_lines[i], first + i);
}

TEST_P(RoundTrip, an_error_of_the_receiver_stops_the_reading) {
  const std::string path = folder_.file("t");
  ASSERT_TRUE(write_file(path, GetParam(), sample(100)).ok());
  int calls = 0;
  const Status status = read_file(path, GetParam(), {sample(0).schema, 10, {}},
                                  [&](Batch, const std::vector<std::uint64_t>&) -> Status {
                                    ++calls;
                                    return Error(Code::kCancelled, "enough");
                                  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kCancelled);
  EXPECT_EQ(calls, 1);
}

TEST_P(RoundTrip, wanted_columns_come_alone_and_in_the_wanted_order) {
  const Batch batch = sample(50);
  const std::string path = folder_.file("t");
  ASSERT_TRUE(write_file(path, GetParam(), batch).ok());
  const Schema wanted{{{"at", Type::kTimestamp}, {"id", Type::kInt64}}};
  const Result<Batch> back = read_all(path, GetParam(), {wanted, 100, {}});
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->schema, wanted);
  EXPECT_EQ(back->columns[0], batch.columns[4]);
  EXPECT_EQ(back->columns[1], batch.columns[0]);
}

TEST_P(RoundTrip, a_missing_column_is_a_schema_mismatch) {
  const std::string path = folder_.file("t");
  ASSERT_TRUE(write_file(path, GetParam(), sample(5)).ok());
  const Result<Batch> back = read_all(path, GetParam(), {Schema{{{"nope", Type::kInt64}}}, 10, {}});
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().id, ErrorId::kSchemaMismatch);
  EXPECT_NE(back.error().message.find("nope"), std::string::npos);
}

TEST_P(RoundTrip, schema_alone_is_read_without_rows) {
  const std::string path = folder_.file("t");
  ASSERT_TRUE(write_file(path, GetParam(), sample(20)).ok());
  EXPECT_EQ(read_schema(path, GetParam()).value(), sample(0).schema);
}

// Cut at every fiftieth of its length: an error or fewer rows, never a crash.
TEST_P(RoundTrip, a_truncated_file_never_crashes_and_binary_ones_are_refused) {
  const std::string path = folder_.file("t");
  ASSERT_TRUE(write_file(path, GetParam(), sample(2000)).ok());
  const std::string bytes = bytes_of_file(path);
  for (std::size_t part = 0; part < 50; ++part) {
    folder_.write("cut", bytes.substr(0, bytes.size() * part / 50));
    const Result<Batch> back = read_all(folder_.file("cut"), GetParam());
    if (GetParam() == Format::kCsv) continue;
    ASSERT_FALSE(back.ok()) << part;
    EXPECT_EQ(back.error().id, ErrorId::kMalformedTable) << back.error().message;
  }
}

TEST_P(RoundTrip, flipped_bytes_never_crash) {
  const std::string path = folder_.file("t");
  WriteOptions options;
  options.row_group_rows = 100;
  ASSERT_TRUE(write_file(path, GetParam(), sample(300), options).ok());
  const std::string bytes = bytes_of_file(path);
  int refused = 0;
  for (std::uint32_t seed = 0; seed < 1500; ++seed) {
    std::mt19937 random(seed);
    std::string hurt = bytes;
    for (auto i = 1 + random() % 4; i > 0; --i) {
      hurt[random() % hurt.size()] = static_cast<char>(random());
    }
    const Result<Batch> back = read_all(folder_.write("hurt", hurt), GetParam());
    if (!back.ok()) ++refused;
  }
  EXPECT_GT(refused, 100);
}

TEST_P(RoundTrip, absent_and_irregular_files_are_named) {
  const Result<Batch> absent = read_all(folder_.file("none"), GetParam());
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  const Result<Batch> folder = read_all(folder_.path(), GetParam());
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, Code::kInvalidArgument);
  EXPECT_FALSE(read_all(folder_.write("empty", ""), GetParam()).ok());
}

INSTANTIATE_TEST_SUITE_P(Formats, RoundTrip,
                         testing::Values(Format::kParquet, Format::kCsv, Format::kArrowIpc),
                         [](const auto& param) {
                           return param.param == Format::kParquet ? "parquet"
                                  : param.param == Format::kCsv   ? "csv"
                                                                  : "arrow";
                         });

TEST(Parquet, a_column_of_another_type_is_a_schema_mismatch) {
  const TestFolder folder;
  const std::string path = folder.file("t");
  ASSERT_TRUE(write_file(path, Format::kParquet, sample(5)).ok());
  const Result<Batch> back =
      read_all(path, Format::kParquet, {Schema{{{"city", Type::kInt64}}}, 10, {}});
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().id, ErrorId::kSchemaMismatch);
  EXPECT_NE(back.error().message.find("city"), std::string::npos);
}

TEST(Parquet, whole_floats_become_integers_and_others_are_bad_rows) {
  const TestFolder folder;
  Batch batch;
  ASSERT_TRUE(
      batch.add({"n", Type::kFloat64}, Column::of_doubles({1, 2.5, 0, 4}, {1, 1, 0, 1})).ok());
  const std::string path = folder.file("t");
  ASSERT_TRUE(write_file(path, Format::kParquet, batch).ok());
  std::vector<BadRow> bad;
  ReadOptions options{Schema{{{"n", Type::kInt64}}}, 10,
                      [&](BadRow row) { bad.push_back(std::move(row)); }};
  const Result<Batch> back = read_all(path, Format::kParquet, options);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->columns[0], Column::of_ints(Type::kInt64, {1, 0, 4}, {1, 0, 1}));
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_EQ(bad[0].line, 2u);
  EXPECT_EQ(bad[0].raw, "2.5");
  EXPECT_NE(bad[0].reason.find("\"n\""), std::string::npos);
}

TEST(Parquet, texts_become_timestamps_row_by_row) {
  const TestFolder folder;
  Batch batch(Schema{{{"at", Type::kString}}});
  batch.columns[0].push_string("2026-01-01T04:00:00+04:00");
  batch.columns[0].push_string("yesterday");
  const std::string path = folder.file("t");
  ASSERT_TRUE(write_file(path, Format::kParquet, batch).ok());
  std::vector<BadRow> bad;
  ReadOptions options{Schema{{{"at", Type::kTimestamp}}}, 10,
                      [&](BadRow row) { bad.push_back(std::move(row)); }};
  const Result<Batch> back = read_all(path, Format::kParquet, options);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->columns[0].ints(), (std::vector<std::int64_t>{1'767'225'600'000'000'000}));
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_NE(bad[0].reason.find("yesterday"), std::string::npos);
}

TEST(Parquet, texts_with_nul_or_broken_utf8_are_bad_rows) {
  const TestFolder folder;
  Batch batch(Schema{{{"s", Type::kString}}});
  for (const std::string_view text : {std::string_view("ok"), std::string_view("a\0b", 3),
                                      std::string_view("\xC3"), std::string_view("é")}) {
    batch.columns[0].push_string(text);
  }
  for (const Format format : {Format::kParquet, Format::kArrowIpc}) {
    const std::string path = folder.file("t");
    ASSERT_TRUE(write_file(path, format, batch).ok());
    std::vector<BadRow> bad;
    ReadOptions options;
    options.on_bad_row = [&](BadRow row) { bad.push_back(std::move(row)); };
    const Result<Batch> back = read_all(path, format, options);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->rows(), 2u);
    ASSERT_EQ(bad.size(), 2u);
    EXPECT_EQ(bad[0].line, 2u);
    EXPECT_EQ(bad[1].line, 3u);
  }
}

TEST(Parquet, a_huge_declared_footer_is_refused_before_it_is_read) {
  const TestFolder folder;
  for (const std::uint32_t claim : {0u, 1'000u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    std::string bytes = "PAR1";
    bytes.append(reinterpret_cast<const char*>(&claim), 4);
    bytes += "PAR1";
    const Result<Batch> back = read_all(folder.write("t", bytes), Format::kParquet);
    ASSERT_FALSE(back.ok());
    EXPECT_EQ(back.error().id, ErrorId::kMalformedTable);
  }
}

TEST(Format, is_told_by_name_extension_and_magic) {
  EXPECT_EQ(parse_format("csv").value(), Format::kCsv);
  EXPECT_FALSE(parse_format("xlsx").ok());
  EXPECT_EQ(format_of_path("a/b.parquet").value(), Format::kParquet);
  EXPECT_EQ(format_of_path("b.arrow").value(), Format::kArrowIpc);
  EXPECT_FALSE(format_of_path("b").ok());
  EXPECT_EQ(sniff_format("PAR1...."), Format::kParquet);
  EXPECT_EQ(sniff_format("ARROW1.."), Format::kArrowIpc);
  EXPECT_EQ(sniff_format("id,name"), std::nullopt);
}

TEST(EncryptedParquet, opens_with_its_key_and_prefix_only) {
  const Batch batch = sample(500);
  const ParquetKey key{std::string(32, 'k'), "set-1"};
  TextWriter out;
  ASSERT_TRUE(write_encrypted_parquet(out, batch, key).ok());
  const std::string bytes = out.bytes();
  EXPECT_EQ(bytes.find("Dubai"), std::string::npos);
  const auto read = [](const std::string& text, const ParquetKey& with) -> Result<Batch> {
    const TextReader reader(text);
    Batch back;
    FALAJ_TRY(read_encrypted_parquet(reader, with, {}, [&](Batch part, const auto&) -> Status {
      back.append(std::move(part));
      return {};
    }));
    return back;
  };
  const Result<Batch> back = read(bytes, key);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, batch);
  EXPECT_EQ(read(bytes, {std::string(32, 'x'), "set-1"}).error().id, ErrorId::kMalformedTable);
  EXPECT_EQ(read(bytes, {std::string(32, 'k'), "set-2"}).error().id, ErrorId::kMalformedTable);
  EXPECT_EQ(read(bytes, {"short", "set-1"}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(read(bytes.substr(0, bytes.size() / 2), key).error().id, ErrorId::kMalformedTable);
  TextWriter open;
  ASSERT_TRUE(write_table(open, Format::kParquet, batch).ok());
  EXPECT_EQ(read(open.bytes(), key).error().id, ErrorId::kMalformedTable);
}

}  // namespace
}  // namespace falaj::table
