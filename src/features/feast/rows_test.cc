#include "features/feast/rows.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "storage/testing/temp_folder.h"
#include "table/io.h"

namespace falaj::features::feast {
namespace {

using table::Batch;
using table::Type;

Batch one_row(std::int64_t id, std::string_view city) {
  Batch out(
      table::Schema{{{"id", Type::kInt64}, {"when", Type::kTimestamp}, {"town", Type::kString}}});
  out.columns[0].push_int(id);
  out.columns[1].push_int(id * 1000);
  out.columns[2].push_string(city);
  return out;
}

ViewPlan plan_of(std::string path) {
  ViewPlan view;
  view.keys = {{"id", Type::kInt64}};
  view.features = {{"city", Type::kString}};
  view.event_time = "at";
  view.renamed = {{"town", "city"}, {"when", "at"}};
  view.path = std::move(path);
  return view;
}

TEST(FeastRows, a_folder_is_read_in_the_order_of_its_names_under_our_names) {
  const storage::TempFolder folder;
  const std::string inner = folder.path() + "/year";
  ASSERT_EQ(::mkdir(inner.c_str(), 0700), 0);
  const auto format = table::Format::kParquet;
  ASSERT_TRUE(table::write_file(inner + "/b.parquet", format, one_row(2, "Dubai")).ok());
  ASSERT_TRUE(table::write_file(folder.path() + "/a.parquet", format, one_row(1, "Al Ain")).ok());
  ASSERT_TRUE(table::write_file(folder.path() + "/_notes", format, one_row(3, "no")).ok());
  const auto rows = read_rows(plan_of(folder.path()));
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  ASSERT_EQ(rows->rows(), 2u);
  EXPECT_EQ(rows->find("id")->ints(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(rows->find("city")->strings()[1], "Dubai");
  EXPECT_EQ(rows->find("at")->ints()[1], 2000);
}

TEST(FeastRows, what_is_not_there_is_named) {
  const storage::TempFolder folder;
  const auto empty = read_rows(plan_of(folder.path()));
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().id, ErrorId::kFileUnreadable);
  EXPECT_FALSE(read_rows(plan_of(folder.path() + "/none.parquet")).ok());
  ViewPlan view = plan_of(folder.path() + "/a.parquet");
  ASSERT_TRUE(table::write_file(view.path, table::Format::kParquet, one_row(1, "Al Ain")).ok());
  view.features.push_back({"visits", Type::kInt64});
  const auto lacking = read_rows(view);
  ASSERT_FALSE(lacking.ok());
  EXPECT_NE(lacking.error().message.find("visits"), std::string::npos);
}

}  // namespace
}  // namespace falaj::features::feast
