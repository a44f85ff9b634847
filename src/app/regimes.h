// app/regimes.h — the regimes that the program carries (data/regimes/*.yaml).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "security/residency/regime.h"

namespace falaj::app {

struct EmbeddedText {
  std::string_view name;  // "gdpr.yaml"
  std::string_view text;
};
// Made by tools/embed_texts.py when the program is built.
std::span<const EmbeddedText> regime_texts();

// Read strictly; a test holds every file to it, so that at run time this stops on the first error
// (a broken build). One regime a file, named as the file.
Result<std::vector<security::residency::Regime>> parse_regimes(std::span<const EmbeddedText> texts);
const std::vector<security::residency::Regime>& built_in_regimes();

}  // namespace falaj::app
