#include "features/internal/segment_merge.h"

#include <gtest/gtest.h>

#include <random>

#include "features/internal/segment_writer.h"
#include "features/testing/join_oracle.h"
#include "storage/open.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Type;

// Rows of a composite key in no order, every tenth of one hot key.
Batch rows_of(std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  FeatureView view;
  view.features = {{"v", Type::kFloat64, {}}, {"s", Type::kString, {}}};
  Entity entity;
  entity.keys = {{"name", Type::kString}, {"id", Type::kInt64}};
  Batch out(segment_schema(view, entity));
  for (std::size_t i = 0; i < count; ++i) {
    const bool hot = below(10) == 0;
    push(out.columns[0], hot ? "hot" : "name" + std::to_string(below(20)));
    push(out.columns[1], hot ? 1 : below(20));
    push(out.columns[2], below(50));
    push(out.columns[3], below(3) == 0 ? Cell() : Cell(below(9)));
    push(out.columns[4], static_cast<std::int64_t>(i));
    push(out.columns[5], static_cast<double>(below(1000)) / 3);
    push(out.columns[6], below(4) == 0 ? Cell() : Cell("text" + std::to_string(below(9))));
  }
  return out;
}

Batch part(const Batch& rows, std::size_t begin, std::size_t end) {
  std::vector<std::uint32_t> wanted;
  for (std::size_t i = begin; i < end; ++i) wanted.push_back(static_cast<std::uint32_t>(i));
  return rows.take(wanted);
}

TEST(SegmentMerge, gives_what_sorting_everything_at_once_gives) {
  for (const std::size_t slice_rows : {1u, 50u, 100'000u}) {
    const Batch rows = rows_of(static_cast<std::uint32_t>(slice_rows), 2000);
    std::vector<std::shared_ptr<const SegmentFile>> runs;
    for (std::size_t begin = 0; begin < rows.rows(); begin += 300) {
      TextWriter writer;
      const Batch run = sorted_rows(part(rows, begin, std::min(begin + 300, rows.rows())), 2);
      ASSERT_TRUE(write_segment_file(writer, run, 2, 7).ok());
      auto file = SegmentFile::open(std::make_shared<TextReader>(writer.take()));
      ASSERT_TRUE(file.ok()) << file.error().message;
      runs.push_back(std::make_shared<SegmentFile>(std::move(file).value()));
    }
    TextWriter merged;
    const Status status = merge_segments(runs, merged, slice_rows);
    ASSERT_TRUE(status.ok()) << status.error().message;
    const auto file = SegmentFile::open(std::make_shared<TextReader>(merged.take()));
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto read = file->read(file->schema());
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(difference(*read, sorted_rows(rows, 2)), "") << slice_rows;
  }
}

TEST(SegmentMerge, a_piece_that_is_not_behind_the_one_before_is_refused) {
  const Batch rows = sorted_rows(rows_of(3, 20), 2);
  TextWriter bytes;
  SegmentFileWriter writer(bytes, 2);
  ASSERT_TRUE(writer.append(part(rows, 10, 20)).ok());
  EXPECT_FALSE(writer.append(part(rows, 0, 10)).ok());
}

class SegmentWriterTest : public ::testing::Test {
 protected:
  std::vector<Segment> write(const Batch& rows, const SegmentSizes& sizes) {
    SegmentWriter writer(*blobs_, owner_, 2, OnlineUse::kOffline, sizes);
    for (std::size_t begin = 0; begin < rows.rows(); begin += 100) {
      EXPECT_TRUE(writer.add(part(rows, begin, std::min(begin + 100, rows.rows()))).ok());
    }
    EXPECT_TRUE(writer.finish().ok());
    auto segments = writer.commit();
    EXPECT_TRUE(segments.ok()) << segments.error().message;
    return segments.ok() ? std::move(segments).value() : std::vector<Segment>();
  }
  Batch read_all(const std::vector<Segment>& segments, const table::Schema& schema) {
    Batch out(schema);
    for (const Segment& segment : segments) {
      auto rows = read_segment(*blobs_, {"pay", "v"}, segment, schema);
      EXPECT_TRUE(rows.ok()) << rows.error().message;
      if (rows.ok()) out.append(std::move(rows).value());
    }
    return out;
  }

  std::unique_ptr<storage::BlobStore> blobs_ = storage::make_fake_blobs();
  storage::Owner owner_ = owner_of_view("pay", Zone("ae"), "v");
};

TEST_F(SegmentWriterTest, many_sorted_runs_become_one_segment) {
  const Batch rows = rows_of(11, 3000);
  const std::vector<Segment> merged = write(rows, {200, 1 << 30});
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged[0].rows, 3000u);
  EXPECT_EQ(merged[0].event_min.nanos, 0);
  EXPECT_EQ(merged[0].event_max.nanos, 49);
  EXPECT_EQ(difference(read_all(merged, rows.schema), sorted_rows(rows, 2)), "");
  EXPECT_EQ(write(rows, {200, 1 << 30})[0].content, merged[0].content);
}

TEST_F(SegmentWriterTest, few_runs_stay_as_they_are_and_many_bytes_make_more_segments) {
  const Batch rows = rows_of(12, 3000);
  EXPECT_EQ(write(rows, {1000, 1 << 30}).size(), 3u);
  const std::vector<Segment> several = write(rows, {100, 20'000});
  EXPECT_GT(several.size(), 1u);
  EXPECT_LT(several.size(), 30u);
  EXPECT_EQ(difference(sorted_rows(read_all(several, rows.schema), 2), sorted_rows(rows, 2)), "");
}

}  // namespace
}  // namespace falaj::features
