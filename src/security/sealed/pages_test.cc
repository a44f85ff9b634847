#include "security/sealed/pages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "storage/open.h"
#include "storage/testing/temp_folder.h"

namespace falaj::security::sealed {
namespace {

namespace fs = std::filesystem;
using storage::Durability;
using storage::SqlTransaction;

constexpr std::size_t kPage = 4096;
const storage::Migration kRows{"rows",
                               "CREATE TABLE rows (k INTEGER PRIMARY KEY, v TEXT NOT NULL);"};

crypto::SecretBytes key_of(char fill) { return crypto::SecretBytes(std::string(32, fill)); }

class SealedPagesTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<storage::SqlStore>> open(const std::string& folder, char fill = 'k') {
    return storage::open_sqlite(folder + "/m.db", Durability::kSync,
                                make_page_cipher(key_of(fill), "m.db"));
  }
  static Status put(storage::SqlStore& store, int from, int to) {
    return store.write([&](SqlTransaction& tx) -> Status {
      for (int i = from; i < to; ++i)
        FALAJ_TRY(tx.execute("INSERT INTO rows VALUES (?, ?)", {i, text(i)}));
      return {};
    });
  }
  static std::string text(std::int64_t i) {
    return "canary-" + std::to_string(i) + "-" +
           std::string(static_cast<std::size_t>(i % 700), 'x');
  }
  // Every row as it should be, or an error; never a wrong one.
  static Status check(storage::SqlStore& store, int rows) {
    return store.read([&](SqlTransaction& tx) -> Status {
      const storage::SqlRows found = FALAJ_TRY(tx.query("SELECT k, v FROM rows ORDER BY k"));
      EXPECT_EQ(found.size(), static_cast<std::size_t>(rows));
      for (const storage::SqlRow& row : found) EXPECT_EQ(row.text(1), text(row.integer(0)));
      return {};
    });
  }
  static std::string bytes(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void set_bytes(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }
  // The folder as a crash would leave it, with the log in use.
  std::string crashed() {
    const std::string copy = folder_ / "crashed";
    fs::remove_all(copy);
    fs::create_directories(copy);
    for (const auto& entry : fs::directory_iterator(folder_ / "live")) {
      const std::string name = entry.path().filename().string();
      if (name == "m.db" || name == "m.db-wal") fs::copy(entry.path(), fs::path(copy) / name);
    }
    return copy;
  }

  storage::TempFolder folder_;
};

TEST_F(SealedPagesTest, nothing_readable_lies_in_database_or_log) {
  auto store = open(folder_ / "live").value();
  ASSERT_TRUE(store->migrate({kRows}).ok());
  ASSERT_TRUE(put(*store, 0, 300).ok());
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "live")) {
    const std::string raw = bytes(entry.path());
    for (const char* word : {"canary", "SQLite format", "CREATE", "rows"}) {
      EXPECT_EQ(raw.find(word), std::string::npos) << entry.path() << " " << word;
    }
    files += raw.size() > kPage ? 1 : 0;
  }
  EXPECT_GE(files, 1);
  store.reset();
  const std::string raw = bytes(folder_ / "live/m.db");
  EXPECT_GT(raw.size(), 10 * kPage);
  EXPECT_EQ(raw.find("canary"), std::string::npos);
  EXPECT_TRUE(check(*open(folder_ / "live").value(), 300).ok());
}

TEST_F(SealedPagesTest, the_log_of_a_crashed_process_is_recovered) {
  const auto store = open(folder_ / "live").value();
  ASSERT_TRUE(store->migrate({kRows}).ok());
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(put(*store, i * 10, i * 10 + 10).ok());
    const auto again = open(crashed());
    ASSERT_TRUE(again.ok()) << again.error().message;
    ASSERT_TRUE(check(**again, i * 10 + 10).ok());
  }
  // A last frame that was torn is as if it had never been written.
  const std::string copy = crashed();
  std::string log = bytes(copy + "/m.db-wal");
  log.resize(log.size() - 2'000);
  set_bytes(copy + "/m.db-wal", log);
  EXPECT_TRUE(check(*open(copy).value(), 390).ok());
}

TEST_F(SealedPagesTest, another_key_or_none_opens_nothing) {
  {
    auto store = open(folder_ / "live").value();
    ASSERT_TRUE(store->migrate({kRows}).ok());
    ASSERT_TRUE(put(*store, 0, 50).ok());
  }
  const auto wrong = open(folder_ / "live", 'w');
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().id, ErrorId::kDatabaseCorrupt) << wrong.error().message;
  EXPECT_FALSE(storage::open_sqlite(folder_ / "live/m.db").ok());
  EXPECT_TRUE(check(*open(folder_ / "live").value(), 50).ok());
}

TEST_F(SealedPagesTest, a_database_in_clear_is_refused_by_name) {
  {
    auto plain = storage::open_sqlite(folder_ / "old/m.db").value();
    ASSERT_TRUE(plain->migrate({kRows}).ok());
  }
  const auto refused = open(folder_ / "old");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kDataFolderNewer);
  EXPECT_NE(refused.error().message.find("not encrypted"), std::string::npos);
}

TEST_F(SealedPagesTest, pages_that_were_changed_or_moved_are_never_read) {
  {
    auto store = open(folder_ / "live").value();
    ASSERT_TRUE(store->migrate({kRows}).ok());
    ASSERT_TRUE(put(*store, 0, 400).ok());
  }
  const fs::path file = folder_ / "live/m.db";
  const std::string good = bytes(file);
  const std::size_t pages = good.size() / kPage;
  ASSERT_GT(pages, 20u);
  std::mt19937 random(7);
  // Pages 2 and 3 hold the list of migrations, which nobody reads here.
  const auto place = [](std::size_t page) { return page == 1 || page == 2 ? page + 2 : page; };
  const auto refused = [&](const std::string& changed) {
    set_bytes(file, changed);
    const auto store = open(folder_ / "live");
    const Status read = store.ok() ? check(**store, 400) : Status(store.error());
    if (read.ok()) return false;
    EXPECT_EQ(read.error().id, ErrorId::kDatabaseCorrupt) << read.error().message;
    return true;
  };
  for (int i = 0; i < 60; ++i) {
    std::string flipped = good;
    const std::size_t at = place(random() % pages) * kPage + random() % kPage;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << random() % 8));
    EXPECT_TRUE(refused(flipped)) << at;
    std::string swapped = good;
    const std::size_t a = place(random() % pages);
    const std::size_t b = (a + 1 + random() % (pages - 1)) % pages;
    std::swap_ranges(swapped.begin() + static_cast<std::ptrdiff_t>(a * kPage),
                     swapped.begin() + static_cast<std::ptrdiff_t>((a + 1) * kPage),
                     swapped.begin() + static_cast<std::ptrdiff_t>(b * kPage));
    EXPECT_TRUE(refused(swapped)) << a << " " << b;
    std::string blank = good;
    std::fill_n(blank.begin() + static_cast<std::ptrdiff_t>(a * kPage), kPage, '\0');
    EXPECT_TRUE(refused(blank)) << a;
  }
  EXPECT_FALSE(refused(good)) << "the method itself is sound";
}

// What a log says after it was changed is what it said some commits earlier, or an error.
TEST_F(SealedPagesTest, a_changed_log_shows_no_wrong_row) {
  const auto store = open(folder_ / "live").value();
  ASSERT_TRUE(store->migrate({kRows}).ok());
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(put(*store, i * 5, i * 5 + 5).ok());
  const std::string copy = crashed();
  const std::string log = bytes(copy + "/m.db-wal");
  const std::string database = bytes(copy + "/m.db");
  std::mt19937 random(8);
  for (int i = 0; i < 100; ++i) {
    std::string changed = log;
    if (i % 2 == 0) {
      const std::size_t at = random() % log.size();
      changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
    } else {
      const std::size_t frames = (log.size() - 32) / 4120;
      const std::size_t a = 32 + random() % frames * 4120;
      const std::size_t b = 32 + random() % frames * 4120;
      std::swap_ranges(changed.begin() + static_cast<std::ptrdiff_t>(a),
                       changed.begin() + static_cast<std::ptrdiff_t>(a + 4120),
                       changed.begin() + static_cast<std::ptrdiff_t>(b));
    }
    set_bytes(copy + "/m.db", database);
    set_bytes(copy + "/m.db-wal", changed);
    fs::remove(copy + "/m.db-shm");
    const auto again = open(copy);
    if (!again.ok()) continue;
    (void)(*again)->read([&](SqlTransaction& tx) -> Status {
      const storage::SqlRows rows = FALAJ_TRY(tx.query("SELECT k, v FROM rows ORDER BY k"));
      EXPECT_EQ(rows.size() % 5, 0u) << "whole commits only";
      for (const storage::SqlRow& row : rows) EXPECT_EQ(row.text(1), text(row.integer(0)));
      return {};
    });
  }
}

TEST_F(SealedPagesTest, a_header_is_hidden_and_comes_back) {
  const auto cipher = make_page_cipher(key_of('k'), "m.db");
  std::array<unsigned char, storage::PageCipher::kFrameHeader> header{};
  for (std::size_t i = 0; i < header.size(); ++i) header[i] = static_cast<unsigned char>(i);
  const auto plain = header;
  cipher->hide_header(32, header);
  EXPECT_NE(header, plain);
  auto elsewhere = plain;
  cipher->hide_header(4152, elsewhere);
  EXPECT_NE(elsewhere, header);
  cipher->show_header(32, header);
  EXPECT_EQ(header, plain);
}

TEST_F(SealedPagesTest, transactions_larger_than_the_cache_are_kept_and_recovered) {
  auto store = open(folder_ / "live").value();
  ASSERT_TRUE(store->migrate({kRows}).ok());
  ASSERT_TRUE(put(*store, 0, 6'000).ok());  // Past the page cache: pages spill into the log.
  ASSERT_TRUE(store
                  ->write([](SqlTransaction& tx) -> Status {
                    FALAJ_TRY(tx.execute("DELETE FROM rows WHERE k >= 1000"));
                    FALAJ_TRY(tx.execute("UPDATE rows SET v = v || '' WHERE k < 1000"));
                    return {};
                  })
                  .ok());
  const Status live = check(*store, 1'000);
  EXPECT_TRUE(live.ok()) << live.error().message;
  const auto again = open(crashed());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_TRUE(check(**again, 1'000).ok());
  store.reset();
  EXPECT_TRUE(check(*open(folder_ / "live").value(), 1'000).ok());
}

}  // namespace
}  // namespace falaj::security::sealed
