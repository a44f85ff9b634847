#include "app/regimes.h"

#include "base/check.h"
#include "config/yaml.h"

namespace falaj::app {

using security::residency::Regime;

Result<std::vector<Regime>> parse_regimes(std::span<const EmbeddedText> texts) {
  std::vector<Regime> out;
  for (const EmbeddedText& file : texts) {
    const std::string where(file.name);
    const Result<std::vector<Value>> documents = config::parse_yaml(file.text);
    if (!documents.ok()) return documents.error().within(where);
    if (documents->size() != 1) {
      return Error(ErrorId::kMalformedYaml, where + ": one document with one regime is wanted");
    }
    Regime regime =
        FALAJ_TRY(security::residency::regime_from_value(documents.value().front(), where));
    if (regime.name + ".yaml" != where) {
      return Error(ErrorId::kInvalidName, where + ": holds a regime named '" + regime.name + "'");
    }
    out.push_back(std::move(regime));
  }
  return out;
}

const std::vector<Regime>& built_in_regimes() {
  static const std::vector<Regime> regimes = [] {
    Result<std::vector<Regime>> parsed = parse_regimes(regime_texts());
    FALAJ_CHECK(parsed.ok());
    return std::move(parsed).value();
  }();
  return regimes;
}

}  // namespace falaj::app
