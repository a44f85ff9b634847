// Tamperings of an evidence bundle, by outsiders without the log's key and by insiders with it.
//
// Every one must be found given the log's public key, a witness's, and one signed head that was
// kept outside. An insider's tampering counts where it touches what that head covers, or breaks a
// rule that the verifier checks by itself; what an insider writes behind the kept head and signs
// properly is a log like any other, and no verifier can tell (docs/guides/audit.md says so).
//
// FALAJ_TAMPERINGS sets how many (600), FALAJ_TAMPER_SEED the seed (20261116), FALAJ_VERIFY_ENTRIES
// how long a log the speed is taken from (20 000). FALAJ_SEEDS_INTO names a folder for one
// tampering of each kind as an input of bundle_fuzz.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <random>

#include "crypto/base64.h"
#include "parts.h"
#include "pieces_test.h"

namespace falaj_verify {
namespace {

enum Kind : int {
  kFlip,
  kDelete,
  kInsert,
  kReorder,
  kTruncate,
  kFork,
  kOldKey,
  kReplay,
  kSwap,
  kClockBack,
  kForgedCosignature,
  kForgedDecision,
  kMissingPart,
  kForgedLedger,
  kOldPart,
  kAlteredManifest,
  kKinds
};

const char* name_of(int kind) {
  static const char* const kNames[] = {"flip",
                                       "delete",
                                       "insert",
                                       "reorder",
                                       "truncate tail",
                                       "fork",
                                       "roll back with old key",
                                       "replay old checkpoint",
                                       "swap stores",
                                       "clock set back",
                                       "forged cosignature",
                                       "forged decision",
                                       "signed without a part",
                                       "forged ledger",
                                       "old part",
                                       "altered manifest"};
  return kNames[kind];
}

class Tamperer {
 public:
  explicit Tamperer(std::uint64_t seed)
      : random_(seed), honest_(build(pieces_, world_.log, &world_.witness)) {}

  const Files& honest() const { return honest_; }
  const World& world() const { return world_; }

  Files tamper(int kind) {
    switch (kind) {
      case kFlip:
        return flip();
      case kDelete:
        return rebuilt([&](Pieces& p) { p.entries.erase(p.entries.begin() + at(kHeld)); });
      case kInsert:
        if (pick(3) == 0) return insert_behind();
        return rebuilt([&](Pieces& p) {
          // Not just before the kept head's end: a copy of the last entry there changes nothing it
          // covers.
          const std::size_t place = pick(kHeld - 1);
          p.entries.insert(p.entries.begin() + static_cast<std::ptrdiff_t>(place),
                           p.entries[pick(kEntries)]);
        });
      case kReorder:
        return rebuilt([&](Pieces& p) {
          const std::size_t a = pick(kHeld - 1);
          std::swap(p.entries[a], p.entries[a + 1 + pick(kHeld - a - 1)]);
        });
      case kTruncate:
        return truncate();
      case kFork:
        return fork();
      case kOldKey:
        return old_key();
      case kReplay:
        return replay();
      case kSwap:
        return swap_stores();
      case kClockBack:
        return clock_back();
      case kForgedCosignature:
        return forged_cosignature();
      case kForgedDecision:
        return forged_decision();
      case kMissingPart:
        return missing_part();
      case kForgedLedger:
        return forged_ledger();
      case kOldPart:
        return old_part();
      default:
        return altered_manifest();
    }
  }

 private:
  std::size_t pick(std::size_t n) { return random_() % n; }
  std::ptrdiff_t at(std::size_t n) { return static_cast<std::ptrdiff_t>(pick(n)); }

  // One bit of any file; half the time the insider renews the manifest over it.
  Files flip() {
    Files files = honest_;
    auto chosen = files.begin();
    std::advance(chosen, at(files.size()));
    std::string& content = chosen->second;
    if (pick(2) == 0) {
      content[pick(content.size())] ^= static_cast<char>(1 << pick(8));
      return files;
    }
    if (pick(2) == 0) return other_tail();
    std::string& entries = files["audit/entries.jsonl"];
    entries[pick(entries.size())] ^= static_cast<char>(1 << pick(8));
    resign_manifest(files, world_.log);
    return files;
  }

  // One entry behind the kept head, with a manifest for the new root but the old heads.
  Files other_tail() {
    Pieces pieces = pieces_;
    const std::size_t i = kHeld + pick(kEntries - kHeld);
    pieces.entries[i] = entry_line(i + 1, static_cast<std::int64_t>(i + 1), "Model/payments/x");
    Files files = honest_;
    std::string& entries = files["audit/entries.jsonl"];
    entries.clear();
    for (const std::string& entry : pieces.entries) entries += entry + "\n";
    files["audit/proofs.jsonl"] = proofs_of(pieces);
    files["manifest.json"] = manifest_of(files, kOrigin, kEntries, root_of(pieces, kEntries));
    sign_manifest(files, kOrigin, world_.log);
    return files;
  }

  // The change to the entries as they stand; then by an outsider (nothing signed anew), by one with
  // a key of his own, or by an insider who numbers and signs everything anew.
  template <class Change>
  Files rebuilt(Change change) {
    Pieces pieces = pieces_;
    change(pieces);
    const std::size_t who = pick(3);
    if (who == 0) {
      Files files = honest_;
      std::string& entries = files["audit/entries.jsonl"];
      entries.clear();
      for (const std::string& entry : pieces.entries) entries += entry + "\n";
      return files;
    }
    if (who == 2) renumber(pieces);
    fit_heads(pieces);
    return build(pieces, who == 1 ? world_.thief : world_.log, nullptr_or_witness());
  }

  // Behind the kept head, by an insider who does not number anew: the sequence tells.
  Files insert_behind() {
    Pieces pieces = pieces_;
    const std::size_t place = kHeld + 1 + pick(kEntries - kHeld - 1);
    pieces.entries.insert(
        pieces.entries.begin() + static_cast<std::ptrdiff_t>(place),
        entry_line(pick(kEntries), static_cast<std::int64_t>(place), "Model/payments/extra"));
    pieces.head_sizes.back() = pieces.entries.size();
    return build(pieces, world_.log, &world_.witness);
  }

  const fc::PrivateKey* nullptr_or_witness() {
    return pick(2) == 0 ? nullptr : &world_.witness;  // The witness may even have been fooled.
  }

  static void renumber(Pieces& pieces) {
    for (std::size_t i = 0; i < pieces.entries.size(); ++i) {
      const falaj::Value entry = falaj::parse_json(pieces.entries[i]).value();
      pieces.entries[i] =
          event_line(i + 1, static_cast<std::int64_t>(i + 1),
                     {entry.text("action"), entry.text("object"), falaj::to_json(entry["detail"])});
    }
  }

  static void fit_heads(Pieces& pieces) { pieces.head_sizes.back() = pieces.entries.size(); }

  Files truncate() {
    Pieces pieces = pieces_;
    const std::size_t left = 9 + pick(kHeld - 9);  // Shorter than the kept head.
    pieces.entries.resize(left);
    if (pick(3) == 0) {  // The last head goes, the entries under it stay.
      Files files = honest_;
      std::string& heads = files["audit/heads.jsonl"];
      heads.resize(heads.rfind('\n', heads.size() - 2) + 1);
      resign_manifest(files, world_.log);
      return files;
    }
    if (pick(2) == 0) {
      Files files = honest_;
      std::string& entries = files["audit/entries.jsonl"];
      entries.clear();
      for (const std::string& entry : pieces.entries) entries += entry + "\n";
      if (pick(2) == 0) resign_manifest(files, world_.log);
      return files;
    }
    pieces.head_sizes = {left};
    pieces.head_times = {2000};
    return build(pieces, world_.log, &world_.witness);
  }

  // Another history from some entry on, signed with the right key.
  Files fork() {
    Pieces pieces = pieces_;
    for (std::size_t i = pick(kHeld); i < pieces.entries.size(); ++i) {
      pieces.entries[i] = entry_line(i + 1, static_cast<std::int64_t>(i + 1),
                                     "Model/payments/other" + std::to_string(pick(1000)));
    }
    return build(pieces, world_.log, nullptr_or_witness());
  }

  // An older state, vouched for by a key that no longer counts.
  Files old_key() {
    Pieces pieces = pieces_;
    const std::size_t left = 9 + pick(kEntries - 9);
    pieces.entries.resize(left);
    pieces.head_sizes = {left};
    pieces.head_times = {2000};
    Files files = build(pieces, world_.old_log, nullptr_or_witness());
    if (pick(2) == 0) sign_manifest(files, kOrigin, world_.log);  // A careless operator helps.
    return files;
  }

  // Yesterday's bundle whole, or yesterday's heads with today's entries.
  Files replay() {
    Pieces pieces = pieces_;
    const std::size_t left = 9 + pick(kHeld - 9);
    pieces.entries.resize(left);
    pieces.head_sizes = {left};
    pieces.head_times = {1500};
    Files old = build(pieces, world_.log, &world_.witness);
    if (pick(2) == 0) return old;
    Files files = honest_;
    files["audit/heads.jsonl"] = old["audit/heads.jsonl"];
    if (pick(2) == 0) resign_manifest(files, world_.log);
    return files;
  }

  // A good log, but another one.
  Files swap_stores() {
    Pieces pieces = pieces_;
    for (std::size_t i = 0; i < pieces.entries.size(); ++i) {
      pieces.entries[i] = entry_line(i + 1, static_cast<std::int64_t>(i + 1),
                                     "Model/other/m" + std::to_string(pick(100)));
    }
    if (pick(2) == 0) pieces.origin = "falaj/other";
    Files other = build(pieces, pick(2) == 0 ? world_.log : world_.thief, &world_.witness);
    if (pick(2) == 0) return other;
    Files files = honest_;
    files["audit/entries.jsonl"] = other["audit/entries.jsonl"];
    return files;
  }

  // An insider dates something back, behind the kept head too: the order of times tells.
  Files clock_back() {
    Pieces pieces = pieces_;
    if (pick(2) == 0) {
      const std::size_t i = kHeld + 1 + pick(kEntries - kHeld - 1);
      pieces.entries[i] = entry_line(i + 1, static_cast<std::int64_t>(pick(i)), "Model/payments/m");
    } else {
      pieces.head_times[1] = static_cast<std::int64_t>(pick(1999));
    }
    return build(pieces, world_.log, &world_.witness);
  }

  // In the witness's name by somebody else, or the witness's own from another head or time.
  Files forged_cosignature() {
    Pieces pieces = pieces_;
    Files files = build(pieces, world_.log, nullptr);
    std::string& heads = files["audit/heads.jsonl"];
    heads.clear();
    for (std::size_t i = 0; i < pieces.head_sizes.size(); ++i) {
      fc::Note note = fc::parse_note(head_note(pieces, pieces.head_sizes[i], pieces.head_times[i],
                                               world_.log, nullptr))
                          .value();
      note.signatures.push_back(forged_signature(note.body));
      heads += quoted_note(fc::to_text(note));
    }
    resign_manifest(files, world_.log);
    return files;
  }

  fc::NoteSignature forged_signature(const std::string& body) {
    // The right key's id in front of a signature that it never gave for this.
    fc::NoteSignature genuine =
        fc::cosign_note("falaj/other\n1\n" + fc::base64(std::string(32, 'r')) + "\n", kWitness,
                        world_.witness, 2001)
            .value();
    switch (pick(3)) {
      case 0:
        return genuine;
      case 1: {
        fc::NoteSignature own = fc::cosign_note(body, kWitness, world_.witness, 2001).value();
        own.blob[4 + pick(72)] ^= static_cast<char>(1 << pick(8));
        return own;
      }
      default: {
        fc::NoteSignature theft = fc::cosign_note(body, kWitness, world_.thief, 2001).value();
        theft.blob = genuine.blob.substr(0, 4) + theft.blob.substr(4);
        return theft;
      }
    }
  }

  // An insider gives somebody, or takes from them, in the table alone, and signs that.
  Files forged_decision() {
    Files files = honest_;
    falaj::Value matrix = falaj::parse_json(files["access/matrix.json"]).value();
    auto& rows = matrix["decisions"]["principals"].as_array();
    falaj::Value& outcomes = matrix["decisions"]["outcomes"];
    switch (pick(4)) {
      case 0: {  // Another's row.
        auto& numbers = rows[pick(rows.size())]["outcomes"].as_array();
        numbers[pick(numbers.size())] =
            static_cast<std::int64_t>(pick(outcomes.as_object().size()));
        break;
      }
      case 1: {
        auto& cells = outcomes[std::to_string(pick(outcomes.as_object().size()))].as_object();
        auto cell = cells.begin();
        std::advance(cell, at(cells.size()));
        cell->second = pick(2) == 0 ? "allow permitted root" : "deny no_permit";
        break;
      }
      case 2: {  // Somebody whom a grant names is not shown; user:u_3 stands in a group.
        const std::string hidden = pick(2) == 0 ? "user:u_1" : "user:u_3";
        std::erase_if(rows, [&](const falaj::Value& row) { return row.text("id") == hidden; });
        break;
      }
      default:  // The grant goes, what it gave stays.
        matrix["grants"].as_array().erase(matrix["grants"].as_array().begin() + at(4));
    }
    files["access/matrix.json"] = falaj::to_json(matrix) + "\n";
    resign_manifest(files, world_.log);
    return files;
  }

  // As if there were nothing to say about it.
  Files missing_part() {
    static const char* const kParts[] = {"access/matrix.json",  "audit/proofs.jsonl",
                                         "keys/inventory.json", "models/cards.json",
                                         "restore/drill.json",  "zones/ledger.json"};
    Files files = honest_;
    const char* const part = kParts[pick(std::size(kParts))];
    if (pick(2) == 0) {
      files.erase(part);
    } else {
      files[part] = "{}\n";
    }
    resign_manifest(files, world_.log);
    return files;
  }

  // Less crossed, or nothing, or by another way than the log says.
  Files forged_ledger() {
    Files files = honest_;
    falaj::Value ledger = falaj::parse_json(files["zones/ledger.json"]).value();
    auto& rows = ledger["rows"].as_array();
    falaj::Value& row = rows[pick(2)];
    switch (pick(7)) {
      case 0:
        row["bytes"] = static_cast<std::int64_t>(pick(60));
        break;
      case 1:
        row["flows"] = 0;
        break;
      case 2:
        rows.erase(rows.begin() + at(2));
        break;
      case 3:  // Told as if it had needed none.
        row["transfer"] = "";
        break;
      case 4:
        row["transfer"] = "elsewhere";
        break;
      case 5:
        row[pick(2) == 0 ? "to" : "exit"] = "ae";
        break;
      default:  // More than the log says; but to nowhere, or with nobody's approval.
        rows.push_back(rows[0]);
        if (pick(2) == 0) {
          rows.back()["to"] = "";
        } else {
          rows.back()["project"] = "other";
        }
    }
    files["zones/ledger.json"] = falaj::to_json(ledger) + "\n";
    resign_manifest(files, world_.log);
    return files;
  }

  // The state of an earlier day, which says so: what the log tells since would not count.
  Files old_part() {
    Files files = honest_;
    const std::size_t known = pick(kTaken);
    const std::string entries = "{\"entries\":" + std::to_string(known);
    switch (pick(3)) {
      case 0:
        files["zones/ledger.json"] = entries + ",\"rows\":[]}\n";
        break;
      case 1:
        files["keys/inventory.json"] = entries + ",\"keys\":[]}\n";
        break;
      default:
        files["restore/drill.json"] = drill_of(pieces_, known);
    }
    resign_manifest(files, world_.log);
    return files;
  }

  // A part rewritten, dropped or smuggled in, with a manifest that fits but nobody signed.
  Files altered_manifest() {
    Files files = honest_;
    switch (pick(5)) {
      case 0: {  // What stayed in its zone is in no entry: only the hash tells.
        std::string& ledger = files["zones/ledger.json"];
        ledger.replace(ledger.find("900"), 3, std::to_string(pick(900)));
        break;
      }
      case 1:
        files["access/matrix.json"] = "{\"rows\":[\"permit\"]}\n";
        files["manifest.json"] = manifest_of(files, kOrigin, kEntries, root_of(pieces_, kEntries));
        break;
      case 2:
        files["access/matrix.json"] = "{\"rows\":[\"permit\"]}\n";
        files["manifest.json"] = manifest_of(files, kOrigin, kEntries, root_of(pieces_, kEntries));
        sign_manifest(files, kOrigin, world_.thief);
        break;
      case 3:
        files.erase("access/matrix.json");
        break;
      default:
        files["access/extra" + std::to_string(pick(100)) + ".json"] = "{}\n";
    }
    return files;
  }

  std::mt19937_64 random_;
  const World world_;
  const Pieces pieces_ = honest_pieces();
  const Files honest_;
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* asked = std::getenv(name);
  return asked == nullptr ? otherwise : std::strtoull(asked, nullptr, 10);
}

// How many of `count` tamperings, of every kind in turn, pass for honest.
std::map<int, std::size_t> undetected(std::uint64_t seed, std::size_t count, const Checks& checks) {
  Tamperer tamperer(seed);
  const Trust trust = trust_of(tamperer.world());
  std::map<int, std::size_t> missed;
  for (std::size_t i = 0; i < count; ++i) {
    const int kind = static_cast<int>(i % kKinds);
    const Files files = tamperer.tamper(kind);
    if (files == tamperer.honest()) continue;
    if (check_bundle(files, trust, checks).holds()) ++missed[kind];
  }
  return missed;
}

TEST(Tampering, an_honest_bundle_holds) {
  const Tamperer tamperer(1);
  const Report report = check_bundle(tamperer.honest(), trust_of(tamperer.world()));
  for (const Finding& finding : report.findings) EXPECT_TRUE(finding.holds) << finding.text;
  EXPECT_EQ(report.entries, kEntries);
  Trust without = trust_of(tamperer.world());
  without.checkpoint.reset();
  without.witnesses.clear();
  EXPECT_TRUE(check_bundle(tamperer.honest(), without).holds());
}

TEST(Tampering, of_sixteen_kinds_is_always_found) {
  const std::size_t count = setting("FALAJ_TAMPERINGS", 600);
  const std::uint64_t seed = setting("FALAJ_TAMPER_SEED", 20'261'116);
  const auto missed = undetected(seed, count, {});
  for (const auto& [kind, number] : missed) ADD_FAILURE() << name_of(kind) << ": " << number;
  std::printf("%zu tamperings of %d kinds, seed %llu: %zu kinds missed\n", count,
              static_cast<int>(kKinds), static_cast<unsigned long long>(seed), missed.size());
}

// What bundle_fuzz takes: the reader's own files, then the bundle's.
std::string fuzz_input(const Files& files, const Trust& trust, const World& world) {
  const fc::NoteKey log{kOrigin, fc::NoteKeyUse::kSign, world.log.public_key().raw()};
  const fc::NoteKey witness{kWitness, fc::NoteKeyUse::kCosign, world.witness.public_key().raw()};
  std::string text = "==> key <==\n" + fc::to_text(log) + "\n==> witness <==\n" +
                     fc::to_text(witness) + "\n==> checkpoint <==\n" + *trust.checkpoint;
  for (const auto& [path, content] : files) text += "\n==> " + path + " <==\n" + content;
  return text;
}

TEST(Tampering, of_each_kind_becomes_a_seed_where_one_is_asked_for) {
  const char* const folder = std::getenv("FALAJ_SEEDS_INTO");
  if (folder == nullptr) GTEST_SKIP() << "FALAJ_SEEDS_INTO names no folder";
  Tamperer tamperer(setting("FALAJ_TAMPER_SEED", 20'261'116));
  const Trust trust = trust_of(tamperer.world());
  const auto write = [&](const std::string& name, const Files& files) {
    std::ofstream out(std::string(folder) + "/" + name, std::ios::binary);
    out << fuzz_input(files, trust, tamperer.world());
    ASSERT_TRUE(out.good());
  };
  write("honest", tamperer.honest());
  for (int kind = 0; kind < kKinds; ++kind) {
    write("tampered-" + std::to_string(kind), tamperer.tamper(kind));
  }
}

// What the fuzzer begins with: a bundle that this program decides again, cell by cell.
TEST(Seeds, hold_an_access_matrix_with_decisions) {
  std::ifstream file(FALAJ_VERIFY_CORPUS "/bundle/honest", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string begin = "\n==> access/matrix.json <==\n";
  const std::size_t at = text.find(begin);
  ASSERT_NE(at, std::string::npos);
  const std::size_t from = at + begin.size();
  const auto matrix = parse_json(text.substr(from, text.find("\n==> ", from) - from));
  ASSERT_TRUE(matrix.has_value());
  EXPECT_EQ(check_decisions(*matrix), "");
  EXPECT_GT((*matrix)["decisions"]["principals"].items.size(), 3u);
}

TEST(Verifier, reads_the_times_that_nanoseconds_can_count_and_no_others) {
  EXPECT_EQ(parse_time("1970-01-01T00:00:01.5Z"), std::nullopt);
  EXPECT_EQ(parse_time("1970-01-01T00:00:01.500Z"), 1'500'000'000);
  EXPECT_TRUE(parse_time("1678-01-01T00:00:00Z") < parse_time("2261-12-31T23:59:59.999999999Z"));
  EXPECT_EQ(parse_time("1677-12-31T23:59:59Z"), std::nullopt);
  EXPECT_EQ(parse_time("2262-01-01T00:00:00Z"), std::nullopt);
  EXPECT_EQ(parse_time("9338-11-16T08:30:00Z"), std::nullopt);
}

TEST(Verifier, reads_a_long_log_and_says_how_quickly) {
  const World world;
  Pieces pieces;
  const std::size_t count = setting("FALAJ_VERIFY_ENTRIES", 20'000);
  const auto second = [&](std::size_t i) { return static_cast<std::int64_t>(i * 3599 / count); };
  for (std::size_t i = 1; i <= count; ++i) {
    pieces.entries.push_back(entry_line(i, second(i), "Model/payments/m" + std::to_string(i % 7)));
  }
  for (const auto& [i, event] : honest_events()) {
    pieces.entries[i - 1] = event_line(i, second(i), event);
  }
  pieces.head_sizes = {count / 2, count};
  const Files files = build(pieces, world.log, &world.witness);
  Trust trust = trust_of(world);
  trust.checkpoint = head_note(pieces, count / 3, 2000, world.log, nullptr);
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t processor = std::clock();
  const Report report = check_bundle(files, trust);
  const double spent = static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_TRUE(report.holds());
  EXPECT_EQ(report.entries, count);
  std::printf("%zu entries verified in %.3f s, %.3f s of processor: %.0f a second\n", count,
              took.count(), spent, static_cast<double>(count) / took.count());
}

// A check that could be left out without anybody noticing would be no check.
TEST(Tampering, is_missed_as_soon_as_one_check_is_left_out) {
  const std::pair<const char*, bool Checks::*> all[] = {
      {"manifest_signature", &Checks::manifest_signature},
      {"file_hashes", &Checks::file_hashes},
      {"unlisted_files", &Checks::unlisted_files},
      {"entry_form", &Checks::entry_form},
      {"entry_times", &Checks::entry_times},
      {"head_signatures", &Checks::head_signatures},
      {"head_roots", &Checks::head_roots},
      {"coverage", &Checks::coverage},
      {"head_times", &Checks::head_times},
      {"cosignatures", &Checks::cosignatures},
      {"held_checkpoint", &Checks::held_checkpoint},
      {"parts", &Checks::parts},
      {"part_times", &Checks::part_times},
      {"crossings", &Checks::crossings},
      {"decisions", &Checks::decisions}};
  for (const auto& [name, member] : all) {
    Checks checks;
    checks.*member = false;
    EXPECT_FALSE(undetected(7, 480, checks).empty()) << "nothing needs the check " << name;
  }
}

// Proofs by themselves: 10 000 forgeries, seed 9162, of the two files that falaj-verify takes.
TEST(ForgedProofs, are_all_refused) {
  const World world;
  const Pieces pieces = honest_pieces();
  Trust trust = trust_of(world);
  const fc::HashReader reader = reader_of(pieces);
  const std::string note = head_note(pieces, kEntries, 3000, world.log, nullptr);
  const std::string stolen = head_note(pieces, kEntries, 3000, world.thief, nullptr);
  auto file = [&](const std::string& checkpoint, const std::string& entry, std::size_t index,
                  const fc::Proof& proof) {
    std::string text = quoted_note(checkpoint);
    text.replace(0, 8, "{\"checkpoint\":");
    text.resize(text.size() - 2);
    if (!entry.empty()) {
      text += ",\"entry\":\"";
      for (const char c : entry) text += c == '"' ? std::string("\\\"") : std::string(1, c);
      text += "\",\"index\":" + std::to_string(index);
    }
    return text + ",\"proof\":" + hex_list(proof) + "}";
  };
  std::mt19937_64 random(9162);
  for (int i = 0; i < 10'000; ++i) {
    const std::size_t index = random() % kEntries;
    const bool inclusion = i % 2 == 0;
    const std::string entry = inclusion ? pieces.entries[index] : "";
    fc::Proof proof = inclusion ? fc::inclusion_proof(reader, index, kEntries).value()
                                : fc::consistency_proof(reader, kHeld, kEntries).value();
    const auto holds = [&](const std::string& text) {
      return (inclusion ? check_inclusion_file(text, trust) : check_consistency_file(text, trust))
          .holds();
    };
    ASSERT_TRUE(holds(file(note, entry, index, proof)));
    const auto place = proof.begin() + static_cast<std::ptrdiff_t>(random() % proof.size());
    switch (random() % (inclusion ? 7 : 5)) {
      case 0:
        place->bytes[random() % 32] ^= static_cast<std::uint8_t>(1u << (random() % 8));
        break;
      case 1:
        proof.erase(place);
        break;
      case 2:
        proof.insert(place, *place);
        break;
      case 3:
        proof.push_back(reader(0, random() % kEntries).value());
        break;
      case 4:
        ASSERT_FALSE(holds(file(stolen, entry, index, proof)));
        continue;
      case 5:
        ASSERT_FALSE(holds(file(note, entry, (index + 1) % kEntries, proof)));
        continue;
      default:
        ASSERT_FALSE(holds(file(note, pieces.entries[(index + 1) % kEntries], index, proof)));
        continue;
    }
    ASSERT_FALSE(holds(file(note, entry, index, proof)));
  }
}

// Neither for nor against an honest log: the reader asked for the wrong proof.
TEST(ConsistencyFile, of_another_size_than_the_held_head_is_wrong_use) {
  const World world;
  const Pieces pieces = honest_pieces();
  Trust trust = trust_of(world);
  const auto file = [&](std::size_t from) {
    std::string text = quoted_note(head_note(pieces, kEntries, 3000, world.log, nullptr));
    text.replace(0, 8, "{\"checkpoint\":");
    text.resize(text.size() - 2);
    return text + ",\"from\":" + std::to_string(from) + ",\"proof\":[]}";
  };
  const Report other = check_consistency_file(file(kHeld - 1), trust);
  EXPECT_FALSE(other.holds());
  EXPECT_TRUE(other.findings.empty()) << other.findings[0].text;
  EXPECT_NE(other.wrong_use.find("--from " + std::to_string(kHeld)), std::string::npos);
  const Report false_proof = check_consistency_file(file(kHeld), trust);
  EXPECT_TRUE(false_proof.wrong_use.empty());
  EXPECT_FALSE(false_proof.holds());
  EXPECT_EQ(false_proof.findings.size(), 1u);
}

}  // namespace
}  // namespace falaj_verify
