// Files that other programs write: narrow types, other units, dictionaries, nested columns.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <limits>

#include "table/io.h"
#include "table/testing/test_folder.h"

namespace falaj::table {
namespace {

using ::arrow::Array;
using Arrays = std::vector<std::pair<std::string, std::shared_ptr<Array>>>;

template <class Builder, class T>
std::shared_ptr<Array> array(const std::vector<T>& values,
                             const std::shared_ptr<::arrow::DataType>& type = nullptr) {
  std::unique_ptr<::arrow::ArrayBuilder> made;
  // Parametric types have no type of their own: theirs is given.
  std::shared_ptr<::arrow::DataType> want = type;
  if constexpr (std::is_default_constructible_v<Builder>) {
    if (want == nullptr) want = Builder().type();
  }
  EXPECT_TRUE(::arrow::MakeBuilder(::arrow::default_memory_pool(), want, &made).ok());
  auto& builder = static_cast<Builder&>(*made);
  for (const T& value : values) EXPECT_TRUE(builder.Append(value).ok());
  EXPECT_TRUE(builder.AppendNull().ok());
  return *builder.Finish();
}

std::shared_ptr<::arrow::Table> table_of(const Arrays& arrays) {
  std::vector<std::shared_ptr<::arrow::Field>> fields;
  std::vector<std::shared_ptr<Array>> columns;
  for (const auto& [name, values] : arrays) {
    fields.push_back(::arrow::field(name, values->type()));
    columns.push_back(values);
  }
  return ::arrow::Table::Make(::arrow::schema(fields), columns);
}

class ForeignTypes : public testing::TestWithParam<Format> {
 protected:
  std::string write(const Arrays& arrays) {
    const std::string path = folder_.file("foreign");
    const auto sink = *::arrow::io::FileOutputStream::Open(path);
    const auto table = table_of(arrays);
    if (GetParam() == Format::kParquet) {
      // With the schema of Arrow inside, as pandas writes it, dictionaries come back as such.
      const auto keep = ::parquet::ArrowWriterProperties::Builder().store_schema()->build();
      EXPECT_TRUE(::parquet::arrow::WriteTable(*table, ::arrow::default_memory_pool(), sink, 1024,
                                               ::parquet::default_writer_properties(), keep)
                      .ok());
    } else {
      const auto writer = *::arrow::ipc::MakeFileWriter(sink, table->schema());
      EXPECT_TRUE(writer->WriteTable(*table).ok());
      EXPECT_TRUE(writer->Close().ok());
    }
    EXPECT_TRUE(sink->Close().ok());
    return path;
  }

  // One column under the name "c", read as it comes or as `type`.
  Result<Batch> read(const std::shared_ptr<Array>& values, std::optional<Type> type = {}) {
    ReadOptions options;
    if (type) options.schema.fields.push_back({"c", *type});
    options.on_bad_row = [this](BadRow row) { bad_.push_back(std::move(row)); };
    return read_all(write({{"c", values}}), GetParam(), options);
  }

  TestFolder folder_;
  std::vector<BadRow> bad_;
};

const auto kUtc = [](::arrow::TimeUnit::type unit) { return ::arrow::timestamp(unit, "UTC"); };

TEST_P(ForeignTypes, narrow_integers_and_floats_widen) {
  const Column want = Column::of_ints(Type::kInt64, {-5, 7, 0}, {1, 1, 0});
  EXPECT_EQ(read(array<::arrow::Int8Builder, std::int8_t>({-5, 7}))->columns[0], want);
  EXPECT_EQ(read(array<::arrow::Int16Builder, std::int16_t>({-5, 7}))->columns[0], want);
  EXPECT_EQ(read(array<::arrow::Int32Builder, std::int32_t>({-5, 7}))->columns[0], want);
  EXPECT_EQ(read(array<::arrow::FloatBuilder, float>({0.5F, 2}))->columns[0],
            Column::of_doubles({0.5, 2, 0}, {1, 1, 0}));
  EXPECT_EQ(read(array<::arrow::Int32Builder, std::int32_t>({-5, 7}), Type::kFloat64)->columns[0],
            Column::of_doubles({-5, 7, 0}, {1, 1, 0}));
}

TEST_P(ForeignTypes, an_unsigned_value_over_int64_is_a_bad_row) {
  const auto back = read(
      array<::arrow::UInt64Builder, std::uint64_t>({7, std::numeric_limits<std::uint64_t>::max()}));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->columns[0], Column::of_ints(Type::kInt64, {7, 0}, {1, 0}));
  ASSERT_EQ(bad_.size(), 1u);
  EXPECT_EQ(bad_[0].line, 2u);
}

TEST_P(ForeignTypes, times_of_any_unit_become_nanoseconds) {
  for (const auto& [unit, scale] : {std::pair{::arrow::TimeUnit::MILLI, std::int64_t{1'000'000}},
                                    {::arrow::TimeUnit::MICRO, 1'000},
                                    {::arrow::TimeUnit::NANO, 1}}) {
    const auto values =
        array<::arrow::TimestampBuilder, std::int64_t>({1'700'000'000, -3}, kUtc(unit));
    EXPECT_EQ(read(values)->columns[0],
              Column::of_ints(Type::kTimestamp, {1'700'000'000 * scale, -3 * scale, 0}, {1, 1, 0}));
  }
  EXPECT_EQ(read(array<::arrow::Date32Builder, std::int32_t>({1}))->columns[0],
            Column::of_ints(Type::kTimestamp, {86'400'000'000'000, 0}, {1, 0}));
}

TEST_P(ForeignTypes, a_time_beyond_the_calendar_is_a_bad_row) {
  const auto values = array<::arrow::TimestampBuilder, std::int64_t>(
      {std::numeric_limits<std::int64_t>::max() / 2, 0}, kUtc(::arrow::TimeUnit::MICRO));
  const auto back = read(values);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->rows(), 2u);
  ASSERT_EQ(bad_.size(), 1u);
  EXPECT_NE(bad_[0].reason.find("1677"), std::string::npos);
}

TEST_P(ForeignTypes, dictionaries_and_large_texts_become_texts) {
  Column want(Type::kString);
  for (const char* text : {"x", "y", "x"}) want.push_string(text);
  want.push_null();
  const std::vector<std::string> texts{"x", "y", "x"};
  EXPECT_EQ(read(array<::arrow::StringBuilder, std::string>(texts))->columns[0], want);
  EXPECT_EQ(read(array<::arrow::LargeStringBuilder, std::string>(texts))->columns[0], want);
  EXPECT_EQ(read(array<::arrow::BinaryBuilder, std::string>(texts))->columns[0], want);
  ::arrow::StringDictionary32Builder coded;
  for (const std::string& text : texts) ASSERT_TRUE(coded.Append(text).ok());
  ASSERT_TRUE(coded.AppendNull().ok());
  EXPECT_EQ(read(*coded.Finish())->columns[0], want);
}

TEST_P(ForeignTypes, a_column_without_values_is_all_null_of_the_wanted_type) {
  const std::shared_ptr<Array> nothing = *::arrow::MakeArrayOfNull(::arrow::null(), 3);
  const auto back = read(nothing, Type::kString);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->columns[0].null_count(), 3u);
}

TEST_P(ForeignTypes, nested_and_unknown_types_are_refused_by_name) {
  ::arrow::ListBuilder lists(::arrow::default_memory_pool(),
                             std::make_shared<::arrow::Int64Builder>());
  ASSERT_TRUE(lists.AppendEmptyValue().ok());
  const std::shared_ptr<Array> nested = *lists.Finish();
  const auto back = read(nested);
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().id, ErrorId::kMalformedTable);
  EXPECT_NE(back.error().message.find("\"c\" has type list"), std::string::npos);
  EXPECT_EQ(read(nested, Type::kInt64).error().id, ErrorId::kSchemaMismatch);
  EXPECT_FALSE(read(array<::arrow::Time32Builder, std::int32_t>(
                        {1}, ::arrow::time32(::arrow::TimeUnit::MILLI)))
                   .ok());
}

TEST_P(ForeignTypes, a_flat_column_behind_a_nested_one_is_found) {
  ::arrow::ListBuilder lists(::arrow::default_memory_pool(),
                             std::make_shared<::arrow::Int64Builder>());
  ASSERT_TRUE(lists.AppendEmptyValue().ok());
  ASSERT_TRUE(lists.AppendNull().ok());
  const auto flat = array<::arrow::Int64Builder, std::int64_t>({9});
  const std::string path = write({{"nested", *lists.Finish()}, {"flat", flat}});
  const auto back = read_all(path, GetParam(), {Schema{{{"flat", Type::kInt64}}}, 10, {}});
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->columns[0], Column::of_ints(Type::kInt64, {9, 0}, {1, 0}));
}

TEST_P(ForeignTypes, rows_without_a_column_are_refused) {
  const std::string path = folder_.file("foreign");
  const auto sink = *::arrow::io::FileOutputStream::Open(path);
  const auto rows = ::arrow::RecordBatch::Make(::arrow::schema(::arrow::FieldVector{}), 3,
                                               std::vector<std::shared_ptr<Array>>{});
  if (GetParam() == Format::kParquet) {
    const auto table = ::arrow::Table::Make(rows->schema(), ::arrow::ChunkedArrayVector{}, 3);
    ASSERT_TRUE(::parquet::arrow::WriteTable(*table, ::arrow::default_memory_pool(), sink).ok());
  } else {
    const auto writer = *::arrow::ipc::MakeFileWriter(sink, rows->schema());
    ASSERT_TRUE(writer->WriteRecordBatch(*rows).ok());
    ASSERT_TRUE(writer->Close().ok());
  }
  ASSERT_TRUE(sink->Close().ok());
  const auto batch = read_all(path, GetParam());
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.error().id, ErrorId::kMalformedTable);
  EXPECT_FALSE(read_schema(path, GetParam()).ok());
}

TEST_P(ForeignTypes, two_columns_of_one_name_are_refused) {
  const auto values = array<::arrow::Int64Builder, std::int64_t>({9});
  const std::string path = write({{"c", values}, {"c", values}});
  EXPECT_EQ(read_all(path, GetParam()).error().id, ErrorId::kMalformedTable);
  EXPECT_EQ(read_all(path, GetParam(), {Schema{{{"c", Type::kInt64}}}, 10, {}}).error().id,
            ErrorId::kSchemaMismatch);
}

INSTANTIATE_TEST_SUITE_P(Formats, ForeignTypes,
                         testing::Values(Format::kParquet, Format::kArrowIpc),
                         [](const auto& param) {
                           return param.param == Format::kParquet ? "parquet" : "arrow";
                         });

}  // namespace
}  // namespace falaj::table
