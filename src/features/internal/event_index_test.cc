#include "features/internal/event_index.h"

#include <gtest/gtest.h>

#include <optional>

#include "features/key.h"

namespace falaj::features {
namespace {

using table::Type;

constexpr std::int64_t kHour = 3'600'000'000'000;

struct Event {
  std::int64_t key = 0;
  std::int64_t hour = 0;
  double value = 0;
};

class EventIndexTest : public testing::Test {
 protected:
  EventIndexTest()
      : index_(std::make_shared<EventIndex>(plan_windows({}, std::vector{sum_}), 3)),
        windows_{index_, index_->plan(), {0}} {}

  // Ascending by key and hour.
  void put(std::uint64_t commit, std::uint64_t settled, std::int64_t now_hour,
           const std::vector<Event>& events) {
    table::Batch rows(table::Schema{{{"id", Type::kInt64},
                                     {std::string(kEventColumn), Type::kTimestamp},
                                     {std::string(kCreatedColumn), Type::kTimestamp},
                                     {std::string(kRowColumn), Type::kInt64},
                                     {"v", Type::kFloat64}}});
    for (std::size_t i = 0; i < events.size(); ++i) {
      rows.columns[0].push_int(events[i].key);
      rows.columns[1].push_int(events[i].hour * kHour);
      rows.columns[2].push_null();
      rows.columns[3].push_int(static_cast<std::int64_t>(i));
      rows.columns[4].push_double(events[i].value);
    }
    index_->put({rows, 1, commit, settled, Timestamp{now_hour * kHour}});
  }

  // -1: null; -2: that commit is gone.
  double read(std::uint64_t commit, std::int64_t hour, std::int64_t key = 1) {
    double out = -1;
    const bool there = read_windows(windows_, encode_key({key}), commit, Timestamp{hour * kHour},
                                    [&](std::size_t, const expression::Cell& cell) {
                                      if (!cell.is_null) out = cell.number;
                                    });
    return there ? out : -2;
  }

  const Aggregate sum_{AggregateFunction::kSum, {"v", Type::kFloat64}, Duration::hours(10), 0};
  std::shared_ptr<EventIndex> index_;
  OnlineWindows windows_;
};

TEST_F(EventIndexTest, a_reader_at_a_commit_sees_nothing_of_a_later_one) {
  put(1, 0, 100, {{1, 99, 1}});
  put(2, 1, 100, {{1, 98, 10}, {1, 99, 2}});  // A late event and a correction.
  EXPECT_EQ(read(0, 100), -1);
  EXPECT_EQ(read(1, 100), 1);
  EXPECT_EQ(read(2, 100), 12);
}

TEST_F(EventIndexTest, versions_go_once_nobody_begins_to_read_before_what_replaced_them) {
  put(1, 0, 100, {{1, 99, 1}});
  put(2, 1, 100, {{1, 99, 2}});
  EXPECT_EQ(read(1, 100), 1);
  put(3, 2, 100, {{1, 97, 5}});
  EXPECT_EQ(index_->find(encode_key({std::int64_t{1}}))->rows.size(), 2u);
  EXPECT_EQ(read(1, 100), -2) << "read again at a later commit";
  EXPECT_EQ(read(2, 100), 2);
  EXPECT_EQ(read(3, 100), 7);
}

TEST_F(EventIndexTest, what_comes_twice_is_there_once) {
  put(1, 0, 100, {{1, 98, 1}, {1, 99, 2}});
  put(1, 0, 100, {{1, 98, 1}, {1, 99, 2}});
  EXPECT_EQ(read(1, 100), 3);
  EXPECT_EQ(index_->find(encode_key({std::int64_t{1}}))->rows.size(), 2u);
}

TEST_F(EventIndexTest, old_events_go_of_keys_that_never_come_again_too) {
  put(1, 0, 100, {{1, 95, 1}, {2, 99, 2}});
  EXPECT_EQ(read(1, 104), 1);
  put(2, 1, 200, {{2, 199, 4}});
  EXPECT_EQ(index_->find(encode_key({std::int64_t{1}})), nullptr);
  EXPECT_EQ(read(2, 200, 2), 4);
  EXPECT_EQ(read(2, 199, 2), 4) << "a clock that is an hour behind";
  EXPECT_EQ(read(2, 198, 2), -1) << "what it would need may be gone";
}

TEST_F(EventIndexTest, past_the_bound_a_window_that_reaches_what_went_is_null) {
  put(1, 0, 100, {{1, 92, 1}, {1, 97, 2}, {1, 98, 3}, {1, 99, 4}});
  EXPECT_EQ(read(1, 100), -1);
  EXPECT_EQ(read(1, 101), -1);
  EXPECT_EQ(read(1, 102), 9) << "92 is outside now";
}

TEST_F(EventIndexTest, erased_keys_have_no_events) {
  put(1, 0, 100, {{1, 99, 1}, {2, 99, 2}});
  EXPECT_TRUE(index_->erase(encode_key({std::int64_t{1}})));
  EXPECT_FALSE(index_->erase(encode_key({std::int64_t{1}})));
  EXPECT_EQ(read(1, 100), -1);
  EXPECT_EQ(read(1, 100, 2), 2);
}

}  // namespace
}  // namespace falaj::features
