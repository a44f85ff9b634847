#include "table/table_writer.h"

#include <gtest/gtest.h>

namespace falaj::table {
namespace {

Batch rows_from(std::int64_t first, std::int64_t count) {
  Batch batch(Schema{{{"id", Type::kInt64}, {"score", Type::kFloat64}, {"city", Type::kString}}});
  for (std::int64_t i = first; i < first + count; ++i) {
    batch.columns[0].push_int(i);
    batch.columns[1].push_double(static_cast<double>(i) / 3);
    if (i % 5 == 0) {
      batch.columns[2].push_null();
    } else {
      batch.columns[2].push_string(i % 2 == 0 ? "Dubai" : "Al Ain, \"oasis\"");
    }
  }
  return batch;
}

std::string written(Format format, const std::vector<std::int64_t>& cuts) {
  WriteOptions options;
  options.row_group_rows = 100;
  options.metadata = {{"made-by", "somebody"}};
  TextWriter file;
  Result<TableWriter> writer = TableWriter::open(file, format, rows_from(0, 0).schema, options);
  EXPECT_TRUE(writer.ok());
  std::int64_t first = 0;
  for (const std::int64_t count : cuts) {
    EXPECT_TRUE(writer->add(rows_from(first, count)).ok());
    first += count;
  }
  EXPECT_TRUE(writer->finish().ok());
  return file.take();
}

class TableWriterTest : public testing::TestWithParam<Format> {};

TEST_P(TableWriterTest, how_rows_were_cut_does_not_show) {
  const std::string whole = written(GetParam(), {1050});
  EXPECT_EQ(written(GetParam(), {1, 99, 350, 0, 600}), whole);
  if (GetParam() == Format::kParquet) {
    EXPECT_NE(whole.find("made-by"), std::string::npos);
  }
  const TextReader reader(whole);
  const Batch expected = rows_from(0, 1050);
  const Result<Batch> back = read_all(reader, GetParam(), {expected.schema, 64, {}});
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, expected);
}

TEST_P(TableWriterTest, a_table_without_rows_has_its_columns) {
  const TextReader reader(written(GetParam(), {}));
  const Batch expected = rows_from(0, 0);
  const Result<Batch> back = read_all(reader, GetParam(), {expected.schema, 64, {}});
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, expected);
}

TEST_P(TableWriterTest, rows_with_other_columns_are_refused) {
  TextWriter file;
  Result<TableWriter> writer = TableWriter::open(file, GetParam(), rows_from(0, 0).schema);
  ASSERT_TRUE(writer.ok());
  const Status added = writer->add(Batch(Schema{{{"id", Type::kFloat64}}}));
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code, Code::kInvalidArgument);
}

// Takes some bytes and then no more, like a full disk.
class Full final : public ByteWriter {
 public:
  Status append(std::string_view bytes) override {
    taken_ += bytes.size();
    if (taken_ > 200) return Error(Code::kResourceExhausted, "no space left");
    return {};
  }

 private:
  std::size_t taken_ = 0;
};

TEST_P(TableWriterTest, what_the_store_says_comes_through) {
  Full file;
  Result<TableWriter> writer = TableWriter::open(file, GetParam(), rows_from(0, 0).schema);
  Status status = writer.ok() ? writer->add(rows_from(0, 500)) : Status(writer.error());
  if (status.ok()) status = writer->finish();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "no space left");
}

INSTANTIATE_TEST_SUITE_P(Formats, TableWriterTest,
                         testing::Values(Format::kParquet, Format::kCsv, Format::kArrowIpc));

}  // namespace
}  // namespace falaj::table
