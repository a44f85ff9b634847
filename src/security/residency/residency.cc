#include "security/residency/residency.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/decode.h"

namespace falaj::security::residency {
namespace {

struct ExitRow {
  Exit exit;
  std::string_view name;
};
constexpr std::array<ExitRow, kExits> kExitRows{{
    {Exit::kWrite, "write"},
    {Exit::kServe, "serve"},
    {Exit::kSchedule, "schedule"},
    {Exit::kReplicate, "replicate"},
    {Exit::kExport, "export"},
    {Exit::kBackup, "backup"},
    {Exit::kWebhook, "webhook"},
    {Exit::kMetric, "metric"},
    {Exit::kLog, "log"},
    {Exit::kDump, "dump"},
}};
constexpr std::array<Exit, kExits> kAllExits{
    Exit::kWrite,  Exit::kServe,   Exit::kSchedule, Exit::kReplicate, Exit::kExport,
    Exit::kBackup, Exit::kWebhook, Exit::kMetric,   Exit::kLog,       Exit::kDump};

// Side channels: nobody signs a contract for a label.
bool transfer_may_cover(Exit exit) {
  return exit != Exit::kMetric && exit != Exit::kLog && exit != Exit::kDump;
}

std::string quoted(const Zone& zone) { return "'" + zone.name() + "'"; }

bool covers_object(const Transfer& transfer, const std::string& object) {
  if (transfer.objects.empty()) return true;
  return std::any_of(transfer.objects.begin(), transfer.objects.end(), [&](const auto& pattern) {
    if (!pattern.ends_with("/*")) return pattern == object;
    const std::string_view kind = std::string_view(pattern).substr(0, pattern.size() - 2);
    return object == kind || object.starts_with(std::string(kind) + "/");
  });
}

bool covers_exit(const Transfer& transfer, Exit exit) {
  return transfer.exits.empty() ||
         std::find(transfer.exits.begin(), transfer.exits.end(), exit) != transfer.exits.end();
}

// Whether this transfer is meant for the flow at all.
bool is_about(const Transfer& transfer, const Flow& flow, const ZoneMap& zones) {
  return transfer.project == flow.project && transfer.from == flow.data &&
         zones.holds(transfer.to, flow.destination);
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out.empty() ? "it has none" : out;
}

// "" when it stands; otherwise what the regime still asks of it.
std::string lacking_for(const Regime& regime, const Transfer& transfer) {
  if (!regime.has_ground(transfer.ground)) {
    std::vector<std::string> grounds;
    for (const Ground& ground : regime.grounds) grounds.push_back(ground.name);
    return "stands on ground '" + transfer.ground + "', which is none of regime " + regime.name +
           " (" + joined(grounds) + ")";
  }
  for (const std::string& kind : regime.evidence) {
    const auto found = transfer.evidence.find(kind);
    if (found == transfer.evidence.end() || found->second.empty()) {
      return "lacks evidence '" + kind + "', which regime " + regime.name + " demands";
    }
  }
  if (!regime.exceptions.empty() && !regime.has_exception(transfer.exception)) {
    const std::string_view processing =
        regime.processing_abroad == ProcessingAbroad::kException
            ? ", without which storing and processing abroad are refused alike"
            : "";
    return "names exception '" + transfer.exception + "', which is none of regime " + regime.name +
           " (" + joined(regime.exceptions) + ")" + std::string(processing);
  }
  return "";
}

// "" when the transfer covers the flow now; otherwise why not.
std::string uncovered(const Transfer& transfer, const Flow& flow, const ZoneMap& zones,
                      Timestamp now) {
  std::string why = unfit(transfer, zones, now);
  if (!why.empty()) return why;
  if (!covers_exit(transfer, flow.exit)) {
    return "does not cover " + std::string(exit_name(flow.exit));
  }
  if (!covers_object(transfer, flow.object)) {
    return flow.object.empty() ? "is of named objects only: say which (--object KIND/NAME)"
                               : "does not name " + flow.object;
  }
  if (!transfer.purpose.empty() && transfer.purpose != flow.purpose) {
    return "is for purpose '" + transfer.purpose + "', not '" + flow.purpose + "'";
  }
  return "";
}

Decision refused(ErrorId error, std::string rule) { return {false, error, std::move(rule), ""}; }

std::string stay_rule(const Flow& flow, const ZoneMap& zones) {
  std::string rule = "data of zone " + quoted(flow.data) + " stays in " + quoted(flow.data) +
                     " and the zones below it";
  const Regime* regime = zones.regime_of(flow.data);
  if (regime != nullptr) rule += " (regime " + regime->name + ", " + regime->as_of + ")";
  return rule;
}

Decision decide_crossing(const Flow& flow, const ZoneMap& zones,
                         std::span<const Transfer> transfers, Timestamp now) {
  const std::string stay = stay_rule(flow, zones);
  if (!transfer_may_cover(flow.exit)) {
    return refused(ErrorId::kZoneRefused,
                   stay + "; no transfer covers a " + std::string(exit_name(flow.exit)));
  }
  std::string why;
  for (const Transfer& transfer : transfers) {
    if (!is_about(transfer, flow, zones)) continue;
    const std::string missing = uncovered(transfer, flow, zones, now);
    if (missing.empty()) {
      return {true, ErrorId::kZoneRefused,
              "Transfer " + transfer.name + " (ground " + transfer.ground + ", approved by " +
                  transfer.approver + ", until " + to_rfc3339(transfer.expires) + ")",
              transfer.name};
    }
    why += (why.empty() ? "" : "; ") + ("Transfer " + transfer.name) + " " + missing;
  }
  if (why.empty()) {
    return refused(ErrorId::kZoneRefused,
                   stay + "; no Transfer leads to " + quoted(flow.destination));
  }
  return refused(ErrorId::kTransferInvalid, stay + "; " + why);
}

}  // namespace

std::string_view exit_name(Exit exit) {
  for (const ExitRow& row : kExitRows) {
    if (row.exit == exit) return row.name;
  }
  return "unknown";
}

Result<Exit> exit_from_name(std::string_view name) {
  std::vector<std::string> names;
  for (const ExitRow& row : kExitRows) {
    if (row.name == name) return row.exit;
    names.emplace_back(row.name);
  }
  const std::string near = nearest_name(name, names);
  return Error(ErrorId::kInvalidArgument, "'" + std::string(name) + "' is no exit" +
                                              (near.empty() ? "" : "; did you mean " + near + "?"));
}

std::span<const Exit> all_exits() { return kAllExits; }

ZoneMap::ZoneMap(std::vector<ZoneInfo> zones, std::vector<Regime> regimes) {
  for (Regime& regime : regimes) {
    std::string name = regime.name;
    regimes_.insert_or_assign(std::move(name), std::move(regime));
  }
  for (ZoneInfo& info : zones) {
    if (!info.zone.labelled()) continue;
    std::string name = info.zone.name();
    zones_.insert_or_assign(std::move(name), std::move(info));
  }
  cut_bad_parents();
}

void ZoneMap::cut_bad_parents() {
  std::vector<std::string> bad;
  for (const auto& [name, info] : zones_) {
    if (!info.parent.labelled()) continue;
    // A walk that is longer than there are zones went round in a circle.
    std::size_t steps = 0;
    const ZoneInfo* at = &info;
    while (at != nullptr && at->parent.labelled() && steps <= zones_.size()) {
      at = find(at->parent);
      ++steps;
    }
    if (at == nullptr || steps > zones_.size()) bad.push_back(name);
  }
  for (const std::string& name : bad) zones_.find(name)->second.parent = Zone();
  bad.clear();
  for (const auto& [name, info] : zones_) {
    if (!info.parent.labelled() || info.regime.empty()) continue;
    const auto own = regimes_.find(info.regime);
    const Regime* above = regime_of(info.parent);
    if (own == regimes_.end() || above == nullptr) continue;
    if (own->second.territory != above->territory) bad.push_back(name);
  }
  for (const std::string& name : bad) zones_.find(name)->second.parent = Zone();
}

const ZoneInfo* ZoneMap::find(const Zone& zone) const {
  const auto found = zones_.find(zone.name());
  return found == zones_.end() ? nullptr : &found->second;
}

std::vector<Zone> ZoneMap::chain(const Zone& zone) const {
  std::vector<Zone> out;
  for (const ZoneInfo* at = find(zone); at != nullptr; at = find(at->parent)) {
    out.push_back(at->zone);
    if (!at->parent.labelled()) break;
  }
  return out;
}

bool ZoneMap::holds(const Zone& outer, const Zone& inner) const {
  if (!has(outer)) return false;
  for (const ZoneInfo* at = find(inner); at != nullptr; at = find(at->parent)) {
    if (at->zone == outer) return true;
    if (!at->parent.labelled()) return false;
  }
  return false;
}

const Regime* ZoneMap::regime_of(const Zone& zone) const {
  for (const Zone& at : chain(zone)) {
    const ZoneInfo* info = find(at);
    if (info->regime.empty()) continue;
    const auto found = regimes_.find(info->regime);
    return found == regimes_.end() ? nullptr : &found->second;
  }
  return nullptr;
}

std::vector<const Regime*> ZoneMap::regimes_of(const Zone& zone) const {
  std::vector<const Regime*> out;
  for (const Zone& at : chain(zone)) {
    const auto found = regimes_.find(find(at)->regime);
    if (found != regimes_.end()) out.push_back(&found->second);
  }
  return out;
}

Result<Zone> ZoneMap::strictest(const std::vector<Zone>& sources) const {
  if (sources.empty()) {
    return Error(ErrorId::kZoneMissing,
                 "data derived from no source has no zone: name at least one source");
  }
  Zone strict = sources.front();
  for (const Zone& zone : sources) {
    if (!zone.labelled()) {
      return Error(ErrorId::kZoneMissing,
                   "one source has no zone: label it before anything is derived from it");
    }
    if (!has(zone)) {
      return Error(ErrorId::kZoneMissing, "zone " + quoted(zone) + " of a source is not declared");
    }
    if (holds(zone, strict)) continue;
    if (!holds(strict, zone)) {
      return Error(ErrorId::kZoneRefused,
                   "data of zone " + quoted(strict) + " and of zone " + quoted(zone) +
                       " may not be combined: neither lies inside the other");
    }
    strict = zone;
  }
  return strict;
}

Timestamp ZoneMap::retention_until(const Zone& zone, Timestamp created) const {
  Duration longest{};
  for (const Zone& at : chain(zone)) longest = std::max(longest, find(at)->retention);
  for (const Regime* regime : regimes_of(zone)) longest = std::max(longest, regime->retention);
  return longest > Duration{} ? created + longest : Timestamp::min();
}

Duration ZoneMap::breach_deadline(const Zone& zone) const {
  Duration shortest = Duration::hours(72);
  for (const Regime* regime : regimes_of(zone)) {
    shortest = std::min(shortest, regime->breach_deadline);
  }
  return shortest;
}

std::string lacking(const Transfer& transfer, const ZoneMap& zones) {
  const Regime* regime = zones.regime_of(transfer.from);
  if (regime != nullptr) return lacking_for(*regime, transfer);
  // A regime that is named but not known allows nothing; none at all leaves it to the approver.
  for (const Zone& zone : zones.chain(transfer.from)) {
    const std::string& named = zones.find(zone)->regime;
    if (!named.empty()) return "stands on unknown regime " + named;
  }
  return transfer.ground.empty() ? "names no ground" : "";
}

std::string unfit(const Transfer& transfer, const ZoneMap& zones, Timestamp now) {
  std::string missing = lacking(transfer, zones);
  if (now >= transfer.expires) return "expired on " + to_rfc3339(transfer.expires);
  if (transfer.approver.empty()) return "is not approved" + (missing.empty() ? "" : ", " + missing);
  return missing;
}

Decision decide(const Flow& flow, const ZoneMap& zones, std::span<const Transfer> transfers,
                Timestamp now) {
  if (!flow.data.labelled()) {
    return refused(ErrorId::kZoneMissing,
                   "the data carries no zone, and unlabelled data is "
                   "refused at every exit");
  }
  if (!zones.has(flow.data)) {
    return refused(ErrorId::kZoneMissing,
                   "zone " + quoted(flow.data) + " of the data is not declared");
  }
  if (!flow.destination.labelled()) {
    return refused(ErrorId::kZoneRefused, "the destination declares no zone");
  }
  if (!zones.has(flow.destination)) {
    return refused(ErrorId::kZoneRefused,
                   "zone " + quoted(flow.destination) + " of the destination is not declared");
  }
  if (zones.holds(flow.data, flow.destination)) {
    // The common case, on every request: fifteen letters need no memory.
    if (flow.data == flow.destination) return {true, ErrorId::kZoneRefused, "in its own zone", ""};
    return {true, ErrorId::kZoneRefused,
            "zone " + quoted(flow.destination) + " lies inside " + quoted(flow.data), ""};
  }
  return decide_crossing(flow, zones, transfers, now);
}

Error refusal(const Flow& flow, const Decision& decision) {
  const std::string what = flow.object.empty() ? "data" : flow.object;
  const std::string from = flow.data.labelled() ? "zone " + flow.data.name() : "no zone";
  const std::string to =
      flow.destination.labelled() ? flow.destination.name() : std::string("an undeclared place");
  return Error(decision.error, std::string(exit_name(flow.exit)) + " of " + what + " (" + from +
                                   ") to " + to + ": " + decision.rule);
}

}  // namespace falaj::security::residency
