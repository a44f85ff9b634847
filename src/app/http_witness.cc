#include "app/http_witness.h"

#include "base/json.h"
#include "cli/connection.h"
#include "security/audit/wire.h"

namespace falaj::app {
namespace {

constexpr Duration kPatience = Duration::seconds(5);
constexpr std::size_t kShown = 300;  // Of the witness's own words.

class HttpWitness final : public security::Witness {
 public:
  explicit HttpWitness(const Peer& peer) : peer_(peer) {}

  Result<std::optional<std::string>> held(const std::string&) override {
    return std::optional<std::string>();  // It keeps sizes and roots, not notes: see seen().
  }

  Result<crypto::TreeHead> seen(const std::string& origin) override {
    const std::string path = "/api/v1/witness?origin=" + cli::url_encode(origin);
    return security::head_from(FALAJ_TRY(send(net::Method::kGet, path, "")));
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
  Result<Value> send(net::Method method, const std::string& path, const std::string& body) {
    const auto client = FALAJ_TRY(peer_.connect(kPatience));
    const net::ClientReply reply = FALAJ_TRY(client->send(method, path, body));
    if (reply.status == 200) return parse_json(reply.body);
    return Error(ErrorId::kWitnessRefused, "the witness " + peer_.url() + " answered " +
                                               std::to_string(reply.status) + ": " +
                                               reply.body.substr(0, kShown));
  }

  const Peer& peer_;
};

}  // namespace

std::unique_ptr<security::Witness> make_http_witness(const Peer& peer) {
  return std::make_unique<HttpWitness>(peer);
}

}  // namespace falaj::app
