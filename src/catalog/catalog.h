// catalog/catalog.h — the one door through which declared objects change.
//
// A change is checked by its kind's owner, its references are resolved, and it is written together
// with its audit entry; or nothing is.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "security/audit.h"
#include "security/context.h"
#include "security/residency/regime.h"
#include "storage/objects.h"

namespace falaj::catalog {

using storage::Object;
using storage::object_from_value;
using storage::to_value;

struct Applied {
  storage::Object object;
  storage::PutOutcome outcome = storage::PutOutcome::kUnchanged;
};
std::string_view outcome_name(storage::PutOutcome outcome);  // "created", "changed", "unchanged"

enum class Mode : std::uint8_t { kApply, kDryRun };

// Thread-safe.
class Catalog {
 public:
  // `kinds` of every module, Project and Zone included. `on_change` is told after each commit.
  Catalog(storage::SqlStore& sql, security::Audit& audit, const Clock& clock,
          std::vector<storage::KindInfo> kinds, std::function<void()> on_change);

  // All or nothing, in any order: references among the objects of one call count as present.
  // FJ-2002 unknown kind (with the nearest), FJ-2003 missing reference, FJ-2004 a cycle (its path),
  // FJ-2008 the same object twice in one call, and what the kind's checks say (FJ-2006 when a field
  // changes that may not), FJ-7033 when a TrainingSet or TrainJob declares another purpose than
  // its project, and FJ-7017 when a project would hold more objects than its quota.
  Result<std::vector<Applied>> apply(const security::RequestContext& context,
                                     const std::vector<storage::Object>& objects, Mode mode);
  Result<storage::Object> get(const std::string& kind, const std::string& project,
                              const std::string& name) const;
  Result<std::vector<storage::Object>> list(const std::string& kind,
                                            const std::string& project) const;
  // FJ-2005 naming what still refers to it.
  Status remove(const security::RequestContext& context, const std::string& kind,
                const std::string& project, const std::string& name);
  const std::vector<storage::KindInfo>& kinds() const { return kinds_; }

  // The zone of a project, as declared.
  Result<Zone> zone_of(const std::string& project) const;

 private:
  // What every object refers to, by "Kind/project/name".
  using Graph = std::map<std::string, std::vector<storage::Reference>, std::less<>>;
  const storage::KindInfo* find_kind(std::string_view kind) const;
  Result<Graph> stored_graph(storage::SqlTransaction& tx) const;
  Status check_change(storage::SqlTransaction& tx, const storage::KindInfo& kind,
                      const storage::Object& object) const;
  Status check_all(storage::SqlTransaction& tx, const std::vector<storage::Object>& objects) const;
  Status check_beside(storage::SqlTransaction& tx, const std::vector<storage::Object>& objects,
                      const Graph& graph) const;

  storage::SqlStore& sql_;
  security::Audit& audit_;
  const Clock& clock_;
  std::vector<storage::KindInfo> kinds_;
  std::function<void()> on_change_;
};

// Zone, Project and Transfer: the kinds that belong to no module. A Zone's regime must be one of
// `regimes`, unless there are none to compare with.
std::vector<storage::KindInfo> platform_kinds(
    std::vector<security::residency::Regime> regimes = {});

}  // namespace falaj::catalog
