// registry/retrain_due.h — versions that learned from data which has been destroyed since.
//
// Erasing rows does not erase what a model learned from them: such a version is marked until it is
// replaced. The mark changes nothing about the version, which is immutable.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/value.h"
#include "security/audit.h"
#include "security/context.h"
#include "storage/sql.h"

namespace falaj::registry {

struct RetrainMark {
  std::string model;
  std::int64_t version = 0;
  Timestamp since{};
  std::string cause;  // Of the first that marked it: "Key/payments/TrainingSet/fraud_2026"
};
Value to_value(const RetrainMark& mark);

extern const storage::Migration kRetrainDueMigration;

// Thread-safe.
class RetrainDue {
 public:
  RetrainDue(storage::SqlStore& sql, security::Audit& audit, const Clock& clock);

  // Marks every version that was trained on one of the frozen sets (manifest ids) of the context's
  // project, each with an audit entry `model.retrain_due`. Those that were marked before stay as
  // they are and are returned too: safe to repeat.
  Result<std::vector<RetrainMark>> mark(const security::RequestContext& context,
                                        const std::vector<std::string>& training_sets,
                                        const std::string& cause);
  // By version.
  Result<std::map<std::int64_t, RetrainMark>> of(const ProjectName& project,
                                                 const std::string& model) const;

 private:
  storage::SqlStore& sql_;
  security::Audit& audit_;
  const Clock& clock_;
};

}  // namespace falaj::registry
