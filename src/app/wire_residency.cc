#include "app/regimes.h"
#include "app/wiring.h"

namespace falaj::app {
namespace {

// "ae-fin, ae-health": where this machine stands.
std::vector<Zone> zones_of_text(const std::string& text) {
  std::vector<Zone> out;
  std::string name;
  for (const char c : text + ",") {
    if (c == ',') {
      if (!name.empty()) out.emplace_back(std::move(name));
      name.clear();
    } else if (c != ' ') {
      name.push_back(c);
    }
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<security::residency::Exits>> wire_exits(const Options& options,
                                                               Storage& storage,
                                                               const Clock& clock) {
  security::residency::ExitOptions chosen;
  chosen.regimes = built_in_regimes();
  chosen.machine = zones_of_text(options.machine_zones);
  auto exits = std::make_unique<security::residency::Exits>(*storage.sql, *storage.audit, clock,
                                                            std::move(chosen));
  FALAJ_TRY(exits->refresh());
  return exits;
}

}  // namespace falaj::app
