#include "security/audit/signer.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "base/json.h"
#include "base/mutex.h"
#include "crypto/aead.h"
#include "crypto/base64.h"
#include "crypto/random.h"
#include "security/audit/wire.h"
#include "storage/small_file.h"

namespace falaj::security {
namespace {

using crypto::Checkpoint;
using crypto::Note;
using crypto::NoteKey;
using crypto::NoteKeyUse;
using crypto::PrivateKey;
using crypto::Proof;
using crypto::TreeHead;

constexpr std::string_view kManifestLine = "falaj-evidence/v1";
constexpr std::size_t kWitnessedMax = 10'000;
constexpr std::string_view kKeyAad = "falaj/v1/signer-key";
constexpr std::string_view kSealedMark = "sealed:";

Error unusable(const std::string& what) {
  return {ErrorId::kSignerUnavailable, "the audit signer cannot be used: " + what};
}

Error rolled_back(const TreeHead& last, const TreeHead& head, const std::string& what) {
  return {ErrorId::kRolledBack, "the log of " + std::to_string(head.size) + " entries " + what +
                                    " the log of " + std::to_string(last.size) +
                                    " entries that was signed before"};
}

std::int64_t seconds_of(Timestamp at) { return at.nanos / 1'000'000'000; }

// What must never be forgotten.
struct Seen {
  std::string key;  // Text of the log's NoteKey; "" for the own log.
  TreeHead head;
};

struct State {
  std::string origin;
  Seen own;
  Timestamp own_at{};
  std::map<std::string, Seen, std::less<>> witnessed;
};

Value to_value(const State& state) {
  Value value;
  value["origin"] = state.origin;
  value["at"] = state.own_at.nanos;
  value["head"] = head_value(state.own.head);
  value["witnessed"] = Value::object();
  for (const auto& [origin, seen] : state.witnessed) {
    value["witnessed"][origin]["key"] = seen.key;
    value["witnessed"][origin]["head"] = head_value(seen.head);
  }
  return value;
}

Result<State> state_from(const std::string& text) {
  const Value value = FALAJ_TRY(parse_json(text));
  State state;
  state.origin = value.text("origin");
  state.own_at = Timestamp{value.integer("at")};
  state.own.head = FALAJ_TRY(head_from(value["head"]));
  if (!crypto::is_note_name(state.origin)) return unusable("its state names no origin");
  if (!value["witnessed"].is_object()) return unusable("its state is damaged");
  for (const auto& [origin, seen] : value["witnessed"].as_object()) {
    const TreeHead head = FALAJ_TRY(head_from(seen["head"]));
    state.witnessed.emplace(origin, Seen{seen.text("key"), head});
  }
  return state;
}

struct Keys {
  PrivateKey log;
  PrivateKey witness;
};

class LocalSigner final : public Signer {
 public:
  LocalSigner(std::string folder, Keys keys, State state)
      : folder_(std::move(folder)), keys_(std::move(keys)), state_(std::move(state)) {}

  Result<SignerInfo> info() override {
    const MutexLock lock(mutex_);
    return SignerInfo{
        state_.origin,
        {state_.origin, NoteKeyUse::kSign, keys_.log.public_key().raw()},
        {state_.origin + "/witness", NoteKeyUse::kCosign, keys_.witness.public_key().raw()},
        state_.own.head,
        state_.own_at};
  }

  Result<std::string> sign_head(const TreeHead& head, const Proof& proof, Timestamp at) override {
    const MutexLock lock(mutex_);
    const TreeHead& last = state_.own.head;
    if (head.size < last.size) return rolled_back(last, head, "is smaller than");
    if (head.size == last.size && last.size > 0 && head.root != last.root) {
      return rolled_back(last, head, "has another root than");
    }
    if (last.size > 0) FALAJ_TRY(crypto::verify_consistency(last, head, proof));
    const Checkpoint checkpoint{state_.origin,
                                head,
                                {"time " + std::to_string(std::max<std::int64_t>(
                                               seconds_of(at), seconds_of(state_.own_at)))}};
    Note note{crypto::to_body(checkpoint), {}};
    State next = state_;
    next.own.head = head;
    next.own_at = std::max(at, state_.own_at);
    FALAJ_TRY(remember(std::move(next)));
    note.signatures.push_back(FALAJ_TRY(crypto::sign_note(note.body, state_.origin, keys_.log)));
    return crypto::to_text(note);
  }

  Result<std::string> sign_manifest(const Sha256& manifest, Timestamp at) override {
    const MutexLock lock(mutex_);
    Note note{manifest_body(state_.origin, manifest, at), {}};
    note.signatures.push_back(FALAJ_TRY(crypto::sign_note(note.body, state_.origin, keys_.log)));
    return crypto::to_text(note);
  }

  Result<std::string> cosign(std::string_view text, const NoteKey& key, const Proof& proof,
                             Timestamp at) override {
    auto refused = [&](const std::string& why) {
      return Error(ErrorId::kWitnessRefused,
                   "the head of " + key.name + " is not cosigned: " + why);
    };
    const MutexLock lock(mutex_);
    auto note = crypto::parse_note(text);
    if (!note.ok()) return refused(note.error().message);
    const auto head = crypto::parse_body(note->body);
    if (!head.ok()) return refused(head.error().message);
    if (key.use != NoteKeyUse::kSign || key.name != head->origin) {
      return refused("the key is not the log's");
    }
    if (const auto valid = crypto::verify_note(*note, key); !valid.ok()) {
      return refused(valid.error().message);
    }
    const auto seen = state_.witnessed.find(head->origin);
    if (seen == state_.witnessed.end() && state_.witnessed.size() >= kWitnessedMax) {
      return refused("this witness watches as many logs as it can");
    }
    if (seen != state_.witnessed.end()) {
      if (seen->second.key != crypto::to_text(key)) return refused("the log's key has changed");
      const Status grown = crypto::verify_consistency(seen->second.head, head->head, proof);
      if (!grown.ok()) {
        return refused("it does not continue the head of " +
                       std::to_string(seen->second.head.size) + " entries seen before (" +
                       grown.error().message + ")");
      }
    }
    State next = state_;
    next.witnessed[head->origin] = Seen{crypto::to_text(key), head->head};
    FALAJ_TRY(remember(std::move(next)));
    note->signatures.push_back(FALAJ_TRY(crypto::cosign_note(note->body, state_.origin + "/witness",
                                                             keys_.witness, seconds_of(at))));
    return crypto::to_text(*note);
  }

  Result<TreeHead> witnessed(std::string_view origin) override {
    const MutexLock lock(mutex_);
    const auto seen = state_.witnessed.find(origin);
    if (seen == state_.witnessed.end()) return TreeHead{0, crypto::empty_root()};
    return seen->second.head;
  }

 private:
  // Durable before any signature leaves.
  Status remember(State next) FALAJ_REQUIRES(mutex_) {
    FALAJ_TRY(storage::write_small_file(folder_ + "/state.json", to_json(to_value(next))));
    state_ = std::move(next);
    return {};
  }

  const std::string folder_;
  const Keys keys_;
  Mutex mutex_;
  State state_ FALAJ_GUARDED_BY(mutex_);
};

Result<Keys> keys_from(std::string_view text) {
  const std::string_view border = "-----END PRIVATE KEY-----\n";
  const std::size_t cut = text.find(border);
  if (cut == std::string_view::npos) return unusable("its key file is damaged");
  PrivateKey log = FALAJ_TRY(PrivateKey::from_pem(text.substr(0, cut + border.size())));
  PrivateKey witness = FALAJ_TRY(PrivateKey::from_pem(text.substr(cut + border.size())));
  return Keys{std::move(log), std::move(witness)};
}

Result<Keys> make_keys(const LocalSignerOptions& options) {
  PrivateKey log = FALAJ_TRY(PrivateKey::generate(crypto::KeyType::kEd25519));
  PrivateKey witness = FALAJ_TRY(PrivateKey::generate(crypto::KeyType::kEd25519));
  std::string text = log.to_pem() + witness.to_pem();
  if (!options.wrapper.empty()) {
    const std::string sealed = crypto::seal(options.wrapper, text, kKeyAad);
    crypto::wipe(text);
    text = std::string(kSealedMark) + crypto::base64(sealed) + "\n";
  }
  const Status written = storage::write_small_file(options.folder + "/key", text);
  crypto::wipe(text);
  FALAJ_TRY(written);
  return Keys{std::move(log), std::move(witness)};
}

Result<Keys> read_keys(const LocalSignerOptions& options, std::string text) {
  if (!text.starts_with(kSealedMark)) {
    if (!options.wrapper.empty()) return unusable("its key file is not sealed");
    auto keys = keys_from(text);
    crypto::wipe(text);
    return keys;
  }
  if (options.wrapper.empty()) return unusable("its key file is sealed and no key opens it");
  std::string_view body = std::string_view(text).substr(kSealedMark.size());
  if (body.ends_with('\n')) body.remove_suffix(1);
  const auto sealed = crypto::from_base64(body);
  if (!sealed.ok()) return unusable("its key file is damaged");
  const auto plain = crypto::open_secret(options.wrapper, *sealed, kKeyAad);
  if (!plain.ok()) return unusable("its key file does not open: " + plain.error().message);
  return keys_from(plain->view());
}

}  // namespace

std::string manifest_body(std::string_view origin, const Sha256& manifest, Timestamp at) {
  return std::string(kManifestLine) + "\n" + std::string(origin) + "\nsha256 " + manifest.hex() +
         "\ntime " + std::to_string(seconds_of(at)) + "\n";
}

Result<std::unique_ptr<Signer>> open_local_signer(LocalSignerOptions options) {
  if (::mkdir(options.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return unusable(options.folder + ": " + std::strerror(errno));
  }
  if (options.origin.empty()) options.origin = "falaj/" + crypto::system_random().hex_id();
  if (!crypto::is_note_name(options.origin) || options.origin.starts_with("falaj-evidence/") ||
      options.origin.starts_with("cosignature/")) {
    return Error(ErrorId::kInvalidArgument,
                 "audit.origin '" + options.origin +
                     "' must be 1 to 200 printable characters without blanks or '+'");
  }
  auto key_file = storage::read_small_file(options.folder + "/key");
  auto state_file = storage::read_small_file(options.folder + "/state.json");
  const bool no_key = !key_file.ok() && key_file.error().code == Code::kNotFound;
  const bool no_state = !state_file.ok() && state_file.error().code == Code::kNotFound;
  if (no_key && no_state) {
    State fresh;
    fresh.origin = options.origin;
    fresh.own.head.root = crypto::empty_root();
    FALAJ_TRY(storage::write_small_file(options.folder + "/state.json", to_json(to_value(fresh))));
    Keys keys = FALAJ_TRY(make_keys(options));
    return std::unique_ptr<Signer>(
        std::make_unique<LocalSigner>(options.folder, std::move(keys), std::move(fresh)));
  }
  if (!state_file.ok()) return unusable("its state is gone: " + state_file.error().message);
  auto state = state_from(state_file->content);
  if (!state.ok()) return unusable("its state is damaged: " + state.error().message);
  // Stopped between its two first files: it has signed nothing yet.
  if (no_key && state->own.head.size == 0 && state->witnessed.empty()) {
    Keys keys = FALAJ_TRY(make_keys(options));
    return std::unique_ptr<Signer>(
        std::make_unique<LocalSigner>(options.folder, std::move(keys), std::move(state).value()));
  }
  if (!key_file.ok()) return unusable("its key is gone: " + key_file.error().message);
  if (key_file->readable_by == storage::ReadableBy::kOthers) {
    return unusable("its key file can be read by others: set mode 0600");
  }
  Keys keys = FALAJ_TRY(read_keys(options, std::move(key_file->content)));
  return std::unique_ptr<Signer>(
      std::make_unique<LocalSigner>(options.folder, std::move(keys), std::move(state).value()));
}

}  // namespace falaj::security
