#include "security/keys/key_tree.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "crypto/aead.h"
#include "security/keys/testing/key_world.h"

namespace falaj::security::keys {
namespace {

using testing::KeyWorld;

const KeyScope kActivity{"payments", Zone("ae-fin"), "FeatureView/activity", "", "blob"};

std::string text(const crypto::SecretBytes& key) { return std::string(key.view()); }

class KeyTreeTest : public ::testing::Test {
 protected:
  std::int64_t count(std::string_view sql, const storage::SqlParams& params = {}) {
    return storage::query(*world.sql, sql, params).value().front().integer(0);
  }
  Status execute(std::string_view sql, const storage::SqlParams& params = {}) {
    return world.sql->write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(tx.execute(sql, params));
      return {};
    });
  }
  ErrorId refusal(const KeyScope& scope, std::string_view wrapped) {
    const auto opened = world.tree->open_data_key(scope, wrapped);
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? ErrorId::kInternal : opened.error().id;
  }

  KeyWorld world;
};

TEST_F(KeyTreeTest, a_data_key_opens_again_also_after_a_restart) {
  const DataKey made = world.tree->new_data_key(kActivity).value();
  EXPECT_EQ(made.wrapped.size(), kDataKeyHeaderBytes);
  EXPECT_EQ(text(world.tree->open_data_key(kActivity, made.wrapped).value()), text(made.key));
  EXPECT_EQ(text(world.tree->open_data_key(kActivity, made.wrapped + "data behind").value()),
            text(made.key));
  world.reopen();
  EXPECT_EQ(text(world.tree->open_data_key(kActivity, made.wrapped).value()), text(made.key));
}

TEST_F(KeyTreeTest, no_two_data_keys_are_alike) {
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.insert(text(world.tree->new_data_key(kActivity)->key));
  EXPECT_EQ(keys.size(), 100U);
}

TEST_F(KeyTreeTest, a_wrapped_key_opens_only_in_its_own_place) {
  KeyScope subject = kActivity;
  subject.subject = "customer 17";
  const DataKey made = world.tree->new_data_key(subject).value();
  const DataKey whole = world.tree->new_data_key(kActivity).value();
  std::vector<KeyScope> others(6, subject);
  others[0].project = "lending";
  others[1].zone = Zone("ae");
  others[2].object = "FeatureView/profile";
  others[3].subject = "customer 18";
  others[4].subject = "";
  others[5].purpose = "kv";
  for (const KeyScope& other : others) {
    static_cast<void>(world.tree->new_data_key(other).value());  // Its rings are there.
    EXPECT_EQ(refusal(other, made.wrapped), ErrorId::kDecryptFailed);
  }
  EXPECT_TRUE(world.tree->open_data_key(subject, made.wrapped).ok());
  EXPECT_EQ(refusal(subject, whole.wrapped), ErrorId::kDecryptFailed);
}

// The attack by somebody who may write to keys.db: a row is moved below another object.
TEST_F(KeyTreeTest, a_row_that_was_moved_in_the_database_does_not_open) {
  KeyScope other = kActivity;
  for (const char* const what : {"project", "zone", "object"}) {
    other = kActivity;
    if (what == std::string_view("project")) other.project = "lending";
    if (what == std::string_view("zone")) other.zone = Zone("ae");
    if (what == std::string_view("object")) other.object = "TrainingSet/x";
    const DataKey victim = world.tree->new_data_key(kActivity).value();
    const DataKey own = world.tree->new_data_key(other).value();
    ASSERT_TRUE(execute("UPDATE data_keys SET ring = (SELECT ring FROM data_keys ORDER BY rowid "
                        "DESC LIMIT 1) WHERE rowid = (SELECT max(rowid) - 1 FROM data_keys)")
                    .ok());
    EXPECT_EQ(refusal(other, victim.wrapped), ErrorId::kDecryptFailed) << what;
    EXPECT_TRUE(world.tree->open_data_key(other, own.wrapped).ok());
  }
}

TEST_F(KeyTreeTest, a_ring_that_was_moved_in_the_database_does_not_open) {
  const DataKey made = world.tree->new_data_key(kActivity).value();
  ASSERT_TRUE(execute("UPDATE key_rings SET project = 'lending' WHERE project = 'payments'").ok());
  world.reopen();
  KeyScope moved = kActivity;
  moved.project = "lending";
  EXPECT_EQ(refusal(moved, made.wrapped), ErrorId::kDecryptFailed);
}

// Nothing new is sealed under a ring that stands where it was not made: who moved it may hold it.
TEST_F(KeyTreeTest, a_ring_that_was_moved_protects_nothing_new) {
  const std::string at = " WHERE project = 'payments' AND object ";
  for (const std::string& change :
       {"SET project = 'lending'" + at + "IS NOT NULL", "SET zone = 'eu'" + at + "IS NOT NULL",
        "SET object = 'FeatureView/other'" + at + "= 'FeatureView/activity'"}) {
    KeyWorld fresh;
    static_cast<void>(fresh.tree->new_data_key(kActivity).value());
    ASSERT_TRUE(fresh.sql
                    ->write([&](storage::SqlTransaction& tx) -> Status {
                      FALAJ_TRY(tx.execute("UPDATE key_rings " + change));
                      return {};
                    })
                    .ok());
    fresh.reopen();
    KeyScope moved = kActivity;
    if (change.find("lending") != std::string::npos) moved.project = "lending";
    if (change.find("'eu'") != std::string::npos) moved.zone = Zone("eu");
    if (change.find("other") != std::string::npos) moved.object = "FeatureView/other";
    const auto made = fresh.tree->new_data_key(moved);
    ASSERT_FALSE(made.ok()) << change;
    EXPECT_EQ(made.error().id, ErrorId::kDecryptFailed) << change;
  }
}

TEST_F(KeyTreeTest, a_row_under_another_purpose_or_another_id_does_not_open) {
  const DataKey one = world.tree->new_data_key(kActivity).value();
  const DataKey two = world.tree->new_data_key(kActivity).value();
  ASSERT_TRUE(
      execute("UPDATE data_keys SET wrapped = (SELECT wrapped FROM data_keys ORDER BY rowid DESC "
              "LIMIT 1) WHERE rowid = (SELECT max(rowid) - 1 FROM data_keys)")
          .ok());
  EXPECT_EQ(refusal(kActivity, one.wrapped), ErrorId::kDecryptFailed);
  EXPECT_TRUE(world.tree->open_data_key(kActivity, two.wrapped).ok());
  ASSERT_TRUE(execute("UPDATE data_keys SET purpose = 'kv' WHERE rowid = (SELECT max(rowid) FROM "
                      "data_keys)")
                  .ok());
  KeyScope other = kActivity;
  other.purpose = "kv";
  EXPECT_EQ(refusal(other, two.wrapped), ErrorId::kDecryptFailed);
}

TEST_F(KeyTreeTest, every_changed_byte_of_a_row_is_refused) {
  const DataKey made = world.tree->new_data_key(kActivity).value();
  const std::string wrapped =
      storage::query(*world.sql, "SELECT wrapped FROM data_keys ORDER BY rowid DESC LIMIT 1")
          .value()
          .front()
          .text(0);
  for (std::size_t i = 0; i < wrapped.size(); ++i) {
    std::string changed = wrapped;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    ASSERT_TRUE(
        execute("UPDATE data_keys SET wrapped = ? WHERE wrapped = ?", {changed, wrapped}).ok());
    EXPECT_EQ(refusal(kActivity, made.wrapped), ErrorId::kDecryptFailed) << i;
    ASSERT_TRUE(
        execute("UPDATE data_keys SET wrapped = ? WHERE wrapped = ?", {wrapped, changed}).ok());
  }
  EXPECT_TRUE(world.tree->open_data_key(kActivity, made.wrapped).ok());
}

TEST_F(KeyTreeTest, garbage_instead_of_a_header_is_refused) {
  static_cast<void>(world.tree->new_data_key(kActivity).value());
  EXPECT_EQ(refusal(kActivity, ""), ErrorId::kDecryptFailed);
  EXPECT_EQ(refusal(kActivity, "FJDK"), ErrorId::kDecryptFailed);
  EXPECT_EQ(refusal(kActivity, std::string(24, 'x')), ErrorId::kDecryptFailed);
  EXPECT_EQ(refusal(kActivity, std::string("FJDK\1\0\0\0", 8) + std::string(16, 'x')),
            ErrorId::kKeyMissing);
}

TEST_F(KeyTreeTest, asks_for_a_zone_and_a_whole_place) {
  KeyScope scope = kActivity;
  scope.zone = Zone();
  EXPECT_EQ(world.tree->new_data_key(scope).error().id, ErrorId::kZoneMissing);
  scope = kActivity;
  scope.project = "";
  EXPECT_EQ(world.tree->new_data_key(scope).error().code, Code::kInvalidArgument);
  scope = {"payments", Zone("ae"), "", "somebody", "blob"};
  EXPECT_EQ(world.tree->new_data_key(scope).error().code, Code::kInvalidArgument);
}

TEST_F(KeyTreeTest, a_stable_key_stays_the_same_and_is_kept_in_memory) {
  KeyScope scope = kActivity;
  scope.purpose = "kv";
  EXPECT_EQ(world.tree->kept_key(scope), nullptr);
  const std::string first = text(**world.tree->stable_key(scope));
  ASSERT_NE(world.tree->kept_key(scope), nullptr);
  EXPECT_EQ(text(*world.tree->kept_key(scope)), first);
  world.reopen();
  EXPECT_EQ(world.tree->kept_key(scope), nullptr);
  EXPECT_EQ(text(**world.tree->stable_key(scope)), first);
  KeyScope other = scope;
  other.purpose = "token";
  EXPECT_NE(text(**world.tree->stable_key(other)), first);
  EXPECT_NE(text(world.tree->store_key("metadata.db").value()), first);
  EXPECT_EQ(text(world.tree->store_key("metadata.db").value()),
            text(world.tree->store_key("metadata.db").value()));
}

TEST_F(KeyTreeTest, the_database_holds_no_key_and_no_subject_in_the_clear) {
  KeyScope scope = kActivity;
  scope.subject = "customer-784-1990";
  const DataKey made = world.tree->new_data_key(scope).value();
  for (const char* sql :
       {"SELECT id || project || zone || object || subject || parent FROM key_rings",
        "SELECT wrapped FROM key_versions", "SELECT id || purpose || wrapped FROM data_keys"}) {
    const storage::SqlRows rows = storage::query(*world.sql, sql).value();
    for (const storage::SqlRow& row : rows) {
      EXPECT_EQ(row.text(0).find("784"), std::string::npos);
      EXPECT_EQ(row.text(0).find(text(made.key)), std::string::npos);
    }
  }
}

TEST_F(KeyTreeTest, a_vault_that_is_down_stops_what_needs_it_and_nothing_else) {
  const DataKey made = world.tree->new_data_key(kActivity).value();
  world.vault.go_down();
  EXPECT_TRUE(world.tree->open_data_key(kActivity, made.wrapped).ok());  // From memory.
  KeyScope elsewhere = kActivity;
  elsewhere.zone = Zone("eu");
  EXPECT_EQ(world.tree->new_data_key(elsewhere).error().id, ErrorId::kVaultSealed);
  world.vault.come_back();
  EXPECT_TRUE(world.tree->new_data_key(elsewhere).ok());
}

TEST_F(KeyTreeTest, a_foreign_vault_is_refused_at_start) {
  static_cast<void>(world.tree->new_data_key(kActivity).value());
  testing::FakeKeyVault foreign(world.random);
  EXPECT_EQ(open_key_tree(*world.sql, foreign, world.clock).error().id, ErrorId::kVaultSealed);
}

TEST_F(KeyTreeTest, unwraps_a_ring_once) {
  const DataKey made = world.tree->new_data_key(kActivity).value();
  world.reopen();
  const int before = world.vault.unwraps();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(world.tree->open_data_key(kActivity, made.wrapped).ok());
  }
  EXPECT_EQ(world.vault.unwraps(), before + 1);
}

TEST_F(KeyTreeTest, a_removed_data_key_is_gone_and_only_that) {
  const DataKey a = world.tree->new_data_key(kActivity).value();
  const DataKey b = world.tree->new_data_key(kActivity).value();
  KeyScope other = kActivity;
  other.object = "FeatureView/profile";
  ASSERT_TRUE(world.tree->remove_data_key(other, a.wrapped).ok());  // Not its own: nothing happens.
  EXPECT_TRUE(world.tree->open_data_key(kActivity, a.wrapped).ok());
  ASSERT_TRUE(world.tree->remove_data_key(kActivity, a.wrapped).ok());
  ASSERT_TRUE(world.tree->remove_data_key(kActivity, a.wrapped).ok());
  EXPECT_EQ(refusal(kActivity, a.wrapped), ErrorId::kKeyMissing);
  EXPECT_TRUE(world.tree->open_data_key(kActivity, b.wrapped).ok());
}

TEST_F(KeyTreeTest, many_subjects_get_their_keys_at_once_and_lose_them_one_by_one) {
  const auto keys = [&](const std::vector<std::string>& who, KeyTree::Missing missing) {
    return world.tree->subject_keys(kActivity, who, missing).value();
  };
  EXPECT_EQ(keys({"ann"}, KeyTree::Missing::kNull), std::vector<SharedKey>{nullptr});
  const auto first = keys({"ann", "bob", "ann"}, KeyTree::Missing::kMake);
  EXPECT_EQ(first[0]->view(), first[2]->view()) << "one person, one key";
  EXPECT_NE(first[0]->view(), first[1]->view());
  world.reopen();
  const auto again = keys({"cy", "bob", "ann"}, KeyTree::Missing::kMake);
  EXPECT_EQ(again[1]->view(), first[1]->view());
  EXPECT_EQ(again[2]->view(), first[0]->view());
  KeyScope one = kActivity;
  one.subject = "bob";
  EXPECT_EQ(world.tree->stable_key(one).value()->view(), first[1]->view()) << "the same key";

  std::map<std::string, int> lines;
  const std::vector<RingInfo> rings = world.tree->inventory().value();
  for (const RingInfo& ring : rings) {
    ++lines[ring.level];
    if (ring.level != "subject") continue;
    EXPECT_EQ(ring.data_keys, 3);
  }
  EXPECT_EQ(lines["subject"], 1) << "not a line for each person";

  const ShredReceipt receipt = world.tree->shred(one).value();
  EXPECT_EQ(receipt.level, "subject");
  EXPECT_EQ(receipt.opens_refused, 1);
  const auto after = keys({"ann", "bob", "cy"}, KeyTree::Missing::kNull);
  EXPECT_EQ(after[0]->view(), first[0]->view());
  EXPECT_EQ(after[1], nullptr);
  EXPECT_NE(after[2], nullptr);
  KeyScope object = kActivity;
  EXPECT_EQ(world.tree->shred(object).value().level, "object");
  for (const SharedKey& key : keys({"ann", "cy"}, KeyTree::Missing::kNull)) EXPECT_EQ(key, nullptr);
}

TEST_F(KeyTreeTest, inventory_shows_every_ring_with_its_counts) {
  KeyScope subject = kActivity;
  subject.subject = "customer 17";
  static_cast<void>(world.tree->new_data_key(kActivity).value());
  static_cast<void>(world.tree->new_data_key(kActivity).value());
  static_cast<void>(world.tree->new_data_key(subject).value());
  std::map<std::string, RingInfo> by_level;
  const std::vector<RingInfo> rings = world.tree->inventory().value();
  for (const RingInfo& ring : rings) by_level[ring.level] = ring;
  ASSERT_EQ(by_level.size(), 4U);
  EXPECT_EQ(by_level["object"].data_keys, 2);
  EXPECT_EQ(by_level["subject"].data_keys, 1);
  EXPECT_EQ(by_level["subject"].parent, by_level["object"].id);
  EXPECT_EQ(by_level["object"].parent, by_level["project"].id);
  EXPECT_EQ(by_level["project"].parent, world.tree->roots()->back().id);
  EXPECT_EQ(to_value(by_level["object"]).text("object"), "FeatureView/activity");
}

TEST_F(KeyTreeTest, threads_share_the_tree_while_it_rotates) {
  static_cast<void>(world.tree->new_data_key(kActivity).value());
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 60; ++i) {
        const Result<DataKey> made = world.tree->new_data_key(kActivity);
        if (!made.ok() || !world.tree->open_data_key(kActivity, made->wrapped).ok()) ++failed;
      }
    });
  }
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(world.tree->rotate(kActivity).ok());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  ASSERT_TRUE(world.tree->rotate(kActivity).ok());
  EXPECT_EQ(count("SELECT count(*) FROM data_keys d JOIN key_rings r ON r.id = d.ring WHERE "
                  "d.version < r.version"),
            0);
}

// ---- Rotation ---------------------------------------------------------------------------------

TEST_F(KeyTreeTest, rotation_moves_every_key_below_and_changes_no_data_key) {
  std::vector<DataKey> made;
  for (int i = 0; i < 1'100; ++i) made.push_back(world.tree->new_data_key(kActivity).value());
  KeyScope stable = kActivity;
  stable.purpose = "kv";
  const std::string kv = text(**world.tree->stable_key(stable));
  const RotateReport report = world.tree->rotate(kActivity).value();
  EXPECT_EQ(report.version, 2);
  EXPECT_EQ(report.rewrapped, 1'101);
  world.reopen();
  for (const DataKey& key : made) {
    EXPECT_EQ(text(world.tree->open_data_key(kActivity, key.wrapped).value()), text(key.key));
  }
  EXPECT_EQ(text(**world.tree->stable_key(stable)), kv);
}

TEST_F(KeyTreeTest, project_root_and_machine_rotate_too) {
  const DataKey made = world.tree->new_data_key(kActivity).value();
  const std::string store = text(world.tree->store_key("metadata.db").value());
  const KeyScope project{"payments", Zone("ae-fin"), "", "", ""};
  EXPECT_EQ(world.tree->rotate(project)->rewrapped, 1);  // The object's ring.
  const KeyScope zone{"", Zone("ae-fin"), "", "", ""};
  EXPECT_EQ(world.tree->rotate(zone)->rewrapped, 2);  // Both versions of the project's ring.
  ASSERT_TRUE(world.tree->rotate(KeyScope{}).ok());
  EXPECT_EQ(world.tree->rotate({"", Zone("eu"), "", "", ""}).error().id, ErrorId::kKeyMissing);
  world.reopen();
  EXPECT_EQ(text(world.tree->open_data_key(kActivity, made.wrapped).value()), text(made.key));
  EXPECT_EQ(text(world.tree->store_key("metadata.db").value()), store);

  ASSERT_TRUE(world.tree->raise_min_version(zone, 2).ok());  // The first root is destroyed.
  std::int64_t left = 0;
  const std::vector<RootKey> roots = world.tree->roots().value();
  for (const RootKey& root : roots) left += root.zone == Zone("ae-fin");
  EXPECT_EQ(left, 1);
  world.reopen();
  EXPECT_TRUE(world.tree->open_data_key(kActivity, made.wrapped).ok());
}

TEST_F(KeyTreeTest, min_version_refuses_what_an_old_version_wrapped) {
  const DataKey made = world.tree->new_data_key(kActivity).value();
  const storage::SqlRow old =
      storage::query(*world.sql, "SELECT wrapped, version FROM data_keys ORDER BY rowid DESC")
          .value()
          .front();
  EXPECT_EQ(world.tree->raise_min_version(kActivity, 2).error().id, ErrorId::kOutOfRange);
  ASSERT_TRUE(world.tree->rotate(kActivity).ok());
  ASSERT_TRUE(world.tree->raise_min_version(kActivity, 2).ok());
  EXPECT_TRUE(world.tree->open_data_key(kActivity, made.wrapped).ok());
  // Somebody brings the row back from a backup.
  ASSERT_TRUE(
      execute("UPDATE data_keys SET wrapped = ?, version = 1 WHERE version = 2", {old.text(0)})
          .ok());
  EXPECT_EQ(refusal(kActivity, made.wrapped), ErrorId::kKeyVersionRefused);
  // And lowers the limit: the limit is part of what the ring's key is bound to.
  ASSERT_TRUE(execute("UPDATE key_rings SET min_version = 1").ok());
  world.reopen();
  EXPECT_FALSE(world.tree->open_data_key(kActivity, made.wrapped).ok());
}

TEST_F(KeyTreeTest, min_version_waits_until_nothing_stands_under_the_old_one) {
  static_cast<void>(world.tree->new_data_key(kActivity).value());
  ASSERT_TRUE(world.tree->rotate(kActivity).ok());
  ASSERT_TRUE(execute("UPDATE data_keys SET version = 1 WHERE purpose = 'blob'").ok());
  EXPECT_EQ(world.tree->raise_min_version(kActivity, 2).error().code, Code::kFailedPrecondition);
}

// The process dies at its n-th write: from then on nothing reaches the store.
class DyingSql final : public storage::SqlStore {
 public:
  DyingSql(storage::SqlStore& inner, int writes_left) : inner_(inner), left_(writes_left) {}
  Status read(const std::function<Status(storage::SqlTransaction&)>& body) override {
    return left_ < 0 ? dead() : inner_.read(body);
  }
  Status write(const std::function<Status(storage::SqlTransaction&)>& body) override {
    return --left_ < 0 ? dead() : inner_.write(body);
  }
  Status migrate(const std::vector<storage::Migration>& migrations) override {
    return inner_.migrate(migrations);
  }

 private:
  static Status dead() { return Error{Code::kUnavailable, "the process is dead"}; }
  storage::SqlStore& inner_;
  int left_;
};

// Dies at every step of `act` in turn, restarts, and looks.
template <class Act, class Look>
int die_at_every_step(KeyWorld& world, Act act, Look look) {
  for (int step = 0;; ++step) {
    DyingSql dying(*world.sql, step);
    KeyTreeOptions options;
    options.rewrap_batch = 2;
    const auto tree = open_key_tree(dying, world.vault, world.clock, options, world.random);
    const bool done = tree.ok() && act(**tree);
    world.reopen();
    look(done);
    if (done) return step;
  }
}

TEST_F(KeyTreeTest, a_rotation_that_dies_at_any_step_is_finished_by_the_next_start) {
  for (const KeyScope& scope : {kActivity, KeyScope{"payments", Zone("ae-fin"), "", "", ""},
                                KeyScope{"", Zone("ae-fin"), "", "", ""}, KeyScope{}}) {
    std::vector<DataKey> made;
    for (int i = 0; i < 9; ++i) made.push_back(world.tree->new_data_key(kActivity).value());
    const int steps = die_at_every_step(
        world, [&](KeyTree& tree) { return tree.rotate(scope).ok(); },
        [&](bool) {
          for (const DataKey& key : made) {
            const auto opened = world.tree->open_data_key(kActivity, key.wrapped);
            ASSERT_TRUE(opened.ok()) << opened.error().message;
            EXPECT_EQ(opened->view(), key.key.view());
          }
          EXPECT_EQ(count("SELECT count(*) FROM key_rotations"), 0);
          const std::vector<RingInfo> rings = world.tree->inventory().value();
          for (const RingInfo& ring : rings) EXPECT_EQ(ring.stale, 0) << ring.level;
        });
    EXPECT_GE(steps, 2) << scope.project << scope.object;
  }
}

TEST_F(KeyTreeTest, a_shred_that_dies_at_any_step_is_whole_or_not_at_all) {
  const DataKey made = world.tree->new_data_key(kActivity).value();
  die_at_every_step(
      world, [&](KeyTree& tree) { return tree.shred(kActivity).ok(); },
      [&](bool) {
        const auto opened = world.tree->open_data_key(kActivity, made.wrapped);
        const bool receipt = !world.tree->unaudited_receipts()->empty();
        EXPECT_EQ(opened.ok(), !receipt);  // Gone with a receipt, or there without.
        if (receipt) static_cast<void>(world.tree->new_data_key(kActivity).value());
      });
}

// ---- Shredding --------------------------------------------------------------------------------

TEST_F(KeyTreeTest, a_shredded_object_never_opens_again_and_its_neighbours_do) {
  KeyScope neighbour = kActivity;
  neighbour.object = "FeatureView/profile";
  KeyScope subject = kActivity;
  subject.subject = "customer 17";
  KeyScope stable = kActivity;
  stable.purpose = "kv";
  const DataKey a = world.tree->new_data_key(kActivity).value();
  const DataKey s = world.tree->new_data_key(subject).value();
  const DataKey n = world.tree->new_data_key(neighbour).value();
  const std::string kv = text(**world.tree->stable_key(stable));

  const ShredReceipt receipt = world.tree->shred(kActivity).value();
  EXPECT_EQ(receipt.rings.size(), 2U);  // The object's and the subject's below it.
  EXPECT_EQ(receipt.data_keys, 3);
  EXPECT_EQ(receipt.versions, 2);
  EXPECT_EQ(receipt.opens_tried, 3);
  EXPECT_EQ(receipt.opens_refused, 3);
  EXPECT_EQ(world.tree->kept_key(stable), nullptr);
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(refusal(kActivity, a.wrapped), ErrorId::kKeyMissing);
    EXPECT_EQ(refusal(subject, s.wrapped), ErrorId::kKeyMissing);
    EXPECT_TRUE(world.tree->open_data_key(neighbour, n.wrapped).ok());
    world.reopen();
  }
  EXPECT_EQ(world.tree->shred(kActivity).error().id, ErrorId::kKeyMissing);
  EXPECT_NE(text(**world.tree->stable_key(stable)), kv);  // New data gets a new key.
}

TEST_F(KeyTreeTest, one_subject_can_be_shredded_alone) {
  KeyScope one = kActivity;
  one.subject = "customer 17";
  KeyScope two = kActivity;
  two.subject = "customer 18";
  const DataKey first = world.tree->new_data_key(one).value();
  const DataKey second = world.tree->new_data_key(two).value();
  EXPECT_EQ(world.tree->shred(one)->rings.size(), 1U);
  EXPECT_EQ(refusal(one, first.wrapped), ErrorId::kKeyMissing);
  EXPECT_TRUE(world.tree->open_data_key(two, second.wrapped).ok());
}

TEST_F(KeyTreeTest, the_guard_is_asked_first) {
  const DataKey made = world.tree->new_data_key(kActivity).value();
  world.tree->set_shred_guard([](const KeyScope& scope, Timestamp) -> Status {
    return Error{ErrorId::kRetentionHeld, scope.object + " is held"};
  });
  EXPECT_EQ(world.tree->shred(kActivity).error().id, ErrorId::kRetentionHeld);
  EXPECT_TRUE(world.tree->open_data_key(kActivity, made.wrapped).ok());
}

TEST_F(KeyTreeTest, a_receipt_waits_until_it_is_in_the_audit_log) {
  static_cast<void>(world.tree->new_data_key(kActivity).value());
  const ShredReceipt receipt = world.tree->shred(kActivity).value();
  world.reopen();
  const std::vector<ShredReceipt> waiting = world.tree->unaudited_receipts().value();
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting.front().to_value(), receipt.to_value());
  ASSERT_TRUE(world.tree->receipt_audited(receipt.id).ok());
  EXPECT_TRUE(world.tree->unaudited_receipts()->empty());
}

TEST_F(KeyTreeTest, a_rotation_of_a_shredded_ring_is_forgotten) {
  static_cast<void>(world.tree->new_data_key(kActivity).value());
  ASSERT_TRUE(execute("INSERT INTO key_rotations SELECT id, '2' FROM key_rings").ok());
  ASSERT_TRUE(world.tree->shred(kActivity).ok());
  world.reopen();
  EXPECT_EQ(count("SELECT count(*) FROM key_rotations"), 0);
}

}  // namespace
}  // namespace falaj::security::keys
