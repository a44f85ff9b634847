#include "features/internal/view_index.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "features/internal/segments.h"
#include "features/key.h"

namespace falaj::features {
namespace {

constexpr std::size_t kShards = 64;

// Rows with a number, and a text that does not lie inside its string.
class Rows {
 public:
  explicit Rows(std::atomic<std::int64_t>& bytes) : index(2, bytes) {}

  const RowView& row(std::int64_t key, std::uint64_t commit) {
    words_.set_version(key, 0, sequence_of(commit, 0));
    words_.set_word(0, static_cast<std::uint64_t>(key));
    words_.set_text(1, text(key));
    row_ = words_.row();
    return row_;
  }
  static std::string text(std::int64_t key) { return "the text of key " + std::to_string(key); }
  void put(std::int64_t from, std::int64_t to, std::uint64_t commit,
           ViewIndex::Replaced replaced = ViewIndex::Replaced::kForget) {
    for (std::int64_t key = from; key < to; ++key) {
      index.put(encode_key({key}), row(key, commit), replaced);
    }
  }
  void fill(std::int64_t key, std::uint64_t commit) {
    index.fill(encode_key({key}), row(key, commit), index.ticket(encode_key({key})));
  }
  // What is there is right.
  ViewIndex::Seen seen(std::int64_t key, std::uint64_t commit = 9) const {
    return index.read(encode_key({key}), commit, [&](const RowView& there) {
      EXPECT_EQ(there.word(0), static_cast<std::uint64_t>(key));
      EXPECT_EQ(there.text(1), text(key));
    });
  }

  ViewIndex index;

 private:
  RowWords words_{2};
  RowView row_{{}, 0};
};

TEST(ViewIndex, gives_its_room_back_after_a_peak) {
  std::atomic<std::int64_t> bytes{0};
  Rows rows(bytes);
  rows.put(0, 1'000, 2);
  const std::int64_t small = bytes.load();
  rows.put(1'000, 50'000, 1);
  const std::int64_t peak = bytes.load();
  rows.index.evict(peak, 1);
  EXPECT_LT(bytes.load(), 4 * small) << "of " << peak;  // Some chunks have rows of both commits.
  for (std::int64_t key = 0; key < 50'000; ++key) {
    const auto seen = rows.seen(key);
    ASSERT_TRUE(seen == ViewIndex::Seen::kRow || key >= 1'000) << key;
  }
  // A bound below the peak is kept from now on, whatever is fetched.
  const std::int64_t bound = peak / 4;
  for (std::int64_t key = 1'000; key < 50'000; ++key) {
    rows.fill(key, 1);
    ASSERT_EQ(rows.seen(key), ViewIndex::Seen::kRow);
    if (bytes.load() > bound) rows.index.evict(bytes.load() - bound, 1);
    ASSERT_LE(bytes.load(), bound) << key;
  }
  rows.index.evict(peak, 2);
  EXPECT_EQ(bytes.load(), 0);
  rows.put(0, 1'000, 3);
  for (std::int64_t key = 0; key < 1'000; ++key) ASSERT_EQ(rows.seen(key), ViewIndex::Seen::kRow);
  rows.index.clear();
  EXPECT_EQ(bytes.load(), 0);
}

// Closing gaps moves rows to other places: what they have replaced goes with them.
TEST(ViewIndex, keeps_what_a_publish_replaced_when_it_gives_room_back) {
  std::atomic<std::int64_t> bytes{0};
  Rows rows(bytes);
  rows.put(0, 50'000, 1);
  for (std::int64_t key = 49'000; key < 50'000; ++key) {
    RowWords words(2);
    words.set_version(key, 1, sequence_of(2, 0));
    words.set_text(1, "new");
    rows.index.put(encode_key({key}), words.row(), ViewIndex::Replaced::kKeep);
  }
  const std::int64_t peak = bytes.load();
  rows.index.evict(peak, 1);
  EXPECT_LT(bytes.load(), peak / 4);
  for (std::int64_t key = 49'000; key < 50'000; ++key) {
    ASSERT_EQ(rows.seen(key, 1), ViewIndex::Seen::kRow) << "as it was before";
    const auto now = rows.index.read(
        encode_key({key}), 2, [&](const RowView& there) { EXPECT_EQ(there.text(1), "new"); });
    ASSERT_EQ(now, ViewIndex::Seen::kRow);
  }
}

TEST(ViewIndex, lets_go_of_no_more_than_is_asked) {
  std::atomic<std::int64_t> bytes{0};
  Rows rows(bytes);
  constexpr std::int64_t kKeys = 50'000;
  rows.put(0, kKeys, 1);
  EXPECT_GT(rows.index.evict(1, 1), 0);
  const auto gone = [&] {
    std::array<int, kShards> out{};
    for (std::int64_t key = 0; key < kKeys; ++key) {
      if (rows.seen(key) != ViewIndex::Seen::kRow) ++out[hash64(encode_key({key})) >> 58];
    }
    return out;
  };
  int all = 0;
  for (const int rows_gone : gone()) all += rows_gone;
  EXPECT_EQ(all, 16);
  // Of every shard a little: none is locked until it is empty.
  rows.index.evict(bytes.load() / 4, 1);
  for (const int rows_gone : gone()) {
    EXPECT_GT(rows_gone, 0);
    EXPECT_LT(rows_gone, kKeys / static_cast<int>(kShards) * 3 / 4);
  }
}

TEST(ViewIndex, readers_see_whole_rows_while_rows_come_and_go) {
  std::atomic<std::int64_t> bytes{0};
  Rows rows(bytes);
  constexpr std::int64_t kKeys = 8'000;
  rows.put(0, kKeys, 1);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    for (std::int64_t key = 0; !stop.load(); key = (key + 7) % kKeys) {
      EXPECT_NE(rows.seen(key), ViewIndex::Seen::kNothing);
    }
  });
  std::thread evictor([&] {
    while (!stop.load()) rows.index.evict(bytes.load(), 1);
  });
  for (int round = 0; round < 10; ++round) {
    for (std::int64_t key = 0; key < kKeys; ++key) rows.fill(key, 1);
  }
  stop = true;
  reader.join();
  evictor.join();
}

}  // namespace
}  // namespace falaj::features
