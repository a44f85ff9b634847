// An evidence bundle as an honest server writes it, and the keys of all who have a part in it.
#pragma once

#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "bundle.h"
#include "crypto/checkpoint.h"
#include "json.h"
#include "security/access/matrix.h"

namespace falaj_verify {

namespace fc = falaj::crypto;

inline constexpr std::size_t kEntries = 24;
inline constexpr std::size_t kHeld = 16;  // The kept head covers this many.
inline constexpr const char* kOrigin = "falaj/tamper";
inline constexpr const char* kWitness = "witness.example";

inline fc::PrivateKey key_from(char seed) {
  return fc::PrivateKey::ed25519(std::string(32, seed)).value();
}

// Everything an honest server has; tamperings start from it.
struct World {
  fc::PrivateKey log = key_from('l');
  fc::PrivateKey old_log = key_from('o');  // The key before it was rotated.
  fc::PrivateKey witness = key_from('w');
  fc::PrivateKey thief = key_from('t');
};

struct Event {
  std::string action = "model.promote";
  std::string object;
  std::string detail;
};

inline std::string event_line(std::size_t sequence, std::int64_t second, const Event& event) {
  char time[40];
  std::snprintf(time, sizeof time, "2026-11-16T08:%02d:%02d.250Z", static_cast<int>(second / 60),
                static_cast<int>(second % 60));
  return "{\"action\":\"" + event.action + "\",\"actor\":\"user:u_1\",\"at\":\"" + time +
         "\",\"detail\":" + event.detail + ",\"object\":\"" + event.object +
         "\",\"project\":\"payments\",\"request_id\":\"r\",\"sequence\":" +
         std::to_string(sequence) + ",\"v\":1}";
}

inline std::string entry_line(std::size_t sequence, std::int64_t second,
                              const std::string& object) {
  return event_line(
      sequence, second,
      {.object = object,
       .detail = "{\"alias\":\"champion\",\"version\":" + std::to_string(sequence) + "}"});
}

// Something crossed a border, and evidence was taken: entries that parts are held against.
inline constexpr std::size_t kTaken = 12;
inline const std::map<std::size_t, Event>& honest_events() {
  static const std::map<std::size_t, Event> kEvents{
      {3, {"transfer.approve", "Transfer/payments/abroad", R"({"from":"ae","to":"eu"})"}},
      {7,
       {"transfer.use", "Transfer/payments/abroad",
        R"({"bytes":100,"exit":"export","flows":2,"from":"ae","to":"eu"})"}},
      {10,
       {"transfer.sent", "Transfer/payments/abroad",
        R"({"bytes":50,"exit":"export","from":"ae","to":"eu"})"}},
      {kTaken, {"evidence.export", "Evidence", R"({"parts":[]})"}}};
  return kEvents;
}

// What the log says and not a byte more, so that a byte less is too little; and a flow that stayed.
inline const char* const kLedgerText =
    R"({"entries":16,"rows":[)"
    R"({"day":"2026-11-15","project":"payments","exit":"export","from":"ae","to":"eu",)"
    R"("transfer":"abroad","flows":1,"bytes":90,"refused":0},)"
    R"({"day":"2026-11-16","project":"payments","exit":"export","from":"ae","to":"eu",)"
    R"("transfer":"abroad","flows":1,"bytes":60,"refused":0},)"
    R"({"day":"2026-11-16","project":"payments","exit":"serve","from":"ae","to":"ae",)"
    R"("transfer":"","flows":9,"bytes":900,"refused":0}],"transfers":{"transfers":[]}})";

// Who may do what, as the server writes it: a group, a forbid, an emergency, one who is disabled.
inline const std::string& honest_matrix() {
  namespace access = falaj::security::access;
  using State = access::MatrixInput::Account::State;
  static const std::string kText = [] {
    const auto object = [](const char* kind, const char* name, const char* spec) {
      falaj::storage::Object made;
      made.kind = kind;
      made.name = name;
      made.spec = falaj::parse_json(spec).value();
      return made;
    };
    access::MatrixInput input;
    input.grants = {
        object("Grant", "editors",
               R"({"to":["group:risk"],"role":"editor","on":{"project":"payments"}})"),
        object("Grant", "no-export",
               R"({"to":["everyone"],"actions":["data.*"],"effect":"forbid",)"
               R"("on":{"kind":"TrainingSet"}})"),
        object("Grant", "root", R"({"to":["user:u_1"],"role":"admin","on":"platform"})"),
        object("Grant", "watch", R"({"to":["user:u_2"],"role":"break-glass","on":"platform"})")};
    input.groups = {object("Group", "risk", R"({"members":["user:alice","user:u_3"]})")};
    input.projects = {"payments", "other"};
    input.accounts = {{"user:u_1", State::kActive},
                      {"user:u_2", State::kActive},
                      {"user:u_3", State::kDisabled},
                      {"user:u_4", State::kActive}};
    input.resolve = [](const std::string& name) -> std::optional<std::string> {
      return name == "user:alice" ? "user:u_4" : name;
    };
    const auto now = falaj::Timestamp::from_seconds(1'763'280'000);
    return falaj::to_json(access::access_matrix(input, now).value()) + "\n";
  }();
  return kText;
}

// A bundle in pieces, put together and signed by whoever holds a key.
struct Pieces {
  std::string origin = kOrigin;
  std::vector<std::string> entries;
  std::vector<std::size_t> head_sizes{kHeld, kEntries};
  std::vector<std::int64_t> head_times{2000, 3000};
  std::map<std::string, std::string> parts{
      {"access/matrix.json", honest_matrix()},
      {"keys/inventory.json", "{\"entries\":16,\"keys\":[]}\n"},
      {"models/cards.json", "{\"models\":[],\"signer\":\"\"}\n"},
      {"zones/ledger.json", kLedgerText}};
};

inline Pieces honest_pieces() {
  Pieces pieces;
  for (std::size_t i = 1; i <= kEntries; ++i) {
    const auto event = honest_events().find(i);
    const auto second = static_cast<std::int64_t>(i);
    pieces.entries.push_back(event == honest_events().end()
                                 ? entry_line(i, second, "Model/payments/m" + std::to_string(i % 3))
                                 : event_line(i, second, event->second));
  }
  return pieces;
}

inline falaj::Sha256 root_of(const Pieces& pieces, std::size_t size) {
  fc::Frontier frontier;
  for (std::size_t i = 0; i < size; ++i) frontier.append(fc::leaf_hash(pieces.entries[i]));
  return frontier.root();
}

// Signing costs more than everything else here, and most texts come again.
inline std::string sign(const fc::PrivateKey& key, const std::string& body,
                        std::int64_t cosigned_at) {
  static std::map<std::string, std::string> made;
  if (made.size() > 100'000) made.clear();
  std::string& signature = made[key.to_pem() + std::to_string(cosigned_at) + "\n" + body];
  if (signature.empty()) {
    signature = cosigned_at < 0 ? key.sign(fc::Scheme::kEd25519, body).value()
                                : fc::cosign_note(body, kWitness, key, cosigned_at).value().blob;
  }
  return signature;
}

inline fc::NoteSignature log_signature(const fc::PrivateKey& key, const std::string& body,
                                       const std::string& origin) {
  const fc::NoteKey id{origin, fc::NoteKeyUse::kSign, key.public_key().raw()};
  return {origin, id.id() + sign(key, body, -1)};
}

inline std::string head_note(const Pieces& pieces, std::size_t size, std::int64_t time,
                             const fc::PrivateKey& log, const fc::PrivateKey* witness) {
  const fc::Checkpoint checkpoint{
      pieces.origin, {size, root_of(pieces, size)}, {"time " + std::to_string(time)}};
  fc::Note note{fc::to_body(checkpoint), {}};
  note.signatures.push_back(log_signature(log, note.body, pieces.origin));
  if (witness != nullptr) {
    note.signatures.push_back({kWitness, sign(*witness, note.body, time + 1)});
  }
  return fc::to_text(note);
}

inline std::string quoted_note(const std::string& note) {
  std::string out = "{\"note\":\"";
  for (const char c : note) out += c == '\n' ? std::string("\\n") : std::string(1, c);
  return out + "\"}\n";
}

inline std::string manifest_of(const Files& files, const std::string& origin, std::size_t size,
                               const falaj::Sha256& root) {
  std::string text = "{\"format\":\"falaj-evidence/1\",\"origin\":\"" + origin +
                     "\",\"head\":{\"size\":" + std::to_string(size) + ",\"root\":\"" + root.hex() +
                     "\"},\"files\":[";
  bool first = true;
  for (const auto& [path, content] : files) {
    if (path.starts_with("manifest.")) continue;
    text += std::string(first ? "" : ",") + "{\"path\":\"" + path + "\",\"sha256\":\"" +
            to_hex(sha256(content)) + "\",\"bytes\":" + std::to_string(content.size()) + "}";
    first = false;
  }
  return text + "]}\n";
}

inline void sign_manifest(Files& files, const std::string& origin, const fc::PrivateKey& key) {
  const std::string body = "falaj-evidence/v1\n" + origin + "\nsha256 " +
                           to_hex(sha256(files["manifest.json"])) + "\ntime 3001\n";
  fc::Note note{body, {log_signature(key, body, origin)}};
  files["manifest.note"] = fc::to_text(note);
}

inline fc::HashReader reader_of(const Pieces& pieces) {
  std::vector<falaj::Sha256> leaves;
  for (const std::string& entry : pieces.entries) leaves.push_back(fc::leaf_hash(entry));
  return [leaves](unsigned level, std::uint64_t index) -> falaj::Result<falaj::Sha256> {
    const std::size_t width = std::size_t{1} << level;
    const auto begin = leaves.begin() + static_cast<std::ptrdiff_t>(index * width);
    return fc::root_of({begin, begin + static_cast<std::ptrdiff_t>(width)});
  };
}

inline std::string hex_list(const fc::Proof& proof) {
  std::string text;
  for (const falaj::Sha256& hash : proof) {
    text += (text.empty() ? "\"" : ",\"") + hash.hex() + "\"";
  }
  return "[" + text + "]";
}

// Of the newest entry.
inline std::string proofs_of(const Pieces& pieces) {
  const std::size_t size = pieces.entries.size();
  const auto proof = fc::inclusion_proof(reader_of(pieces), size - 1, size).value();
  return "{\"index\":" + std::to_string(size - 1) + ",\"proof\":" + hex_list(proof) + "}\n";
}

inline std::string drill_of(const Pieces& pieces, std::size_t size) {
  return "{\"audit\":{\"root\":\"" + root_of(pieces, size).hex() +
         "\",\"size\":" + std::to_string(size) + "}}\n";
}

// The bundle as the holder of `log` would export it; `witness` cosigns the newest head.
inline Files build(const Pieces& pieces, const fc::PrivateKey& log, const fc::PrivateKey* witness) {
  Files files;
  for (const auto& [path, content] : pieces.parts) files[path] = content;
  files["audit/proofs.jsonl"] = proofs_of(pieces);
  files["restore/drill.json"] = drill_of(pieces, std::min(kHeld, pieces.entries.size()));
  std::string& entries = files["audit/entries.jsonl"];
  for (const std::string& entry : pieces.entries) entries += entry + "\n";
  std::string& heads = files["audit/heads.jsonl"];
  for (std::size_t i = 0; i < pieces.head_sizes.size(); ++i) {
    heads += quoted_note(head_note(pieces, pieces.head_sizes[i], pieces.head_times[i], log,
                                   i + 1 == pieces.head_sizes.size() ? witness : nullptr));
  }
  const std::size_t size = pieces.entries.size();
  files["manifest.json"] = manifest_of(files, pieces.origin, size, root_of(pieces, size));
  sign_manifest(files, pieces.origin, log);
  return files;
}

// An insider renews what he can: hashes and the log's own signatures, not the witness's.
inline void resign_manifest(Files& files, const fc::PrivateKey& key) {
  const auto manifest = parse_json(files["manifest.json"]);
  std::string root(manifest ? (*manifest)["head"].text_at("root") : "");
  const auto size = manifest ? (*manifest)["head"].count_at("size") : std::nullopt;
  falaj::Sha256 hash;
  if (const auto bytes = from_hex(root))
    std::copy(bytes->begin(), bytes->end(), hash.bytes.begin());
  files["manifest.json"] = manifest_of(files, kOrigin, size.value_or(0), hash);
  sign_manifest(files, kOrigin, key);
}

inline Trust trust_of(const World& world) {
  const auto key = [](const fc::PrivateKey& private_key, const char* name, fc::NoteKeyUse use) {
    return *parse_key(fc::to_text(fc::NoteKey{name, use, private_key.public_key().raw()}));
  };
  const Pieces pieces = honest_pieces();
  return {key(world.log, kOrigin, fc::NoteKeyUse::kSign),
          {key(world.witness, kWitness, fc::NoteKeyUse::kCosign)},
          head_note(pieces, kHeld, 2000, world.log, nullptr)};
}

}  // namespace falaj_verify
