// What falaj-verify decides: whether an evidence bundle, and the log in it, hold together and bear
// the signatures of keys that the reader brought along. Nothing in the bundle is believed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "note.h"

namespace falaj_verify {

// Files by path relative to the bundle: "audit/entries.jsonl".
using Files = std::map<std::string, std::string, std::less<>>;

// What the reader knows by other means than the bundle.
struct Trust {
  Key log;                                // The log's public key.
  std::vector<Key> witnesses;             // Who must have cosigned.
  std::optional<std::string> checkpoint;  // A signed head kept since earlier.
};

// Each can be left out by the tests of this program only, to show that the suite needs it.
struct Checks {
  bool manifest_signature = true;
  bool file_hashes = true;
  bool unlisted_files = true;
  bool entry_form = true;
  bool entry_times = true;
  bool head_signatures = true;
  bool head_roots = true;
  bool head_times = true;
  bool coverage = true;
  bool cosignatures = true;
  bool held_checkpoint = true;
  bool proofs = true;
  bool parts = true;       // That each is there.
  bool part_times = true;  // That it was made for this evidence.
  bool model_cards = true;
  bool key_receipts = true;
  bool decisions = true;
  bool crossings = true;
};

struct Finding {
  bool holds = false;
  std::string text;  // One sentence for a reader without technical training.
};

struct Report {
  std::vector<Finding> findings;
  std::uint64_t entries = 0;
  std::string wrong_use{};  // The files answer another question than was asked: what to ask for.
  bool holds() const;
};

// Every check, in order; goes on after a failure where that makes sense.
Report check_bundle(const Files& files, const Trust& trust, const Checks& checks = {});

// One signed head by itself.
Report check_head(std::string_view note, const Trust& trust);
// {"checkpoint", "entry", "index", "proof"}: the entry is in the log.
Report check_inclusion_file(std::string_view json, const Trust& trust);
// {"checkpoint", "from", "proof"} and the checkpoint held: the log has only grown since. A proof
// that starts at another size than the held head has proves nothing about it, for or against:
// `wrong_use`.
Report check_consistency_file(std::string_view json, const Trust& trust);

}  // namespace falaj_verify
