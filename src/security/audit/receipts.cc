#include "security/audit/receipts.h"

#include <algorithm>

#include "crypto/base64.h"

namespace falaj::security {
namespace {

constexpr Duration kLifetime = Duration::hours(1);
// Clocks of callers and servers differ by less.
constexpr Duration kEarlier = Duration::minutes(1);

std::string_view form_name(HashedForm form) {
  switch (form) {
    case HashedForm::kBody:
      return "body";
    case HashedForm::kMessage:
      return "message";
    case HashedForm::kRawOutputs:
      return "raw-outputs";
  }
  return "body";
}

// One word: what a caller chose must not become a line of its own.
std::string word(std::string_view text) {
  const bool fine =
      !text.empty() && text.size() <= 1024 &&
      std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  return fine ? std::string(text) : "-";
}

std::int64_t seconds_of(Timestamp at) { return at.nanos / 1'000'000'000; }

std::string body_of(const ReceiptFacts& facts, std::string_view origin, Timestamp at) {
  const auto line = [](std::string_view name, const std::string& value) {
    return std::string(name) + " " + value + "\n";
  };
  const auto hashed = [](HashedForm form, const Sha256& hash) {
    return std::string(form_name(form)) + " " + hash.hex();
  };
  const std::string features = facts.features.empty() ? "-"
                                                      : word(facts.features) + " " +
                                                            std::to_string(facts.first_commit) +
                                                            "-" + std::to_string(facts.last_commit);
  return "falaj-receipt/v1\n" + std::string(origin) + "\n" + line("project", word(facts.project)) +
         line("deployment", word(facts.deployment)) + line("model", word(facts.model)) +
         line("version", std::to_string(facts.version)) + line("onnx", word(facts.onnx)) +
         line("features", features) + line("asked", hashed(facts.asked_form, facts.asked)) +
         line("answered", hashed(facts.answered_form, facts.answered)) +
         line("id", word(facts.request_id)) + line("at", std::to_string(at.nanos / 1'000'000));
}

}  // namespace

std::string key_document(std::string_view origin, std::string_view key_line) {
  return "falaj-receipt-key/v1\n" + std::string(origin) + "\n" + std::string(key_line) + "\n";
}

Result<Receipts::Current> Receipts::certified(Timestamp now) {
  Current next;
  const SignerInfo info = FALAJ_TRY(signer_.info());
  next.origin = info.origin;
  next.key = std::make_shared<const crypto::PrivateKey>(
      FALAJ_TRY(crypto::PrivateKey::generate(crypto::KeyType::kEd25519)));
  next.from = now - kEarlier;
  next.until = now + kLifetime;
  next.key_line = "key " + crypto::base64(next.key->public_key().raw()) + " " +
                  std::to_string(seconds_of(next.from)) + " " +
                  std::to_string(seconds_of(next.until));
  next.certificate =
      FALAJ_TRY(signer_.sign_manifest(sha256(key_document(next.origin, next.key_line)), now));
  return next;
}

Status Receipts::tick(const SignedHead& head) {
  const Timestamp now = clock_.now();
  const std::shared_ptr<const Current> before = current_.load();
  const bool fresh = before != nullptr && now >= before->from &&
                     now + Duration{kLifetime.nanos / 2} < before->until;
  Current next;
  if (fresh) {
    next = *before;
  } else {
    next = FALAJ_TRY(certified(now));
  }
  crypto::Note note = FALAJ_TRY(crypto::parse_note(head.note));
  // Cosignatures are for others to check; in a receipt every byte is checked.
  std::erase_if(note.signatures, [&](const auto& each) { return each.name != next.origin; });
  next.head_line = "log " + std::to_string(head.head.size) + " " +
                   crypto::base64(std::string_view(
                       reinterpret_cast<const char*>(head.head.root.bytes.data()), 32));
  next.head = crypto::to_text(note);
  current_.replace(std::make_shared<const Current>(std::move(next)));
  return {};
}

Result<std::shared_ptr<const Receipts::Current>> Receipts::current() const {
  std::shared_ptr<const Current> now = current_.load();
  const bool usable = now != nullptr && clock_.now() >= now->from && clock_.now() < now->until;
  if (usable) return now;
  return Error(ErrorId::kSignerUnavailable,
               "no receipt can be given: the audit signer has not vouched for a key yet; ask again "
               "later, or without a receipt");
}

Status Receipts::ready() const {
  FALAJ_TRY(current());
  return {};
}

Result<std::string> Receipts::issue(const ReceiptFacts& facts) const {
  const std::shared_ptr<const Current> now = FALAJ_TRY(current());
  crypto::Note note;
  note.body =
      body_of(facts, now->origin, clock_.now()) + now->head_line + "\n" + now->key_line + "\n";
  note.signatures.push_back(
      FALAJ_TRY(crypto::sign_note(note.body, now->origin + "/receipts", *now->key)));
  return crypto::base64(crypto::to_text(note)) + "." + crypto::base64(now->certificate) + "." +
         crypto::base64(now->head);
}

}  // namespace falaj::security
