#include <limits.h>
#include <stdlib.h>

#include "app/libraries.h"
#include "app/wiring.h"
#include "base/json.h"
#include "base/log.h"
#include "crypto/aead.h"
#include "net/client.h"
#include "security/audit/child_signer.h"
#include "security/audit/wire.h"

namespace falaj::app {
namespace {

constexpr std::string_view kFileScheme = "file://";

// Openings of commitments, sealed with a key of their own under the machine's.
class KeyedOpenings final : public security::OpeningVault {
 public:
  explicit KeyedOpenings(crypto::SecretBytes key) : key_(std::move(key)) {}
  Result<std::string> seal(const std::string& project, std::string_view about,
                           std::string_view plaintext) override {
    return crypto::seal(key_, plaintext, aad(project, about));
  }
  Result<std::string> open(const std::string& project, std::string_view about,
                           std::string_view sealed) override {
    return crypto::open(key_, sealed, aad(project, about));
  }

 private:
  static std::string aad(const std::string& project, std::string_view about) {
    return crypto::Tlv("falaj/v1/audit-opening").add(project).add(about).str();
  }
  const crypto::SecretBytes key_;
};

// Another Falaj that cosigns over HTTPS.
class HttpWitness final : public security::Witness {
 public:
  explicit HttpWitness(std::string url) : url_(std::move(url)) {}

  Result<std::optional<std::string>> held(const std::string&) override {
    return std::optional<std::string>();  // It keeps sizes and roots, not notes: see submit().
  }

  Result<std::uint64_t> seen(const std::string& origin) override {
    const Value reply =
        FALAJ_TRY(send(net::Method::kGet, "/api/v1/witness?origin=" + encode(origin), ""));
    return static_cast<std::uint64_t>(reply.integer("size"));
  }

  Result<std::optional<std::string>> submit(const security::SignedHead& head,
                                            const crypto::NoteKey& key, std::uint64_t,
                                            const crypto::Proof& proof) override {
    Value body;
    body["checkpoint"] = head.note;
    body["key"] = crypto::to_text(key);
    body["proof"] = security::proof_value(proof);
    const Value reply = FALAJ_TRY(send(net::Method::kPost, "/api/v1/witness", to_json(body)));
    return std::optional<std::string>(reply.text("checkpoint"));
  }

 private:
  static std::string encode(const std::string& origin) {
    std::string out;
    for (const char c : origin) out += c == '/' ? std::string("%2F") : std::string(1, c);
    return out;
  }

  Result<Value> send(net::Method method, const std::string& path, const std::string& body) {
    net::ClientOptions options;
    options.base_url = url_;
    options.request_timeout = Duration::seconds(5);
    options.reply_bytes_max = 1 << 20;
    const auto client = FALAJ_TRY(net::Client::create(options));
    const net::ClientReply reply = FALAJ_TRY(client->send(method, path, body));
    if (reply.status != 200) {
      return Error(ErrorId::kWitnessRefused, "the witness " + url_ + " answered " +
                                                 std::to_string(reply.status) + ": " +
                                                 reply.body.substr(0, 300));
    }
    return parse_json(reply.body);
  }

  const std::string url_;
};

Result<std::unique_ptr<security::Witness>> make_witness(const std::string& setting) {
  std::unique_ptr<security::Witness> none;
  if (setting.empty()) return none;
  if (setting.starts_with(kFileScheme)) {
    return security::make_file_witness(setting.substr(kFileScheme.size()));
  }
  if (setting.starts_with("https://") || setting.starts_with("http://127.0.0.1:")) {
    return std::unique_ptr<security::Witness>(std::make_unique<HttpWitness>(setting));
  }
  return Error(
      ErrorId::kInvalidArgument,
      "audit.witness '" + setting + "' must be a folder (file:///…) or another Falaj (https://…)");
}

std::string absolute(const std::string& folder) {
  char resolved[PATH_MAX];
  return realpath(folder.c_str(), resolved) == nullptr ? folder : std::string(resolved);
}

}  // namespace

Result<AuditTrail> wire_audit(const Options& options, Storage& storage, const Clock& clock) {
  AuditTrail trail;
  crypto::SecretBytes opening_key = FALAJ_TRY(storage.keys.tree->store_key("audit-openings"));
  trail.openings = std::make_unique<KeyedOpenings>(std::move(opening_key));
  storage.audit->set_openings(trail.openings.get());
  const std::string folder = absolute(options.data_folder);
  security::ChildSignerOptions signer;
  signer.program = program_path();
  signer.folder = folder + "/signer";
  signer.origin = options.audit.origin;
  signer.wrapper = FALAJ_TRY(storage.keys.tree->store_key("audit-signer"));
  signer.log_path = folder + "/signer.log";
  trail.signer = FALAJ_TRY(security::start_child_signer(std::move(signer)));
  const security::SignerInfo info = FALAJ_TRY(trail.signer->info());
  storage.audit->set_log_key(info.log_key);
  trail.witness = FALAJ_TRY(make_witness(options.audit.witness));
  trail.heads = std::make_unique<security::Heads>(*storage.sql, *storage.audit, *trail.signer,
                                                  clock, trail.witness.get());
  trail.journal = std::make_unique<security::AccessJournal>(*storage.audit, clock);
  std::string warning;
  FALAJ_TRY(trail.heads->check_start(&warning));
  if (!warning.empty()) log::warn("audit", {{"witness", warning}});
  return trail;
}

}  // namespace falaj::app
