#include "security/sealed/openings.h"

#include <utility>

#include "crypto/aead.h"

namespace falaj::security::sealed {
namespace {

constexpr std::string_view kPurpose = "audit-openings";
constexpr std::size_t kZoneMax = 255;

// A sealed text begins with the length and the name of the zone whose key it is under: none for the
// machine's. A project's zone never changes, but the project may be gone when it is opened.
class KeyedOpenings final : public OpeningVault {
 public:
  KeyedOpenings(keys::KeyTree& keys, std::function<Zone(const std::string&)> zone_of,
                crypto::SecretBytes machine)
      : keys_(keys), zone_of_(std::move(zone_of)), machine_(std::move(machine)) {}

  Result<std::string> seal(const std::string& project, std::string_view about,
                           std::string_view plaintext) override {
    const Zone zone = project.empty() ? Zone() : zone_of_(project);
    const std::string& name = zone.name();
    if (name.empty() || name.size() > kZoneMax) {
      return std::string(1, '\0') + crypto::seal(machine_, plaintext, aad(project, "", about));
    }
    const keys::SharedKey key = FALAJ_TRY(keys_.stable_key(scope(project, zone)));
    return static_cast<char>(name.size()) + name +
           crypto::seal(*key, plaintext, aad(project, name, about));
  }

  Result<std::string> open(const std::string& project, std::string_view about,
                           std::string_view sealed) override {
    const std::size_t length = sealed.empty() ? 0 : static_cast<unsigned char>(sealed.front());
    if (sealed.size() < 1 + length) return crypto::decrypt_failed();
    const std::string zone(sealed.substr(1, length));
    sealed.remove_prefix(1 + length);
    if (zone.empty()) return crypto::open(machine_, sealed, aad(project, "", about));
    const keys::SharedKey key = FALAJ_TRY(keys_.stable_key(scope(project, Zone(zone))));
    return crypto::open(*key, sealed, aad(project, zone, about));
  }

 private:
  static keys::KeyScope scope(const std::string& project, const Zone& zone) {
    return {project, zone, "", "", std::string(kPurpose)};
  }
  static std::string aad(const std::string& project, std::string_view zone,
                         std::string_view about) {
    return crypto::Tlv("falaj/v1/audit-opening").add(project).add(zone).add(about).str();
  }

  keys::KeyTree& keys_;
  const std::function<Zone(const std::string&)> zone_of_;
  const crypto::SecretBytes machine_;
};

}  // namespace

Result<std::unique_ptr<OpeningVault>> seal_openings(
    keys::KeyTree& keys, std::function<Zone(const std::string& project)> zone_of) {
  crypto::SecretBytes machine = FALAJ_TRY(keys.store_key(kPurpose));
  return std::unique_ptr<OpeningVault>(
      std::make_unique<KeyedOpenings>(keys, std::move(zone_of), std::move(machine)));
}

}  // namespace falaj::security::sealed
