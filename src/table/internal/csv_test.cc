#include "table/internal/csv.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace falaj::table {
namespace {

using namespace std::string_view_literals;

// Gives `text` out in pieces of at most `piece` bytes, as a slow pipe would.
ByteSource source_of(std::string_view text, std::size_t piece = 1u << 20) {
  return [text, piece](char* to, std::size_t room) mutable -> Result<std::size_t> {
    const std::size_t count = std::min({room, piece, text.size()});
    std::memcpy(to, text.data(), count);
    text.remove_prefix(count);
    return count;
  };
}

struct Read {
  Batch rows;
  std::vector<std::uint64_t> lines;
  std::vector<BadRow> bad;
  Status status;
};

Read read(std::string_view text, Schema schema = {}, std::size_t piece = 1u << 20) {
  Read out;
  ReadOptions options;
  options.schema = std::move(schema);
  options.on_bad_row = [&](BadRow row) { out.bad.push_back(std::move(row)); };
  out.status = read_csv(source_of(text, piece), options,
                        [&](Batch batch, const std::vector<std::uint64_t>& lines) -> Status {
                          out.rows.append(std::move(batch));
                          out.lines.insert(out.lines.end(), lines.begin(), lines.end());
                          return {};
                        });
  return out;
}

const Schema kIdName{{{"id", Type::kInt64}, {"name", Type::kString}}};

TEST(Csv, reads_quotes_line_breaks_and_both_line_ends) {
  const Read got = read("id,name\r\n1,\"a,\"\"b\"\"\nc\"\r\n2,plain\n3,\"\"\n4,", kIdName);
  ASSERT_TRUE(got.status.ok()) << got.status.error().message;
  EXPECT_TRUE(got.bad.empty());
  EXPECT_EQ(got.rows.columns[0].ints(), (std::vector<std::int64_t>{1, 2, 3, 4}));
  const Column& names = got.rows.columns[1];
  EXPECT_EQ(names.strings()[0], "a,\"b\"\nc");
  EXPECT_EQ(names.strings()[1], "plain");
  EXPECT_FALSE(names.is_null(2));  // "" is the empty text,
  EXPECT_TRUE(names.is_null(3));   // an empty cell is null.
  EXPECT_EQ(got.lines, (std::vector<std::uint64_t>{2, 4, 5, 6}));
}

TEST(Csv, gives_the_same_rows_however_the_bytes_arrive) {
  const std::string text = "id,name\n1,\"x\"\"\r\ny\"\r\n2,\"a\"b\n3,zz\n\n4,\"\"\"\"\n";
  const Read whole = read(text, kIdName);
  for (const std::size_t piece : {1u, 2u, 3u, 7u}) {
    const Read pieces = read(text, kIdName, piece);
    EXPECT_EQ(pieces.rows, whole.rows);
    EXPECT_EQ(pieces.lines, whole.lines);
    ASSERT_EQ(pieces.bad.size(), 1u);
    EXPECT_EQ(pieces.bad[0].raw, "2,\"a\"b");
  }
}

TEST(Csv, parses_each_type_and_names_the_cell_that_does_not_fit) {
  const Schema schema{
      {{"i", Type::kInt64}, {"d", Type::kFloat64}, {"b", Type::kBool}, {"t", Type::kTimestamp}}};
  const Read got = read(
      "i,d,b,t\n"
      "1, 2.5 ,true,2026-01-01\n"
      ",,,\n"
      "9223372036854775808,1,true,2026-01-01\n"
      "1,1e999,true,2026-01-01\n"
      "1,1,maybe,2026-01-01\n"
      "1,1,0,2026-13-01\n"
      "1,0x10,0,2026-01-01\n"
      "1,1,0\n",
      schema);
  ASSERT_TRUE(got.status.ok());
  ASSERT_EQ(got.rows.rows(), 2u);
  EXPECT_EQ(got.rows.columns[1].doubles()[0], 2.5);
  EXPECT_EQ(got.rows.columns[2].bools()[0], 1);
  EXPECT_EQ(got.rows.columns[3].ints()[0], 1'767'225'600'000'000'000);
  for (const Column& column : got.rows.columns) EXPECT_TRUE(column.is_null(1));
  ASSERT_EQ(got.bad.size(), 6u);
  EXPECT_EQ(got.bad[0].line, 4u);
  EXPECT_EQ(got.bad[0].reason, "column \"i\": \"9223372036854775808\" is not a valid int64");
  EXPECT_EQ(got.bad[0].raw, "9223372036854775808,1,true,2026-01-01");
  EXPECT_NE(got.bad[1].reason.find("\"d\""), std::string::npos);
  EXPECT_NE(got.bad[2].reason.find("maybe"), std::string::npos);
  EXPECT_NE(got.bad[3].reason.find("timestamp"), std::string::npos);
  EXPECT_EQ(got.bad[5].reason, "the row has 3 cells, the header has 4");
}

TEST(Csv, reads_wanted_columns_in_the_wanted_order_and_ignores_others) {
  const Read got = read("x,name,id\nq,ann,5\n", kIdName);
  ASSERT_TRUE(got.status.ok());
  EXPECT_EQ(got.rows.schema, kIdName);
  EXPECT_EQ(got.rows.columns[0].ints()[0], 5);
}

TEST(Csv, a_missing_column_is_a_schema_mismatch) {
  const Read got = read("id,nom\n1,a\n", kIdName);
  ASSERT_FALSE(got.status.ok());
  EXPECT_EQ(got.status.error().id, ErrorId::kSchemaMismatch);
  EXPECT_NE(got.status.error().message.find("name"), std::string::npos);
}

TEST(Csv, nul_and_invalid_utf8_make_a_row_bad_and_stay_printable) {
  const Read got = read("id,name\n1,a\0b\n2,\xff\xfe\n3,\xD8\xB9\n"sv, kIdName);
  ASSERT_TRUE(got.status.ok());
  EXPECT_EQ(got.rows.rows(), 1u);
  ASSERT_EQ(got.bad.size(), 2u);
  EXPECT_EQ(got.bad[0].raw, "1,a\\x00b");
  EXPECT_EQ(got.bad[1].raw, "2,\\xff\\xfe");
  EXPECT_EQ(got.bad[1].line, 3u);
}

TEST(Csv, resumes_on_the_line_after_unmatched_quotes) {
  const Read got = read("id,name\n1,\"open\n2,b\n3,c\n", kIdName);
  ASSERT_TRUE(got.status.ok());
  ASSERT_EQ(got.bad.size(), 1u);
  EXPECT_EQ(got.bad[0].line, 2u);
  EXPECT_EQ(got.bad[0].raw, "1,\"open");
  EXPECT_EQ(got.rows.columns[0].ints(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(got.lines, (std::vector<std::uint64_t>{3, 4}));
}

TEST(Csv, a_row_over_the_limit_is_bad_and_the_next_is_read) {
  for (const bool quoted : {false, true}) {
    std::string text = "id,name\n1,";
    if (quoted) text += '"';
    text.append(6u << 20, 'x');
    if (quoted) text += '"';
    text += "\n2,b\n";
    const Read got = read(text, kIdName);
    ASSERT_TRUE(got.status.ok());
    ASSERT_EQ(got.bad.size(), 1u);
    EXPECT_EQ(got.bad[0].raw.size(), 4096u);
    EXPECT_EQ(got.rows.columns[0].ints(), (std::vector<std::int64_t>{2}));
  }
}

TEST(Csv, header_faults_name_line_and_column) {
  for (const char* text : {"", "\n1,2\n", "a,a\n1,2\n", "a,\n1,2\n", "a,\"b\n", "a,\xff\n1,2\n"}) {
    const Read got = read(text);
    ASSERT_FALSE(got.status.ok()) << text;
    EXPECT_EQ(got.status.error().id, ErrorId::kMalformedTable) << text;
    EXPECT_NE(got.status.error().message.find("line 1"), std::string::npos);
  }
}

TEST(Csv, infers_types_from_the_head_and_ignores_a_byte_order_mark) {
  const Read got = read(
      "\xEF\xBB\xBFi,d,b,t,s,e\n1,1.5,true,2026-01-01T00:00:00Z,x,\n2,2,false,2026-01-02,7,\n");
  ASSERT_TRUE(got.status.ok());
  const Schema want{{{"i", Type::kInt64},
                     {"d", Type::kFloat64},
                     {"b", Type::kBool},
                     {"t", Type::kTimestamp},
                     {"s", Type::kString},
                     {"e", Type::kString}}};
  EXPECT_EQ(got.rows.schema, want);
}

TEST(Csv, a_number_cut_by_the_inference_window_decides_nothing) {
  std::string text = "id\n";
  while (text.size() < (64u << 10) - 2) text += "1\n";
  text += "12.5\n";  // Straddles 64 KiB.
  EXPECT_EQ(infer_csv_schema(source_of(text)).value().fields[0].type, Type::kInt64);
}

TEST(Csv, without_a_handler_the_first_bad_row_is_the_error) {
  const Status status =
      read_csv(source_of("id,name\n1,a\nx,b\n"), {kIdName, 10, {}},
               [](Batch, const std::vector<std::uint64_t>&) -> Status { return {}; });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().id, ErrorId::kMalformedTable);
  EXPECT_NE(status.error().message.find("line 3"), std::string::npos);
}

TEST(Csv, what_is_written_reads_back_equal) {
  Batch batch(Schema{{{"s", Type::kString},
                      {"d", Type::kFloat64},
                      {"t", Type::kTimestamp},
                      {"b", Type::kBool},
                      {"i", Type::kInt64}}});
  for (const std::string_view text : {"", "a", "\"", "a,b", "x\r\ny", " pad ", "عربي"}) {
    batch.columns[0].push_string(text);
    batch.columns[1].push_double(0.1 * static_cast<double>(text.size()));
    batch.columns[2].push_int(1'767'225'600'123'456'789);
    batch.columns[3].push_bool(text.empty());
    batch.columns[4].push_int(std::numeric_limits<std::int64_t>::min());
  }
  for (Column& column : batch.columns) column.push_null();
  std::string text;
  append_csv(text, batch);
  EXPECT_EQ(read(text, batch.schema).rows, batch);
}

// Whatever the bytes, reading ends, and each line is a row, a bad row or blank.
TEST(Csv, survives_random_bytes) {
  const std::string_view alphabet = "a1,\"\n\r\0\xff .-e"sv;
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string text = "id,name\n";
    for (auto i = random() % 60; i > 0; --i) text += alphabet[random() % alphabet.size()];
    const Read got = read(text, kIdName, 1 + random() % 9);
    ASSERT_TRUE(got.status.ok());
    EXPECT_EQ(got.rows.rows(), got.lines.size());
    for (const BadRow& row : got.bad) EXPECT_FALSE(row.reason.empty());
  }
}

}  // namespace
}  // namespace falaj::table
