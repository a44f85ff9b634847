// Keys under kill -9, power loss and shredding: a key that was handed out opens for ever, one that
// was shredded never again, and a rotation that was cut short is finished.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "crypto/stream.h"
#include "harness.h"
#include "key_tree_on_disk.h"
#include "storage/testing/temp_folder.h"

namespace falaj::faults {
namespace {

int rounds() {
  const char* text = ::getenv("FALAJ_FAULT_ROUNDS");
  return text == nullptr ? 8 : ::atoi(text);
}

struct HeardKey {
  int object = 0;
  std::string header;
  std::string sha;
};

// What must be true of a folder after everything that was said.
class Ledger {
 public:
  void take(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    HeardKey key;
    words >> what >> key.object >> key.header >> key.sha;
    if (what == "key") keys_.push_back(key);
    if (what == "begin" || what == "shred") {
      for (const HeardKey& each : keys_) {
        if (each.object == key.object) fate_[each.header] = what == "shred" ? kGone : kEither;
      }
    }
    if (what == "end") failed_ = line;
  }

  // Ok if every key opens to what it was, and no shredded one does.
  Status check(keys::KeyTree& tree) {
    for (const HeardKey& key : keys_) {
      const auto opened = tree.open_data_key(scope_of(key.object), from_hex(key.header));
      const Fate fate = fate_.contains(key.header) ? fate_[key.header] : kThere;
      if (opened.ok() && sha256_hex(opened->view()) != key.sha) {
        return Error{Code::kDataLoss, "opens to another key: " + key.header};
      }
      if (opened.ok() && fate == kGone) {
        return Error{Code::kDataLoss, "shredded, and opens: " + key.header};
      }
      if (!opened.ok() && (fate == kThere || opened.error().id != ErrorId::kKeyMissing)) {
        return Error{Code::kDataLoss, "lost: " + key.header + ": " + opened.error().message};
      }
      // What a kill left open is decided now.
      if (fate == kEither) fate_[key.header] = opened.ok() ? kThere : kGone;
    }
    return {};
  }

  std::size_t keys() const { return keys_.size(); }
  const std::string& failed() const { return failed_; }

 private:
  enum Fate : std::uint8_t { kThere, kEither, kGone };
  std::vector<HeardKey> keys_;
  std::map<std::string, Fate> fate_;
  std::string failed_;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

// One life of the writer in `folder`, killed after `lines` lines: at once, or, for odd seeds, when
// it says next that it is about to rotate or shred.
void live(const std::string& folder, unsigned seed, int lines, const Environment& env,
          Ledger& ledger) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string number = std::to_string(seed);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    for (const auto& [name, value] : env) ::setenv(name.c_str(), value.c_str(), 1);
    ::execl(FALAJ_KEY_WRITER, FALAJ_KEY_WRITER, folder.c_str(), number.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  FILE* const output = ::fdopen(ends[0], "r");
  char line[512];
  for (int heard = 0; ::fgets(line, sizeof line, output) != nullptr; ++heard) {
    const std::string text(line);
    const bool amid = text.starts_with("turning") || text.starts_with("begin");
    // What it said before is still read.
    if (heard >= lines && (seed % 2 == 0 || amid)) ::kill(child, SIGKILL);
    if (text.ends_with("\n")) ledger.take(text.substr(0, text.size() - 1));
  }
  ::fclose(output);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(ledger.failed(), "") << "seed " << seed;
  EXPECT_TRUE(WIFSIGNALED(status)) << "seed " << seed;
}

// Rotations that the last life left half done.
std::int64_t pending(const std::string& folder) {
  const auto sql = storage::open_sqlite(folder + "/keys.db");
  if (!sql.ok()) return 0;
  const auto rows = storage::query(**sql, "SELECT count(*) FROM key_rotations");
  return rows.ok() ? rows->front().integer(0) : 0;
}

std::int64_t stale(storage::SqlStore& sql) {
  return storage::query(sql,
                        "SELECT count(*) FROM data_keys d JOIN key_rings r ON r.id = d.ring "
                        "WHERE d.version < r.version")
      .value()
      .front()
      .integer(0);
}

TEST(KeyFaults, kill_nine_at_any_moment_loses_no_key_and_revives_none) {
  const storage::TempFolder folder;
  std::mt19937 random(20'261'116);
  Ledger ledger;
  std::int64_t interrupted = 0;
  for (int round = 0; round < rounds() * 2; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    live(folder.path(), static_cast<unsigned>(random()), 5 + static_cast<int>(random() % 60), {},
         ledger);
    interrupted += pending(folder.path());
    auto disk = KeyTreeOnDisk::open(folder.path());
    ASSERT_TRUE(disk.ok()) << disk.error().message;
    const Status checked = ledger.check(*(*disk)->tree);
    ASSERT_TRUE(checked.ok()) << checked.error().message;
    ASSERT_EQ(stale(*(*disk)->sql), 0);
  }
  EXPECT_GT(ledger.keys(), 100U);
  std::printf("%zu keys, %d kills, %lld rotations cut short\n", ledger.keys(), rounds() * 2,
              static_cast<long long>(interrupted));
}

TEST(KeyFaults, power_loss_loses_no_key_and_revives_none) {
  const storage::TempFolder folder;
  std::mt19937 random(5);
  Ledger ledger;
  std::string disk = folder / "disk0";
  std::filesystem::create_directories(disk);
  for (int round = 0; round < rounds(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const std::string shadow = folder / "shadow" + std::to_string(round);
    const std::string after = folder / "disk" + std::to_string(round + 1);
    std::filesystem::create_directories(shadow);
    live(disk, static_cast<unsigned>(random()), 5 + static_cast<int>(random() % 40),
         shim_env(disk, shadow), ledger);
    cut_power(disk, shadow, after, round % 2 == 0 ? PowerCut::kStrict : PowerCut::kMixed,
              static_cast<std::uint64_t>(round));
    ::chmod((after + "/machine.key").c_str(), 0600);  // The shim keeps content, not modes.
    auto opened = KeyTreeOnDisk::open(after);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const Status checked = ledger.check(*(*opened)->tree);
    ASSERT_TRUE(checked.ok()) << checked.error().message;
    disk = after;
  }
  EXPECT_GT(ledger.keys(), 50U);
}

// The ledger itself: a lost row and a revived key are seen.
TEST(KeyFaults, the_check_sees_a_loss_and_a_revival) {
  const storage::TempFolder folder;
  Ledger ledger;
  live(folder.path(), 1, 60, {}, ledger);
  auto disk = KeyTreeOnDisk::open(folder.path()).value();
  ASSERT_TRUE(ledger.check(*disk->tree).ok());
  const keys::DataKey made = disk->tree->new_data_key(scope_of(0)).value();
  Ledger gone;
  const std::string said = "key 0 " + hex(made.wrapped) + " " + sha256_hex(made.key.view());
  gone.take(said);
  EXPECT_TRUE(gone.check(*disk->tree).ok());
  gone.take("shred 0");
  EXPECT_FALSE(gone.check(*disk->tree).ok());  // Said to be shredded, and opens.
  Ledger lost;
  lost.take(said);
  ASSERT_TRUE(disk->tree->remove_data_key(scope_of(0), made.wrapped).ok());
  EXPECT_FALSE(lost.check(*disk->tree).ok());
}

bool found_in(const std::string& folder, const std::string& text) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    if (content.str().find(text) != std::string::npos) return true;
  }
  return false;
}

TEST(KeyFaults, a_shredded_wrapped_key_is_in_no_file) {
  const storage::TempFolder folder;
  auto disk = KeyTreeOnDisk::open(folder.path()).value();
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(disk->tree->new_data_key(scope_of(0)).ok());
    ASSERT_TRUE(disk->tree->new_data_key(scope_of(1)).ok());
  }
  std::vector<std::string> wrapped;
  const storage::SqlRows rows =
      storage::query(*disk->sql,
                     "SELECT d.wrapped FROM data_keys d JOIN key_rings r ON r.id = d.ring "
                     "WHERE r.object = 'FeatureView/v0' UNION ALL SELECT v.wrapped FROM "
                     "key_versions v JOIN key_rings r ON r.id = v.ring "
                     "WHERE r.object = 'FeatureView/v0'")
          .value();
  for (const storage::SqlRow& row : rows) wrapped.push_back(row.text(0));
  ASSERT_EQ(wrapped.size(), 201U);
  // A page boundary may cut a text in two; its first half is enough to know it.
  std::size_t before = 0;
  for (const std::string& text : wrapped) before += found_in(folder.path(), text.substr(0, 48));
  EXPECT_EQ(before, wrapped.size()) << "the scan does not see what is there";
  ASSERT_TRUE(disk->tree->shred(scope_of(0)).ok());
  for (const std::string& text : wrapped) {
    EXPECT_FALSE(found_in(folder.path(), text.substr(0, 48)));
    EXPECT_FALSE(found_in(folder.path(), text.substr(48)));
  }
}

// Whoever has a stream open reads on; nobody opens it again; nothing in between.
TEST(KeyFaults, a_key_shredded_while_its_data_is_read) {
  const storage::TempFolder folder;
  auto disk = KeyTreeOnDisk::open(folder.path()).value();
  const keys::DataKey made = disk->tree->new_data_key(scope_of(0)).value();
  const std::string text(300'000, 'w');
  const std::string sealed = crypto::seal_stream(made.key, text, "aad");
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<int> opened{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto key = disk->tree->open_data_key(scope_of(0), made.wrapped);
        if (key.ok()) {
          const auto plain = crypto::open_stream(*key, sealed, "aad");
          if (!plain.ok() || *plain != text) ++wrong;
          ++opened;
        } else if (key.error().id != ErrorId::kKeyMissing) {
          ++wrong;
        }
      }
    });
  }
  while (opened < 20) std::this_thread::yield();
  EXPECT_TRUE(disk->tree->shred(scope_of(0)).ok());
  EXPECT_EQ(disk->tree->open_data_key(scope_of(0), made.wrapped).error().id, ErrorId::kKeyMissing);
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace falaj::faults
