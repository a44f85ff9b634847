// security/residency/regime.h — what a law or a regulator's rule book asks of data, as data.
//
// Regimes come from files (data/regimes/*.yaml, built into the program), each dated and with its
// sources. They are an engineer's reading and not legal advice: a firm reviews them with counsel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/value.h"

namespace falaj::security::residency {

// Whether work on a copy abroad (training, predictions) is refused like storing it there.
enum class ProcessingAbroad : std::uint8_t { kUnderTransfer, kException };
// What holds for a caller that declared no zone.
enum class UndeclaredClients : std::uint8_t { kAtThisMachine, kRefused };

struct Ground {
  std::string name;     // "contract", "explicit-consent"
  std::string meaning;  // In our own words.
};

struct Regime {
  std::string name;       // "cbuae-consumer"
  std::string title;      // "Central Bank of the UAE: consumer protection standards"
  std::string territory;  // "AE": zones below one another have the same.
  std::string as_of;      // "2026-11-16": when the sources were read.
  std::string notice;     // Begins with "Not legal advice".
  std::vector<std::string> sources;
  std::vector<std::string> conflicts;   // Where sources disagree or could not be confirmed.
  Duration retention{};                 // At least this long; zero: no lock.
  Duration breach_deadline{};           // Always given.
  std::vector<Ground> grounds;          // On which a transfer may stand; empty: on none.
  std::vector<std::string> evidence;    // Ids a transfer must name, by kind: "regulator-approval".
  std::vector<std::string> exceptions;  // Codes; when there are any, a transfer must name one.
  ProcessingAbroad processing_abroad = ProcessingAbroad::kUnderTransfer;
  UndeclaredClients undeclared_clients = UndeclaredClients::kAtThisMachine;

  bool has_ground(const std::string& ground) const;
  bool has_exception(const std::string& code) const;
};

// Strict: an unknown or missing field, an empty list of sources, a notice that does not say "Not
// legal advice", a date that is none: the error names the regime and the field. `where` begins the
// message.
Result<Regime> regime_from_value(const Value& value, const std::string& where);
Value to_value(const Regime& regime);

}  // namespace falaj::security::residency
