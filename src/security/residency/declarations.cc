#include "security/residency/declarations.h"

#include <algorithm>

#include "base/decode.h"

namespace falaj::security::residency {
namespace {

using storage::KindInfo;
using storage::Object;
using storage::Reference;
using storage::Scope;

std::string where(const Object& object) {
  std::string out = object.kind;
  if (!object.project.empty()) out += "/" + object.project;
  return out + "/" + object.name + " spec";
}

Result<std::vector<Exit>> exits_of(Fields& fields) {
  std::vector<Exit> exits;
  for (const std::string& name : FALAJ_TRY(fields.texts("exits"))) {
    const Result<Exit> exit = exit_from_name(name);
    if (!exit.ok()) return exit.error().within(fields.where());
    exits.push_back(*exit);
  }
  return exits;
}

Result<std::map<std::string, std::string>> evidence_of(Fields& fields) {
  std::map<std::string, std::string> out;
  const Value evidence = FALAJ_TRY(fields.object("evidence"));
  if (!evidence.is_object()) return out;
  for (const auto& [kind, id] : evidence.as_object()) {
    FALAJ_TRY(check_name("evidence", kind));
    if (!id.is_string() || id.as_string().empty() || id.as_string().size() > 200) {
      return Error(ErrorId::kWrongType, fields.where() + ": evidence '" + kind +
                                            "' must be the id of a document (1 to 200 characters)");
    }
    out[kind] = id.as_string();
  }
  return out;
}

Result<std::vector<Reference>> check_zone(const Object& object,
                                          const std::vector<Regime>& known_ones) {
  const ZoneInfo info = FALAJ_TRY(decode_zone(object));
  std::vector<std::string> regimes;
  for (const Regime& regime : known_ones) regimes.push_back(regime.name);
  const bool known = regimes.empty() || info.regime.empty() ||
                     std::find(regimes.begin(), regimes.end(), info.regime) != regimes.end();
  if (!known) {
    const std::string near = nearest_name(info.regime, regimes);
    return Error(
        ErrorId::kInvalidArgument,
        where(object) + ": regime '" + info.regime + "' is unknown" +
            (near.empty() ? "; `falaj zones regimes` lists them" : "; did you mean " + near + "?"));
  }
  if (!info.parent.labelled()) return std::vector<Reference>{};
  return std::vector<Reference>{{"Zone", "", info.parent.name()}};
}

// The zone and those above it, as they would stand.
Result<ZoneMap> zones_above(const std::string& zone, const storage::FindObject& find,
                            const std::vector<Regime>& regimes) {
  constexpr std::size_t kDepthMax = 64;  // A circle is refused elsewhere.
  std::vector<ZoneInfo> zones;
  const Object* at = find({"Zone", "", zone});
  while (at != nullptr && zones.size() < kDepthMax) {
    zones.push_back(FALAJ_TRY(decode_zone(*at)));
    at = zones.back().parent.labelled() ? find({"Zone", "", zones.back().parent.name()}) : nullptr;
  }
  return ZoneMap(std::move(zones), regimes);
}

// What could never be approved is not declared either.
Status check_transfer(const Object& object, const storage::FindObject& find,
                      const std::vector<Regime>& regimes) {
  if (regimes.empty()) return {};
  const Transfer transfer = FALAJ_TRY(decode_transfer(object));
  const ZoneMap zones = FALAJ_TRY(zones_above(transfer.from.name(), find, regimes));
  if (const Object* project = find({"Project", "", object.project})) {
    const Zone home(project->spec.text("zone"));
    if (home != transfer.from && !zones.holds(home, transfer.from)) {
      return Error(ErrorId::kInvalidArgument,
                   where(object) + ": the data of project '" + object.project + "' is in zone '" +
                       home.name() + "', so nothing of it crosses from '" + transfer.from.name() +
                       "': set 'from' to '" + home.name() + "'");
    }
  }
  const std::string missing = lacking(transfer, zones);
  if (missing.empty()) return {};
  const Regime* regime = zones.regime_of(transfer.from);
  return Error(
      ErrorId::kInvalidArgument,
      where(object) + " " + missing +
          (regime == nullptr ? "" : "; `falaj zones regimes " + regime->name + "` says more"));
}

Status never_changes(const Object& before, const Object& after, std::string_view field,
                     std::string_view instead) {
  const std::string old = before.spec.text(field);
  const std::string now = after.spec.text(field);
  if (old == now) return {};
  return Error(ErrorId::kImmutableField, where(after) + ": '" + std::string(field) + "' is '" +
                                             old + "' and cannot become '" + now +
                                             "': " + std::string(instead));
}

Status check_zone_change(const Object& before, const Object& after) {
  constexpr std::string_view kInstead =
      "data is kept under it; declare another zone and move by a Transfer";
  FALAJ_TRY(never_changes(before, after, "parent", kInstead));
  return never_changes(before, after, "regime", kInstead);
}

Status check_project_change(const Object& before, const Object& after) {
  return never_changes(before, after, "zone",
                       "its data carries that zone; declare another project in the other zone");
}

}  // namespace

Result<ZoneInfo> decode_zone(const Object& object) {
  Fields fields(object.spec, where(object));
  ZoneInfo info;
  info.zone = Zone(object.name);
  info.parent = Zone(FALAJ_TRY(fields.text("parent")));
  info.regime = FALAJ_TRY(fields.text("regime"));
  info.retention = FALAJ_TRY(fields.duration("retention", Duration{}));
  FALAJ_TRY(fields.finish());
  if (info.retention < Duration{}) {
    return Error(ErrorId::kOutOfRange, where(object) + ": 'retention' must not be negative");
  }
  return info;
}

Result<ProjectInfo> decode_project(const Object& object) {
  Fields fields(object.spec, where(object));
  ProjectInfo info;
  info.name = object.name;
  info.zone = Zone(FALAJ_TRY(fields.required_text("zone")));
  info.purpose = FALAJ_TRY(fields.text("purpose"));
  info.owners = FALAJ_TRY(fields.texts("owners"));
  info.legal_hold = FALAJ_TRY(fields.text("legal_hold"));
  const Value quota = FALAJ_TRY(fields.object("quota"));
  info.quota = FALAJ_TRY(decode_quota(quota, where(object) + " quota"));
  FALAJ_TRY(fields.finish());
  return info;
}

Result<Transfer> decode_transfer(const Object& object) {
  Fields fields(object.spec, where(object));
  Transfer out;
  out.project = object.project;
  out.name = object.name;
  out.from = Zone(FALAJ_TRY(fields.required_text("from")));
  out.to = Zone(FALAJ_TRY(fields.required_text("to")));
  out.ground = FALAJ_TRY(fields.required_text("ground"));
  out.purpose = FALAJ_TRY(fields.text("purpose"));
  out.exception = FALAJ_TRY(fields.text("exception"));
  out.evidence = FALAJ_TRY(evidence_of(fields));
  out.objects = FALAJ_TRY(fields.texts("objects"));
  out.exits = FALAJ_TRY(exits_of(fields));
  out.expires = FALAJ_TRY(parse_timestamp(FALAJ_TRY(fields.required_text("expires"))));
  FALAJ_TRY(fields.finish());
  if (out.from == out.to) {
    return Error(ErrorId::kInvalidArgument,
                 where(object) + ": 'from' and 'to' are both '" + out.to.name() + "'");
  }
  return out;
}

std::vector<KindInfo> kinds(std::vector<Regime> regimes) {
  const auto beside = [regimes](const Object& object, const storage::FindObject& find) {
    return check_transfer(object, find, regimes);
  };
  const auto zone = [regimes = std::move(regimes)](const Object& object) {
    return check_zone(object, regimes);
  };
  const auto project = [](const Object& object) -> Result<std::vector<Reference>> {
    const ProjectInfo info = FALAJ_TRY(decode_project(object));
    return std::vector<Reference>{{"Zone", "", info.zone.name()}};
  };
  const auto transfer = [](const Object& object) -> Result<std::vector<Reference>> {
    const Transfer decoded = FALAJ_TRY(decode_transfer(object));
    return std::vector<Reference>{{"Zone", "", decoded.from.name()},
                                  {"Zone", "", decoded.to.name()}};
  };
  return {
      {"Zone", Scope::kPlatform, "Where bytes may be: a place with a parent and a legal regime.",
       zone, check_zone_change},
      {"Project", Scope::kPlatform, "A tenant: what is shared by one team, inside one zone.",
       project, check_project_change},
      {"Transfer",
       Scope::kProject,
       "The only way across zones: ground, destination and expiry; counts once it is approved.",
       transfer,
       {},
       beside},
  };
}

}  // namespace falaj::security::residency
