#include "security/audit/heads.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/json.h"
#include "security/audit/wire.h"
#include "storage/open.h"
#include "storage/small_file.h"
#include "storage/testing/temp_folder.h"

namespace falaj::security {
namespace {

crypto::SecretBytes wrapper() { return crypto::SecretBytes(std::string(32, 'w')); }

class SignedHeads : public testing::Test {
 protected:
  SignedHeads() {
    EXPECT_TRUE(store_->migrate({kAuditMigration}).ok());
    open_signer();
  }

  void open_signer() {
    auto signer = open_local_signer({folder_ / "signer", "falaj/test", wrapper()});
    ASSERT_TRUE(signer.ok()) << signer.error().message;
    signer_ = std::move(signer).value();
  }

  void record(int count) {
    for (int i = 0; i < count; ++i) {
      clock_.advance(Duration::seconds(1));
      ASSERT_TRUE(audit_.record(context_, {"x.y", "Model/p/m", i}).ok());
    }
  }

  Heads heads(Witness* witness = nullptr) { return {*store_, audit_, *signer_, clock_, witness}; }

  const storage::TempFolder folder_;
  FakeClock clock_;
  std::unique_ptr<storage::SqlStore> store_ = storage::make_fake_sql();
  Audit audit_{*store_, clock_};
  std::unique_ptr<Signer> signer_;
  RequestContext context_ = system_context("service:test", ProjectName("p"), Zone("ae"));
};

TEST_F(SignedHeads, are_made_when_the_log_grew_and_only_then) {
  Heads heads = this->heads();
  record(3);
  const SignedHead first = heads.tick().value();
  EXPECT_EQ(first.head, audit_.tree_head().value());
  EXPECT_EQ(heads.tick()->note, first.note);
  record(300);
  const SignedHead second = heads.tick().value();
  EXPECT_EQ(second.head.size, 303u);
  const auto key = signer_->info()->log_key;
  const std::vector<SignedHead> kept = heads.list(0, 10).value();
  for (const SignedHead& head : kept) {
    EXPECT_TRUE(crypto::verify_note(crypto::parse_note(head.note).value(), key).ok());
  }
  EXPECT_EQ(heads.list(0, 10)->size(), 2u);
  audit_.set_log_key(key);
  EXPECT_TRUE(audit_.verify().ok());
}

TEST_F(SignedHeads, old_ones_are_thinned_out_but_never_the_newest) {
  Heads heads = this->heads();
  for (int i = 0; i < 140; ++i) {
    record(1);
    ASSERT_TRUE(heads.tick().ok());
  }
  EXPECT_EQ(heads.list(0, 1'000)->size(), 128u);
  EXPECT_EQ(heads.latest()->head.size, 140u);
  audit_.set_log_key(signer_->info()->log_key);
  EXPECT_TRUE(audit_.verify().ok());
}

TEST_F(SignedHeads, verify_refuses_a_head_of_another_key_and_of_another_tree) {
  Heads heads = this->heads();
  record(5);
  ASSERT_TRUE(heads.tick().ok());
  auto stranger = open_local_signer({folder_ / "stranger", "falaj/test", wrapper()}).value();
  audit_.set_log_key(stranger->info()->log_key);
  EXPECT_EQ(audit_.verify().error().id, ErrorId::kAuditBroken);
  audit_.set_log_key(signer_->info()->log_key);
  record(1);
  crypto::TreeHead forged{6, crypto::leaf_hash("forged")};
  const std::string note = stranger->sign_head(forged, {}, clock_.now()).value();
  ASSERT_TRUE(store_
                  ->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(tx.execute("INSERT INTO audit_heads VALUES (6, ?)", {note}));
                    return {};
                  })
                  .ok());
  EXPECT_EQ(audit_.verify().error().id, ErrorId::kAuditBroken);
}

TEST_F(SignedHeads, a_store_set_back_is_refused_at_start) {
  record(9);
  ASSERT_TRUE(heads().tick().ok());
  std::string warning;
  EXPECT_TRUE(heads().check_start(&warning).ok());
  // An older copy of the store, the signer as it was left.
  const auto older = storage::make_fake_sql();
  ASSERT_TRUE(older->migrate({kAuditMigration}).ok());
  Audit audit(*older, clock_);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(audit.record(context_, {"x.y", "Model/p/m", i}).ok());
  }
  Heads shorter(*older, audit, *signer_, clock_);
  EXPECT_EQ(shorter.check_start(&warning).error().id, ErrorId::kRolledBack);
  EXPECT_EQ(shorter.tick().error().id, ErrorId::kRolledBack);
  // Grown again, it is longer but another log.
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(audit.record(context_, {"x.z", "Model/p/m", i}).ok());
  }
  EXPECT_EQ(shorter.check_start(&warning).error().id, ErrorId::kRolledBack);
  EXPECT_FALSE(shorter.tick().ok());
}

TEST_F(SignedHeads, store_and_signer_set_back_together_are_caught_by_the_witness) {
  ASSERT_EQ(::mkdir((folder_ / "drop").c_str(), 0700), 0);
  const auto witness = make_file_witness(folder_ / "drop");
  record(4);
  ASSERT_TRUE(heads(witness.get()).tick().ok());
  const auto kept_state = storage::read_small_file(folder_ / "signer/state.json").value();
  record(4);
  ASSERT_TRUE(heads(witness.get()).tick().ok());

  ASSERT_TRUE(storage::write_small_file(folder_ / "signer/state.json", kept_state.content).ok());
  open_signer();
  const auto older = storage::make_fake_sql();
  ASSERT_TRUE(older->migrate({kAuditMigration}).ok());
  const std::vector<std::string> lines = audit_.lines(1, 4).value();
  ASSERT_TRUE(older
                  ->write([&](storage::SqlTransaction& tx) -> Status {
                    for (const auto& line : lines) {
                      const auto entry = parse_entry(line).value();
                      FALAJ_TRY(tx.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?)",
                                           {entry.sequence, line, entry.action, entry.object,
                                            entry.project, entry.actor}));
                    }
                    return {};
                  })
                  .ok());
  Audit audit(*older, clock_);
  Heads without(*older, audit, *signer_, clock_);
  std::string warning;
  EXPECT_TRUE(without.check_start(&warning).ok());  // Nobody outside: nobody can tell.
  Heads with(*older, audit, *signer_, clock_, witness.get());
  EXPECT_EQ(with.check_start(&warning).error().id, ErrorId::kRolledBack);
}

TEST_F(SignedHeads, a_watcher_of_the_drop_cosigns_and_refuses_a_fork) {
  ASSERT_EQ(::mkdir((folder_ / "drop").c_str(), 0700), 0);
  const auto witness = make_file_witness(folder_ / "drop");
  auto watcher = open_local_signer({folder_ / "watcher", "watch.example", wrapper()}).value();
  Heads heads = this->heads(witness.get());
  record(4);
  ASSERT_TRUE(heads.tick().ok());
  EXPECT_EQ(cosign_drops(folder_ / "drop", *watcher, clock_.now()).value(), 1);
  EXPECT_EQ(cosign_drops(folder_ / "drop", *watcher, clock_.now()).value(), 0);
  record(4);
  ASSERT_TRUE(heads.tick().ok());
  EXPECT_EQ(heads.witness_trouble(), "");
  EXPECT_EQ(cosign_drops(folder_ / "drop", *watcher, clock_.now()).value(), 1);
  record(1);
  ASSERT_TRUE(heads.tick().ok());
  const auto key = watcher->info()->witness_key;
  int cosigned = 0;
  const std::vector<SignedHead> kept = heads.list(0, 10).value();
  for (const SignedHead& head : kept) {
    cosigned += crypto::verify_note(crypto::parse_note(head.note).value(), key).ok() ? 1 : 0;
  }
  EXPECT_EQ(cosigned, 2);
  // The same key signs another history: the watcher has seen this one.
  const storage::TempFolder other;
  ASSERT_EQ(::mkdir((other / "signer").c_str(), 0700), 0);
  for (const char* file : {"/signer/key", "/signer/state.json"}) {
    const auto content = storage::read_small_file(std::string(folder_ / "") + file).value();
    ASSERT_TRUE(storage::write_small_file(std::string(other / "") + file, content.content).ok());
  }
  Value state = parse_json(storage::read_small_file(other / "signer/state.json")->content).value();
  state["head"] = head_value({0, crypto::empty_root()});
  ASSERT_TRUE(storage::write_small_file(other / "signer/state.json", to_json(state)).ok());
  auto insider = open_local_signer({other / "signer", "", wrapper()}).value();
  crypto::Frontier fork;
  std::vector<Sha256> leaves;
  for (int i = 0; i < 20; ++i) {
    leaves.push_back(crypto::leaf_hash("fork " + std::to_string(i)));
    fork.append(leaves.back());
  }
  const std::string note = insider->sign_head({20, fork.root()}, {}, clock_.now()).value();
  const auto reader = [&](unsigned level, std::uint64_t index) -> Result<Sha256> {
    const std::size_t width = std::size_t{1} << level;
    return crypto::root_of({leaves.begin() + static_cast<std::ptrdiff_t>(index * width),
                            leaves.begin() + static_cast<std::ptrdiff_t>((index + 1) * width)});
  };
  const auto proof = crypto::consistency_proof(reader, 8, 20).value();
  const auto refused = watcher->cosign(note, signer_->info()->log_key, proof, clock_.now());
  EXPECT_EQ(refused.error().id, ErrorId::kWitnessRefused);
}

TEST_F(SignedHeads, the_signer_refuses_smaller_and_other_trees_whatever_it_is_told) {
  const crypto::TreeHead ten{10, crypto::leaf_hash("ten")};
  ASSERT_TRUE(signer_->sign_head(ten, {}, clock_.now()).ok());
  EXPECT_EQ(signer_->sign_head({9, crypto::leaf_hash("nine")}, {}, clock_.now()).error().id,
            ErrorId::kRolledBack);
  EXPECT_EQ(signer_->sign_head({10, crypto::leaf_hash("other")}, {}, clock_.now()).error().id,
            ErrorId::kRolledBack);
  EXPECT_EQ(
      signer_->sign_head({11, crypto::leaf_hash("more")}, {ten.root}, clock_.now()).error().id,
      ErrorId::kProofInvalid);
  // It remembers over a restart.
  open_signer();
  EXPECT_EQ(signer_->info()->last, ten);
  EXPECT_FALSE(signer_->sign_head({9, crypto::leaf_hash("nine")}, {}, clock_.now()).ok());
}

TEST_F(SignedHeads, the_signer_needs_its_key_and_its_memory) {
  const std::string at = folder_ / "signer";
  ASSERT_TRUE(signer_->sign_head({1, crypto::leaf_hash("one")}, {}, clock_.now()).ok());
  const std::string key = storage::read_small_file(at + "/key")->content;
  EXPECT_EQ(key.find("PRIVATE KEY"), std::string::npos);
  EXPECT_EQ(open_local_signer({at, "", crypto::SecretBytes()}).error().id,
            ErrorId::kSignerUnavailable);
  EXPECT_EQ(open_local_signer({at, "", crypto::SecretBytes(std::string(32, 'x'))}).error().id,
            ErrorId::kSignerUnavailable);
  ASSERT_EQ(::unlink((at + "/state.json").c_str()), 0);
  EXPECT_EQ(open_local_signer({at, "", wrapper()}).error().id, ErrorId::kSignerUnavailable);
}

TEST_F(SignedHeads, a_manifest_never_passes_for_a_checkpoint) {
  const std::string note = signer_->sign_manifest(sha256("manifest"), clock_.now()).value();
  const auto parsed = crypto::parse_note(note).value();
  EXPECT_TRUE(crypto::verify_note(parsed, signer_->info()->log_key).ok());
  EXPECT_FALSE(crypto::parse_body(parsed.body).ok());
}

}  // namespace
}  // namespace falaj::security
