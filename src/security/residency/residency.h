// security/residency/residency.h — may these bytes go there? The one pure answer, for every exit.
//
// Zones form a forest. A zone below another is stricter: data of `ae` may be anywhere in `ae`, in
// `ae-fin` (below it) too; data of `ae-fin` may only be in `ae-fin` and below. What is derived from
// several zones takes the strictest, if the others lie above it; otherwise it is refused. The only
// way across is an approved Transfer. Same input, same decision: the live system, the what-if and
// the tests call the same function.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "base/zone.h"
#include "security/residency/regime.h"

namespace falaj::security::residency {

// The ten ways by which bytes leave where they are.
enum class Exit : std::uint8_t {
  kWrite,      // Into a store: segments, training sets, models, online rows.
  kServe,      // To a caller: predictions, features, what is read through the API.
  kSchedule,   // To a machine that computes on them.
  kReplicate,  // Into a copy or a cache: a model in a serving process.
  kExport,     // To a caller, as a file: quarantines, logs of jobs, artifacts.
  kBackup,     // Into a folder or bucket.
  kWebhook,    // To another system, unasked.
  kMetric,     // As a label of a series.
  kLog,        // As a line.
  kDump,       // As the memory of a process that died.
};
inline constexpr std::size_t kExits = 10;
std::string_view exit_name(Exit exit);  // "write", "serve", …
Result<Exit> exit_from_name(std::string_view name);
std::span<const Exit> all_exits();

struct ZoneInfo {
  Zone zone;
  Zone parent;         // Unlabelled at a root.
  std::string regime;  // "" takes the parent's.
  Duration retention{};
};

// The declared zones with their regimes: a value, immutable once built.
class ZoneMap {
 public:
  ZoneMap() = default;
  // A zone whose parent is not declared, lies on a circle or is in another territory stands alone:
  // nothing that may be in its parent may be in it. A regime that is not known counts as one
  // without grounds.
  ZoneMap(std::vector<ZoneInfo> zones, std::vector<Regime> regimes);

  bool has(const Zone& zone) const { return zones_.contains(zone.name()); }
  const ZoneInfo* find(const Zone& zone) const;
  // From the zone itself to its root.
  std::vector<Zone> chain(const Zone& zone) const;
  // `inner` is `outer` or lies below it.
  bool holds(const Zone& outer, const Zone& inner) const;
  // The zone's own regime or the nearest above; nullptr when there is none.
  const Regime* regime_of(const Zone& zone) const;
  // The regimes of the zone and of all above it.
  std::vector<const Regime*> regimes_of(const Zone& zone) const;

  // Where what is derived from these may be: the one that all others lie above. FJ-7030 for an
  // unlabelled or undeclared one and for none at all, FJ-7031 naming two that do not go together.
  Result<Zone> strictest(const std::vector<Zone>& sources) const;
  // The longest lock of the zone, those above and their regimes; Timestamp::min() without any.
  Timestamp retention_until(const Zone& zone, Timestamp created) const;
  // The shortest of the regimes; 72 h where no regime says.
  Duration breach_deadline(const Zone& zone) const;

  const std::map<std::string, ZoneInfo, std::less<>>& zones() const { return zones_; }
  const std::map<std::string, Regime, std::less<>>& regimes() const { return regimes_; }

 private:
  void cut_bad_parents();
  std::map<std::string, ZoneInfo, std::less<>> zones_;
  std::map<std::string, Regime, std::less<>> regimes_;
};

// An approved way across, as declared by the Transfer object of a project.
struct Transfer {
  std::string project;
  std::string name;
  Zone from;
  Zone to;
  std::string ground;
  std::string purpose;                          // "" covers any.
  std::string exception;                        // The regime's code, where it demands one.
  std::map<std::string, std::string> evidence;  // Kind → id of the document.
  // "FeatureView/activity", or "FeatureView/*" for each and all of them; empty: all.
  std::vector<std::string> objects;
  std::vector<Exit> exits;  // Empty: all that a transfer can cover.
  Timestamp expires{};
  std::string approver;  // "" until somebody with transfers.approve approved this generation.
};

// What the regime of its origin asks for and the transfer does not bring: "stands on ground 'x',
// which is none of regime y (a, b)", in words that follow its name. "" when nothing is lacking.
std::string lacking(const Transfer& transfer, const ZoneMap& zones);
// Why the transfer would carry nothing now: not approved, expired, or not what the regime of its
// origin asks for. "" when it stands.
std::string unfit(const Transfer& transfer, const ZoneMap& zones, Timestamp now);

struct Flow {
  Exit exit = Exit::kWrite;
  std::string project;
  Zone data;
  Zone destination;
  std::string purpose;  // "" when none is declared.
  std::string object;   // "FeatureView/activity"
  std::int64_t bytes = 0;
};

struct Decision {
  bool allowed = false;
  ErrorId error = ErrorId::kZoneRefused;  // Of a refusal: FJ-7030, 7031 or 7032.
  std::string rule;                       // In words, for people: what allowed or refused it.
  std::string transfer;                   // The one it stands on; "" when it needed none.
};

// Never fails: what is unknown is refused. `transfers` may be of several projects; only those of
// the flow's project count. Metric labels, log lines and dumps cross under no transfer.
Decision decide(const Flow& flow, const ZoneMap& zones, std::span<const Transfer> transfers,
                Timestamp now);

// The refusal as an error: "export of FeatureView/x (zone ae-fin) to eu: <rule>".
Error refusal(const Flow& flow, const Decision& decision);

}  // namespace falaj::security::residency
