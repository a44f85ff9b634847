#include "security/sealed/kv.h"

#include <gtest/gtest.h>

#include <map>

#include "security/keys/testing/key_world.h"
#include "storage/open.h"

namespace falaj::security::sealed {
namespace {

using storage::Owner;

const Owner kOwner{ProjectName("pay"), Zone("ae"), "FeatureView/activity"};
const Owner kOther{ProjectName("pay"), Zone("ae"), "FeatureView/other"};

// Keeps what a disk would have, and lets a test change it.
class OpenKv final : public storage::KvStore {
 public:
  using Rows = std::map<std::string, std::string>;
  explicit OpenKv(std::map<Owner, Rows>& rows) : rows_(rows) {}
  Result<std::optional<std::string>> get(const Owner& owner, std::string_view key) const override {
    const auto row = rows_[owner].find(std::string(key));
    if (row == rows_[owner].end()) return std::optional<std::string>();
    return std::optional<std::string>(row->second);
  }
  Result<std::vector<std::optional<std::string>>> get_many(
      const Owner& owner, const std::vector<std::string>& keys) const override {
    std::vector<std::optional<std::string>> out;
    for (const std::string& key : keys) out.push_back(get(owner, key).value());
    return out;
  }
  Status write(const Owner& owner, const std::vector<storage::KvWrite>& batch) override {
    for (const storage::KvWrite& write : batch) {
      if (write.value) rows_[owner][write.key] = *write.value;
      if (!write.value) rows_[owner].erase(write.key);
    }
    return {};
  }
  Status clear(const Owner& owner) override {
    rows_.erase(owner);
    return {};
  }
  Status purge(const Owner&) override { return {}; }
  Status scan(const Owner& owner,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    for (const auto& [key, value] : rows_[owner]) {
      if (!visit(key, value)) break;
    }
    return {};
  }

 private:
  std::map<Owner, Rows>& rows_;
};

class SealedKvTest : public ::testing::Test {
 protected:
  keys::testing::KeyWorld world_;
  std::map<Owner, OpenKv::Rows> disk_;
  std::unique_ptr<storage::KvStore> store_ = seal_kv(std::make_unique<OpenKv>(disk_), *world_.tree);
};

TEST_F(SealedKvTest, neither_key_nor_value_can_be_read) {
  ASSERT_TRUE(store_->write(kOwner, {{"784-1985-1234567-1", "salary 12345"}}).ok());
  ASSERT_EQ(disk_[kOwner].size(), 1u);
  const auto& [key, value] = *disk_[kOwner].begin();
  EXPECT_EQ(key.size(), 16u);
  EXPECT_EQ((key + value).find("784"), std::string::npos);
  EXPECT_EQ(value.find("salary"), std::string::npos);
  world_.reopen();
  const auto again = seal_kv(std::make_unique<OpenKv>(disk_), *world_.tree);
  EXPECT_EQ(again->get(kOwner, "784-1985-1234567-1").value(), "salary 12345");
}

TEST_F(SealedKvTest, a_large_write_is_whole_and_in_order) {
  std::vector<storage::KvWrite> batch;
  for (int i = 0; i < 5'000; ++i) batch.push_back({std::to_string(i % 4'000), std::to_string(i)});
  ASSERT_TRUE(store_->write(kOwner, batch).ok());
  EXPECT_EQ(disk_[kOwner].size(), 4'000u);
  for (int i = 0; i < 4'000; ++i) {
    const int last = i < 1'000 ? i + 4'000 : i;  // The later of two writes of one key.
    ASSERT_EQ(store_->get(kOwner, std::to_string(i)).value(), std::to_string(last));
  }
}

TEST_F(SealedKvTest, one_key_has_another_token_with_another_owner) {
  ASSERT_TRUE(store_->write(kOwner, {{"ann", "1"}}).ok());
  ASSERT_TRUE(store_->write(kOther, {{"ann", "1"}}).ok());
  EXPECT_NE(disk_[kOwner].begin()->first, disk_[kOther].begin()->first);
}

TEST_F(SealedKvTest, what_was_changed_or_moved_does_not_open) {
  ASSERT_TRUE(store_->write(kOwner, {{"ann", "1"}, {"bob", "2"}}).ok());
  const OpenKv::Rows good = disk_[kOwner];
  const auto refused = [&] {
    int count = 0;
    for (const char* key : {"ann", "bob"}) {
      const auto read = store_->get(kOwner, key);
      if (read.ok()) continue;
      EXPECT_EQ(read.error().id, ErrorId::kDecryptFailed);
      ++count;
    }
    return count;
  };
  EXPECT_EQ(refused(), 0);
  std::swap(disk_[kOwner].begin()->second, disk_[kOwner].rbegin()->second);
  EXPECT_EQ(refused(), 2);
  EXPECT_FALSE(store_->scan(kOwner, [](auto, auto) { return true; }).ok());
  for (std::size_t at = 0; at < good.begin()->second.size(); ++at) {
    disk_[kOwner] = good;
    std::string& value = disk_[kOwner].begin()->second;
    value[at] = static_cast<char>(value[at] ^ 0x40);
    EXPECT_EQ(refused(), 1) << at;
  }
  disk_[kOther] = good;  // Another owner's rows, as they lie.
  int seen = 0;
  EXPECT_FALSE(store_->scan(kOther, [&](auto, auto) { return ++seen > 0; }).ok());
  EXPECT_EQ(seen, 0);
}

TEST_F(SealedKvTest, a_row_with_a_key_of_its_own_is_destroyed_alone) {
  const auto own = [](std::string key, std::string value) {
    return storage::KvWrite{std::move(key), std::move(value), storage::RowKey::kItsOwn};
  };
  std::vector<storage::KvWrite> batch{own("ann", "1"), own("bob", "2"), {"mark", "3"}};
  for (int i = 0; i < 3'000; ++i) batch.push_back(own("k" + std::to_string(i), "v"));
  ASSERT_TRUE(store_->write(kOwner, batch).ok());
  ASSERT_TRUE(store_->write(kOwner, {own("bob", "4")}).ok());
  const auto read = [&](std::string_view key) { return store_->get(kOwner, key).value(); };
  EXPECT_EQ(read("ann"), "1");
  EXPECT_EQ(read("bob"), "4");
  const OpenKv::Rows before = disk_[kOwner];

  const keys::KeyScope ann = row_scope(*world_.tree, kOwner, "ann").value();
  const keys::ShredReceipt receipt = world_.tree->shred(ann).value();
  EXPECT_EQ(receipt.level, "subject");
  EXPECT_EQ(receipt.data_keys, 1);
  EXPECT_EQ(disk_[kOwner], before) << "the bytes lie where they lay, and cannot be read";
  EXPECT_EQ(read("ann"), std::nullopt);
  EXPECT_EQ(read("bob"), "4");
  EXPECT_EQ(read("mark"), "3");
  std::size_t seen = 0;
  ASSERT_TRUE(store_
                  ->scan(kOwner,
                         [&](std::string_view key, std::string_view) {
                           EXPECT_NE(key, "ann");
                           return ++seen > 0;
                         })
                  .ok());
  EXPECT_EQ(seen, 3'002u);
  world_.reopen();
  const auto again = seal_kv(std::make_unique<OpenKv>(disk_), *world_.tree);
  EXPECT_EQ(again->get(kOwner, "ann").value(), std::nullopt);
  EXPECT_EQ(again->get(kOwner, "k2999").value(), "v");
  // Who comes back gets another key.
  ASSERT_TRUE(again->write(kOwner, {own("ann", "5")}).ok());
  EXPECT_EQ(again->get(kOwner, "ann").value(), "5");
}

TEST_F(SealedKvTest, rows_with_keys_of_their_own_survive_rotation_of_what_is_above) {
  ASSERT_TRUE(store_->write(kOwner, {{"ann", "1", storage::RowKey::kItsOwn}}).ok());
  const keys::KeyScope object{"pay", Zone("ae"), kOwner.object, "", ""};
  ASSERT_TRUE(world_.tree->rotate(object).ok());
  ASSERT_TRUE(world_.tree->raise_min_version(object, 2).ok());
  EXPECT_EQ(store_->get(kOwner, "ann").value(), "1");
  ASSERT_TRUE(store_->write(kOwner, {{"bob", "2", storage::RowKey::kItsOwn}}).ok());
  EXPECT_EQ(store_->get(kOwner, "bob").value(), "2");
}

TEST_F(SealedKvTest, clear_needs_no_key) {
  ASSERT_TRUE(store_->write(kOwner, {{"ann", "1"}}).ok());
  ASSERT_TRUE(store_->write(kOther, {{"ann", "2"}}).ok());
  ASSERT_TRUE(world_.tree->shred({"pay", Zone("ae"), kOwner.object, "", ""}).ok());
  ASSERT_TRUE(store_->clear(kOwner).ok());
  EXPECT_TRUE(disk_[kOwner].empty());
  EXPECT_EQ(store_->get(kOther, "ann").value(), "2");
}

TEST_F(SealedKvTest, after_shredding_nothing_opens) {
  ASSERT_TRUE(store_->write(kOwner, {{"ann", "1"}}).ok());
  ASSERT_TRUE(store_->write(kOther, {{"ann", "2"}}).ok());
  ASSERT_TRUE(world_.tree->shred({"pay", Zone("ae"), kOwner.object, "", ""}).ok());
  const auto read = store_->get(kOwner, "ann");
  EXPECT_TRUE(!read.ok() || !read->has_value());
  int seen = 0;
  EXPECT_FALSE(store_->scan(kOwner, [&](auto, auto) { return ++seen > 0; }).ok());
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(store_->get(kOther, "ann").value(), "2");
}

}  // namespace
}  // namespace falaj::security::sealed
