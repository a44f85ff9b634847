// security/evidence/evidence.h — a bundle of files that shows a reader outside what Falaj did.
//
// It holds the audit log with its signed heads and what the parts say (access matrix, key
// inventory, zone ledger, model cards, restore drill). A manifest names every file by its hash and
// bears the log's signature, so that `falaj-verify bundle` needs nothing but the log's public key.
// Layout: docs/guides/audit.md.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "security/audit/heads.h"

namespace falaj::security {

// One file of the bundle and how it is made. Text that changes nothing: a report, not a command.
struct EvidencePart {
  std::string path;  // "keys/inventory.json"
  std::function<Result<std::string>()> content;
};

struct Evidence {
  // Every file but the entries, by path; manifest.json and manifest.note among them.
  std::map<std::string, std::string> files;
  // The log's entries 1 to this many are the lines of audit/entries.jsonl; they are fetched apart
  // with Audit::lines(), being as many as they are.
  std::int64_t entries = 0;
};

inline constexpr const char* kEntriesFile = "audit/entries.jsonl";

// Thread-safe.
class EvidenceDesk {
 public:
  EvidenceDesk(Heads& heads, const Clock& clock, std::vector<EvidencePart> parts);
  // First records that the caller takes evidence ("evidence.export"), then signs a head that covers
  // that entry, then collects. A part that fails fails it: evidence with a hole is none. Reads the
  // whole log: seconds for a million entries. One at a time, so that the newest such entry in the
  // log of a bundle is its own: falaj-verify refuses parts that are older.
  Result<Evidence> build(const RequestContext& context);

 private:
  Heads& heads_;
  const Clock& clock_;
  const std::vector<EvidencePart> parts_;
  Mutex building_;
};

}  // namespace falaj::security
