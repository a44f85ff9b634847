#include "security/evidence/evidence.h"

#include <algorithm>

#include "base/hash.h"
#include "base/json.h"
#include "security/audit/wire.h"

namespace falaj::security {
namespace {

constexpr std::int64_t kPage = 5'000;
constexpr std::int64_t kHeadPage = 1'000;
constexpr std::int64_t kProofs = 16;

struct FileFacts {
  std::string sha256;
  std::int64_t bytes = 0;
};

FileFacts facts_of(std::string_view content) {
  return {sha256_hex(content), static_cast<std::int64_t>(content.size())};
}

// Hash and length of the entries' file, without holding it.
Result<FileFacts> entry_facts(const Audit& audit, std::int64_t count) {
  Sha256Hasher hasher;
  FileFacts facts;
  for (std::int64_t first = 1; first <= count; first += kPage) {
    const auto lines = FALAJ_TRY(audit.lines(first, std::min(kPage, count - first + 1)));
    for (const std::string& line : lines) {
      hasher.update(line);
      hasher.update(std::string_view("\n"));
      facts.bytes += static_cast<std::int64_t>(line.size()) + 1;
    }
  }
  facts.sha256 = hasher.finish().hex();
  return facts;
}

Result<std::string> heads_file(const Heads& heads, std::uint64_t size) {
  std::string text;
  std::uint64_t after = 0;
  while (true) {
    const std::vector<SignedHead> page = FALAJ_TRY(heads.list(after, kHeadPage));
    for (const SignedHead& head : page) {
      if (head.head.size > size) return text;
      Value line;
      line["note"] = head.note;
      text += to_json(line) + "\n";
      after = head.head.size;
    }
    if (static_cast<std::int64_t>(page.size()) < kHeadPage) return text;
  }
}

// That the newest entries are in the tree, for readers who want to see one by itself.
Result<std::string> proofs_file(const Audit& audit, std::int64_t size) {
  std::string text;
  for (std::int64_t sequence = std::max<std::int64_t>(1, size - kProofs + 1); sequence <= size;
       ++sequence) {
    Value line;
    line["index"] = sequence - 1;
    line["proof"] =
        proof_value(FALAJ_TRY(audit.inclusion(sequence, static_cast<std::uint64_t>(size))));
    text += to_json(line) + "\n";
  }
  return text;
}

std::string manifest_text(const SignerInfo& info, const crypto::TreeHead& head, Timestamp now,
                          const std::map<std::string, FileFacts>& files) {
  Value manifest;
  manifest["format"] = "falaj-evidence/1";
  manifest["origin"] = info.origin;
  manifest["created_at"] = to_rfc3339(now);
  manifest["head"] = head_value(head);
  manifest["files"] = Value::array();
  for (const auto& [path, facts] : files) {
    Value file;
    file["path"] = path;
    file["sha256"] = facts.sha256;
    file["bytes"] = facts.bytes;
    manifest["files"].push(std::move(file));
  }
  return to_pretty_json(manifest) + "\n";
}

}  // namespace

EvidenceDesk::EvidenceDesk(Heads& heads, const Clock& clock, std::vector<EvidencePart> parts)
    : heads_(heads), clock_(clock), parts_(std::move(parts)) {}

Result<Evidence> EvidenceDesk::build(const RequestContext& context) {
  const MutexLock lock(building_);
  Evidence evidence;
  Value detail;
  detail["parts"] = Value::array();
  for (const EvidencePart& part : parts_) detail["parts"].push(part.path);
  FALAJ_TRY(heads_.audit().record(context, {"evidence.export", "Evidence", detail}));
  for (const EvidencePart& part : parts_) {
    auto content = part.content();
    if (!content.ok()) return content.error().within("evidence part " + part.path);
    evidence.files[part.path] = std::move(content).value();
  }
  const SignedHead head = FALAJ_TRY(heads_.tick());
  const SignerInfo info = FALAJ_TRY(heads_.signer().info());
  evidence.entries = static_cast<std::int64_t>(head.head.size);
  evidence.files["audit/heads.jsonl"] = FALAJ_TRY(heads_file(heads_, head.head.size));
  evidence.files["audit/proofs.jsonl"] = FALAJ_TRY(proofs_file(heads_.audit(), evidence.entries));
  std::map<std::string, FileFacts> facts;
  for (const auto& [path, content] : evidence.files) facts[path] = facts_of(content);
  facts[kEntriesFile] = FALAJ_TRY(entry_facts(heads_.audit(), evidence.entries));
  const Timestamp now = clock_.now();
  const std::string manifest = manifest_text(info, head.head, now, facts);
  evidence.files["manifest.note"] = FALAJ_TRY(heads_.signer().sign_manifest(sha256(manifest), now));
  evidence.files["manifest.json"] = manifest;
  return evidence;
}

}  // namespace falaj::security
