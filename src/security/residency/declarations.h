// security/residency/declarations.h — Zone, Project and Transfer as people declare them.
#pragma once

#include <string>
#include <vector>

#include "security/quota/quota.h"
#include "security/residency/residency.h"
#include "storage/objects.h"

namespace falaj::security::residency {

// kind: Zone   spec: {parent: ae, regime: cbuae-consumer, retention: 5y}
Result<ZoneInfo> decode_zone(const storage::Object& object);

// kind: Project
// spec: {zone: ae-fin, purpose: fraud-prevention, owners: [group:risk], legal_hold: "case 17",
//        quota: {objects: 200, storage: 10Gi, jobs: 4, predictions_per_second: 500}}
struct ProjectInfo {
  std::string name;
  Zone zone;
  std::string purpose;  // "": any.
  std::vector<std::string> owners;
  std::string legal_hold;  // Why nothing may be erased; "" when nothing holds it.
  Quota quota;
};
Result<ProjectInfo> decode_project(const storage::Object& object);

// kind: Transfer, of the project whose data crosses.
// spec: {from: ae-fin, to: eu, ground: central-bank-approval, exception: …, purpose: …,
//        evidence: {regulator-approval: CB-17}, objects: [FeatureView/*], exits: [export],
//        expires: 2027-01-01T00:00:00Z}
// Without its approval, which is no part of the declaration.
Result<Transfer> decode_transfer(const storage::Object& object);

// The three kinds. A Zone's regime must be one of `regimes`, unless there are none to compare with;
// a Transfer must bring what the regime of its origin asks for, as far as that can be declared.
// Never changed once applied (FJ-2006): a Zone's parent and regime, a Project's zone. What was
// stored under them was stored because of them.
std::vector<storage::KindInfo> kinds(std::vector<Regime> regimes);

}  // namespace falaj::security::residency
