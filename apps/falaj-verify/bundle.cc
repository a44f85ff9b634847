#include "bundle.h"

#include <algorithm>
#include <array>
#include <set>

#include "parts.h"

namespace falaj_verify {
namespace {

constexpr std::string_view kManifest = "manifest.json";
constexpr std::string_view kManifestNote = "manifest.note";
constexpr std::string_view kEntries = "audit/entries.jsonl";
constexpr std::string_view kHeads = "audit/heads.jsonl";
constexpr std::string_view kProofs = "audit/proofs.jsonl";
constexpr std::string_view kDrill = "restore/drill.json";
constexpr std::string_view kCards = "models/cards.json";
constexpr std::string_view kMatrix = "access/matrix.json";
constexpr std::string_view kInventory = "keys/inventory.json";
constexpr std::string_view kLedger = "zones/ledger.json";
// Entries that parts of the bundle are held against begin with one of these.
constexpr std::array<std::string_view, 4> kTelling{
    "{\"action\":\"evidence.export\",", "{\"action\":\"key.", "{\"action\":\"model.register\",",
    "{\"action\":\"transfer."};
constexpr std::size_t kProofMax = 128;

std::string number(std::uint64_t n) { return std::to_string(n); }

std::optional<Proof> proof_of(const Json& list) {
  if (list.kind != Json::Kind::kList || list.items.size() > kProofMax) return {};
  Proof proof;
  for (const Json& item : list.items) {
    const auto hash = item.kind == Json::Kind::kText ? from_hex(item.text) : std::nullopt;
    if (!hash) return {};
    proof.push_back(*hash);
  }
  return proof;
}

// A head that bears the log's signature, and what it says.
struct Head {
  Note note;
  Checkpoint checkpoint;
};
std::optional<Head> head_of(std::string_view text, const Key& log, bool must_be_signed = true) {
  const auto note = parse_note(text);
  const auto checkpoint = note ? parse_checkpoint(note->body) : std::nullopt;
  if (!checkpoint || checkpoint->origin != log.name) return {};
  if (must_be_signed && check_signature(*note, log).state != Signed::kYes) return {};
  return Head{*note, *checkpoint};
}

class Examination {
 public:
  Examination(const Files& files, const Trust& trust, const Checks& checks)
      : files_(files), trust_(trust), checks_(checks) {}

  Report run() {
    read_held();
    check_manifest();
    check_files();
    read_heads();
    walk_entries();
    check_coverage();
    check_witnesses();
    check_held();
    check_proofs();
    check_drill();
    check_models();
    check_keys();
    check_access();
    check_ledger();
    return std::move(report_);
  }

 private:
  void holds(std::string text) { report_.findings.push_back({true, std::move(text)}); }
  void fails(std::string text) { report_.findings.push_back({false, std::move(text)}); }

  std::optional<std::string_view> file(std::string_view path) const {
    const auto found = files_.find(path);
    if (found == files_.end()) return {};
    return found->second;
  }

  // A part, which every bundle has, with the list (or object) that it is about. Absent too when the
  // entries do not hold: then nothing can be held against them.
  std::optional<Json> part(std::string_view path, std::string_view about, Json::Kind kind) {
    const auto text = file(path);
    if (!entries_hold_ || (!text && !checks_.parts)) return {};
    auto parsed = text ? parse_json(*text) : std::nullopt;
    if (parsed && (*parsed)[about].kind == kind) return parsed;
    fails("The bundle has no " + std::string(path) + ", or it is malformed.");
    return {};
  }

  // Whether a part that knows the log up to there was made for this evidence.
  bool is_of_now(std::string_view path, std::uint64_t known) {
    if (!checks_.part_times || (taken_ != 0 && known >= taken_)) return true;
    fails(std::string(path) + " is older than the entry that says that evidence was taken.");
    return false;
  }

  // The manifest bears the log's signature, so its list of hashes may be believed.
  void check_manifest() {
    const auto text = file(kManifest);
    const auto signed_text = file(kManifestNote);
    if (!text || !signed_text) {
      return fails("The bundle has no manifest.json or no manifest.note.");
    }
    const auto note = parse_note(*signed_text);
    if (!note) return fails("manifest.note is not a signed note.");
    if (checks_.manifest_signature && !vouches_for(*note, trust_.log, *text)) {
      return fails("The manifest does not bear a valid signature of " + trust_.log.name + ".");
    }
    const auto manifest = parse_json(*text);
    if (!manifest || manifest->text_at("format") != "falaj-evidence/1" ||
        manifest->text_at("origin") != trust_.log.name) {
      return fails("The manifest is malformed or speaks of another log.");
    }
    manifest_ = *manifest;
    holds("The manifest was signed by " + trust_.log.name + ".");
  }

  void check_files() {
    const Json& list = manifest_["files"];
    if (list.kind != Json::Kind::kList) return fails("The manifest lists no files.");
    std::set<std::string, std::less<>> listed{std::string(kManifest), std::string(kManifestNote)};
    const std::size_t before = report_.findings.size();
    for (const Json& item : list.items) {
      const std::string path(item.text_at("path"));
      const auto content = file(path);
      if (!listed.insert(path).second) {
        fails("The manifest lists " + path + " twice.");
      } else if (checks_.file_hashes && !content) {
        fails("The file " + path + " is missing.");
      } else if (checks_.file_hashes && (to_hex(sha256(*content)) != item.text_at("sha256") ||
                                         item.count_at("bytes") != content->size())) {
        fails("The file " + path + " was changed after it was signed.");
      }
    }
    for (const auto& [path, content] : files_) {
      if (!checks_.unlisted_files || listed.contains(path)) continue;
      fails("The file " + path + " was added after the manifest was signed.");
    }
    if (report_.findings.size() > before) return;
    holds("All " + number(list.items.size()) + " files are as they were signed.");
  }

  std::optional<Head> read_head(std::string_view text, const std::string& name) {
    auto head = head_of(text, trust_.log, checks_.head_signatures);
    if (!head) fails(name + " is no head with a valid signature of " + trust_.log.name + ".");
    return head;
  }

  void read_held() {
    if (!trust_.checkpoint || !checks_.held_checkpoint) return;
    held_ = read_head(*trust_.checkpoint, "The checkpoint you hold");
  }

  void read_heads() {
    const auto text = file(kHeads);
    if (!text) return fails("The bundle has no signed heads.");
    for (const std::string_view line : lines_of(*text)) {
      const auto parsed = parse_json(line);
      const std::string name = "Signed head " + number(heads_.size() + 1);
      auto head = read_head(parsed ? parsed->text_at("note") : "", name);
      if (!head) return;
      if (!heads_.empty()) {
        const Checkpoint& before = heads_.back().checkpoint;
        if (head->checkpoint.size <= before.size) {
          return fails(name + " is not larger than the one before it.");
        }
        if (checks_.head_times && head->checkpoint.time < before.time) {
          return fails(name + " is dated before the one before it: the clock was set back.");
        }
      }
      heads_.push_back(std::move(*head));
    }
    if (heads_.empty()) return fails("The bundle has no signed heads.");
    holds("All " + number(heads_.size()) + " signed heads bear the log's signature.");
  }

  // Recomputes the tree from the entries and compares it with every head on the way.
  void walk_entries() {
    const auto text = file(kEntries);
    if (!text) return fails("The bundle has no audit entries.");
    if (!text->empty() && text->back() != '\n') return fails("The last audit entry is cut off.");
    std::size_t next_head = 0;
    std::int64_t last_time = INT64_MIN;
    std::string_view rest = *text;
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 1);
      if (!check_entry(line, last_time)) return;
      const auto begins = [&](std::string_view with) { return line.starts_with(with); };
      if (std::ranges::any_of(kTelling, begins) && !remember(line)) return;
      leaves_.push_back(leaf_hash(line));
      tree_.append(leaves_.back());
      if (held_ && tree_.size() == held_->checkpoint.size) held_root_ = tree_.root();
      if (next_head == heads_.size() || heads_[next_head].checkpoint.size != tree_.size()) continue;
      if (checks_.head_roots && heads_[next_head].checkpoint.root != tree_.root()) {
        return fails("The first " + number(tree_.size()) +
                     " entries are not those that were signed: at least one was changed, added, "
                     "removed or moved.");
      }
      ++next_head;
    }
    report_.entries = tree_.size();
    heads_reached_ = next_head;
    holds("All " + number(tree_.size()) + " entries are whole, in order, and in the signed tree.");
    entries_hold_ = true;
  }

  bool check_entry(std::string_view line, std::int64_t& last_time) {
    const std::uint64_t expected = tree_.size() + 1;
    const auto facts = scan_entry(line);
    if (checks_.entry_form && (!facts || facts->sequence != expected)) {
      fails("Entry " + number(expected) + " is missing, malformed or out of order.");
      return false;
    }
    const auto time = facts ? parse_time(facts->at) : std::nullopt;
    if (checks_.entry_times && (!time || *time < last_time)) {
      fails("Entry " + number(expected) + " is dated before the one before it.");
      return false;
    }
    if (time) last_time = *time;
    return true;
  }

  // Nothing behind the last head, nothing missing before it, and the manifest agrees.
  void check_coverage() {
    if (!entries_hold_ || !checks_.coverage || heads_.empty()) return;
    if (heads_reached_ < heads_.size()) {
      return fails("A signed head counts " + number(heads_.back().checkpoint.size) +
                   " entries, but the bundle has only " + number(tree_.size()) +
                   ": the end was cut off.");
    }
    if (heads_.back().checkpoint.size != tree_.size()) {
      return fails("The last " + number(tree_.size() - heads_.back().checkpoint.size) +
                   " entries are under no signed head.");
    }
    const Json& head = manifest_["head"];
    if (head.count_at("size") != tree_.size() || head.text_at("root") != to_hex(tree_.root())) {
      return fails("The manifest was signed for another state of the log.");
    }
    holds("The newest signed head covers every entry.");
  }

  void check_witnesses() {
    if (!checks_.cosignatures) return;
    for (const Key& witness : trust_.witnesses) {
      std::uint64_t covered = 0;
      std::uint64_t last_time = 0;
      bool forged = false;
      for (const Head& head : heads_) {
        const Verdict verdict = check_signature(head.note, witness);
        if (verdict.state == Signed::kNo) continue;
        if (verdict.state == Signed::kForged || verdict.time < last_time) forged = true;
        last_time = verdict.time;
        covered = head.checkpoint.size;
      }
      if (forged) {
        fails("A cosignature in the name of " + witness.name + " is not genuine.");
      } else if (covered == 0) {
        fails("No head was cosigned by " + witness.name + ".");
      } else {
        holds(witness.name + " has witnessed the first " + number(covered) + " entries.");
      }
    }
  }

  void check_held() {
    if (!held_ || !entries_hold_) return;
    const std::uint64_t size = held_->checkpoint.size;
    if (size > tree_.size()) {
      return fails("You hold a head of " + number(size) + " entries, but the log now has only " +
                   number(tree_.size()) + ": it was cut or set back.");
    }
    if (held_root_ != held_->checkpoint.root) {
      return fails("The first " + number(size) +
                   " entries are not those of the head you hold: the log was rewritten.");
    }
    holds("The log still begins with the " + number(size) + " entries of the head you hold.");
  }

  void check_proofs() {
    const auto text = file(kProofs);
    if (!entries_hold_ || !(text ? checks_.proofs : checks_.parts)) return;
    if (!text) return fails("The bundle has no inclusion proofs.");
    std::size_t count = 0;
    for (const std::string_view line : lines_of(*text)) {
      const auto item = parse_json(line);
      const std::uint64_t none = leaves_.size();
      const std::uint64_t index = item ? item->count_at("index").value_or(none) : none;
      const auto proof = item ? proof_of((*item)["proof"]) : std::nullopt;
      if (index >= none || !proof ||
          !check_inclusion(leaves_[index], index, tree_.size(), tree_.root(), *proof)) {
        return fails("Inclusion proof " + number(count + 1) + " does not hold.");
      }
      ++count;
    }
    holds("All " + number(count) + " inclusion proofs hold.");
  }

  // The restore drill states a root; it must be one of this log.
  void check_drill() {
    const auto drill = part(kDrill, "audit", Json::Kind::kObject);
    if (!drill) return;
    const Json& audit = (*drill)["audit"];
    const auto size = audit.count_at("size");
    if (!size || *size > leaves_.size())
      return fails("The restore drill names no state of this log.");
    if (!is_of_now(kDrill, *size)) return;
    Tree tree;
    for (std::uint64_t i = 0; i < *size; ++i) tree.append(leaves_[i]);
    if (to_hex(tree.root()) != audit.text_at("root")) {
      return fails("The restored copy did not hold this log.");
    }
    holds("The restore drill brought back the first " + number(*size) + " entries unchanged.");
  }

  // What parts will be held against; says when it cannot be read.
  bool remember(std::string_view line) {
    const auto entry = parse_json(line);
    const std::uint64_t sequence = tree_.size() + 1;
    if (!entry) {
      fails("Entry " + number(sequence) + " says something twice.");
      return false;
    }
    const std::string_view action = entry->text_at("action");
    const Json& detail = (*entry)["detail"];
    if (action == "evidence.export") {
      taken_ = sequence;
    } else if (action == "model.register") {
      registered_.insert(std::string(entry->text_at("object")) + " " +
                         std::string(detail.text_at("bundle_sha256")));
    } else if (action == "key.shred") {
      for (const Json& ring : detail["rings"].items) destroyed_.emplace(ring.text, sequence);
    } else if (action == "key.rotate") {
      // The newest counts: versions only grow.
      rotated_[std::string(detail.text_at("key"))] = {detail.count_at("version").value_or(0),
                                                      sequence};
    } else if (action.starts_with("transfer.")) {
      transfers_.push_back(line);
    }
    return true;
  }

  // Every card bears the server's signature, and that signature is the one the log registered.
  void check_models() {
    const auto cards = part(kCards, "models", Json::Kind::kList);
    if (!cards || !checks_.model_cards) return;
    for (const Json& card : (*cards)["models"].items) {
      const std::string name = std::string(card.text_at("project")) + "/" +
                               std::string(card.text_at("model")) + "/" + card["version"].text;
      const std::string why = check_model_card(card, cards->text_at("signer"));
      if (!why.empty()) return fails("The card of model " + name + " does not hold: " + why + ".");
      if (!registered_.contains("ModelVersion/" + name + " " +
                                std::string(card.text_at("bundle_sha256")))) {
        return fails("The log does not register model " + name + " with this signature.");
      }
    }
    holds("All " + number((*cards)["models"].items.size()) +
          " model cards are signed, and registered in the log.");
  }

  // What the log says was destroyed or replaced is so in the inventory.
  void check_keys() {
    const auto inventory = part(kInventory, "keys", Json::Kind::kList);
    if (!inventory || !checks_.key_receipts) return;
    const std::uint64_t known = inventory->count_at("entries").value_or(tree_.size());
    if (!is_of_now(kInventory, known)) return;
    for (const Json& key : (*inventory)["keys"].items) {
      const std::string id(key.text_at("id"));
      const std::string name = "The key of " + std::string(key.text_at("project")) + " " +
                               std::string(key.text_at("object"));
      const auto end = destroyed_.find(id);
      if (end != destroyed_.end() && end->second <= known && key.text_at("level") != "subject" &&
          key.text_at("shredded").empty()) {
        return fails(name + " lives, though entry " + number(end->second) +
                     " is the receipt of its end: the key database was set back.");
      }
      const auto rotation = rotated_.find(id);
      if (rotation != rotated_.end() && rotation->second.sequence <= known &&
          key.count_at("version").value_or(0) < rotation->second.version) {
        return fails(name + " is older than entry " + number(rotation->second.sequence) +
                     " says: the key database was set back.");
      }
    }
    holds("No key lives of which the log has a receipt that it was destroyed.");
  }

  // Every decision in the access matrix follows from the grants beside it.
  void check_access() {
    const auto matrix = part(kMatrix, "decisions", Json::Kind::kObject);
    if (!matrix || !checks_.decisions) return;
    const std::string why = check_decisions(*matrix);
    if (!why.empty())
      return fails("The access matrix does not follow from its grants: " + why + ".");
    const Json& table = (*matrix)["decisions"];
    holds("What " + number(table["principals"].items.size()) +
          " principals may do follows from the grants (left out: " +
          number(table["left_out"].count_at("principals").value_or(0)) + " principals, " +
          number(table["left_out"].count_at("places").value_or(0)) + " places).");
  }

  // What crossed a border is counted as the log says, and somebody had approved it.
  void check_ledger() {
    const auto ledger = part(kLedger, "rows", Json::Kind::kList);
    if (!ledger || !checks_.crossings) return;
    const std::uint64_t known = ledger->count_at("entries").value_or(tree_.size());
    if (!is_of_now(kLedger, known)) return;
    const std::string why = check_crossings(*ledger, transfers_, known);
    if (!why.empty()) return fails("The zone ledger does not fit the log: " + why + ".");
    holds("The zone ledger counts what the log says crossed a border, all of it approved.");
  }

  struct Rotation {
    std::uint64_t version = 0;
    std::uint64_t sequence = 0;
  };

  const Files& files_;
  const Trust& trust_;
  const Checks& checks_;
  Report report_;
  Json manifest_;
  std::vector<Head> heads_;
  std::vector<Hash> leaves_;
  std::set<std::string, std::less<>> registered_;  // Object and hash of its signature.
  std::map<std::string, std::uint64_t, std::less<>> destroyed_;  // Key, and its receipt.
  std::map<std::string, Rotation, std::less<>> rotated_;
  std::vector<std::string_view> transfers_;  // Entries about them.
  std::uint64_t taken_ = 0;                  // The newest entry that says that evidence was taken.
  Tree tree_;
  std::optional<Head> held_;        // Which the reader brought.
  Hash held_root_ = Tree().root();  // Of as many entries here.
  std::size_t heads_reached_ = 0;
  bool entries_hold_ = false;
};

Report failed(std::string text) { return {{{false, std::move(text)}}, 0}; }

}  // namespace

bool Report::holds() const {
  return !findings.empty() &&
         std::all_of(findings.begin(), findings.end(), [](const Finding& f) { return f.holds; });
}

Report check_bundle(const Files& files, const Trust& trust, const Checks& checks) {
  return Examination(files, trust, checks).run();
}

Report check_head(std::string_view text, const Trust& trust) {
  const auto head = head_of(text, trust.log);
  if (!head) return failed("This is no head with a valid signature of " + trust.log.name + ".");
  Report report;
  report.findings.push_back({true, trust.log.name + " signed a log of " +
                                       number(head->checkpoint.size) + " entries with the root " +
                                       to_hex(head->checkpoint.root) + "."});
  for (const Key& witness : trust.witnesses) {
    const bool yes = check_signature(head->note, witness).state == Signed::kYes;
    report.findings.push_back(
        {yes, witness.name + (yes ? " cosigned it." : " did not cosign it.")});
  }
  return report;
}

Report check_inclusion_file(std::string_view json, const Trust& trust) {
  const auto file = parse_json(json);
  if (!file) return failed("The proof file is malformed.");
  const auto found = head_of(file->text_at("checkpoint"), trust.log);
  if (!found)
    return failed("The proof has no head with a valid signature of " + trust.log.name + ".");
  const Checkpoint& head = found->checkpoint;
  const auto index = file->count_at("index");
  const auto proof = proof_of((*file)["proof"]);
  const std::string_view entry = file->text_at("entry");
  const auto facts = scan_entry(entry);
  if (!index || !proof || !facts || facts->sequence != *index + 1) {
    return failed("The proof file is malformed.");
  }
  if (!check_inclusion(leaf_hash(entry), *index, head.size, head.root, *proof)) {
    return failed("The proof does not hold: this entry is not in the signed log at that place.");
  }
  return {{{true, "Entry " + number(facts->sequence) + " is in the log of " + number(head.size) +
                      " entries that " + trust.log.name + " signed."}},
          1};
}

Report check_consistency_file(std::string_view json, const Trust& trust) {
  const auto file = parse_json(json);
  const auto last = file ? head_of(file->text_at("checkpoint"), trust.log) : std::nullopt;
  if (!last)
    return failed("The file has no head with a valid signature of " + trust.log.name + ".");
  const auto first = head_of(trust.checkpoint.value_or(""), trust.log);
  if (!first)
    return failed("The checkpoint you hold has no valid signature of " + trust.log.name + ".");
  const Checkpoint& later = last->checkpoint;
  const Checkpoint& held = first->checkpoint;
  const auto from = file->count_at("from");
  if (from && *from != held.size) {
    Report report;
    report.wrong_use = "this proof starts at " + number(*from) +
                       " entries, the head you hold has " + number(held.size) +
                       ": ask for 'falaj audit proof --from " + number(held.size) + "'";
    return report;
  }
  const auto proof = proof_of((*file)["proof"]);
  if (!proof || !check_consistency(held.size, held.root, later.size, later.root, *proof)) {
    return failed("The log of " + number(later.size) + " entries does not continue the log of " +
                  number(held.size) + " entries that you hold a head of.");
  }
  return {{{true, "The log has only grown, from " + number(held.size) + " to " +
                      number(later.size) + " entries."}},
          later.size};
}

}  // namespace falaj_verify
