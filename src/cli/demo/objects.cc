#include "cli/demo/objects.h"

namespace falaj::cli::demo {
namespace {

void fill(std::string& yaml, const std::string& mark, const std::string& text) {
  for (std::size_t at = yaml.find(mark); at != std::string::npos; at = yaml.find(mark, at)) {
    yaml.replace(at, mark.size(), text);
  }
}

}  // namespace

std::string in_project(const std::string& project, const std::string& objects) {
  std::string yaml = R"(
kind: Zone
metadata: {name: ae}
spec: {regime: uae-pdpl, retention: 5y}
---
kind: Project
metadata: {name: @P@}
spec: {zone: ae, purpose: fraud-prevention, owners: [user:dev]}
---)" + objects;
  fill(yaml, "@P@", project);
  return yaml;
}

std::string objects_yaml(const std::string& project, Timestamp train_from, Timestamp train_to) {
  std::string yaml = R"(
kind: Entity
metadata: {name: customer, project: @P@}
spec: {keys: [{name: customer_id, type: int64}]}
---
kind: Entity
metadata: {name: merchant, project: @P@}
spec: {keys: [{name: merchant_id, type: int64}]}
---
kind: Entity
metadata: {name: payment, project: @P@}
spec: {keys: [{name: customer_id, type: int64}, {name: merchant_id, type: int64}]}
---
kind: Source
metadata: {name: payments, project: @P@}
spec: {format: parquet, path: payments.parquet, event_time: at}
---
kind: Source
metadata: {name: merchants, project: @P@}
spec: {format: csv, path: merchants.csv, event_time: at}
---
kind: Source
metadata: {name: chargebacks, project: @P@}
spec: {format: parquet, path: chargebacks.parquet, event_time: at}
---
kind: FeatureView
metadata: {name: customer_activity, project: @P@, labels: {team: risk}}
spec:
  entity: customer
  source: payments
  ttl: 120d
  features:
    - {name: amount, type: float64, expect: {min: 0}}
    - {name: amount_ratio, type: float64, expect: {min: 0}}
    - {name: count_7d, type: int64, expect: {min: 0}}
    - {name: hours_since_last, type: float64}
    - {name: distance_km, type: float64, expect: {min: 0}}
    - {name: night, type: int64, expect: {min: 0, max: 1}}
---
kind: FeatureView
metadata: {name: merchant_profile, project: @P@, labels: {team: risk}}
spec:
  entity: merchant
  source: merchants
  ttl: 120d
  features:
    - {name: risk_score, type: float64, expect: {min: 0, max: 1}}
    - {name: ticket_mean, type: float64, expect: {min: 0}}
    - {name: online_share, type: float64, expect: {min: 0, max: 1}}
---
kind: FeatureView
metadata: {name: payment_labels, project: @P@}
spec:
  entity: payment
  source: chargebacks
  online: false
  features: [{name: is_fraud, type: int64, expect: {min: 0, max: 1, nulls_max: 0%}}]
---
kind: FeatureService
metadata: {name: fraud_v1, project: @P@}
spec: {features: [customer_activity, merchant_profile]}
---
kind: TrainingSet
metadata: {name: fraud, project: @P@}
spec:
  service: fraud_v1
  spine: {view: payment_labels, label: is_fraud, from: "@FROM@", to: "@TO@"}
  split: {by: customer_id, valid: 20%}
---
kind: Model
metadata: {name: fraud, project: @P@}
spec: {description: Probability that a card payment is fraud}
---
kind: TrainJob
metadata: {name: fraud_train, project: @P@}
spec:
  data: {training_set: fraud}
  engine: lightgbm
  params: {num_leaves: 31, rounds: 200, learning_rate: 0.08, early_stopping: 25, seed: 7}
  resources: {threads: 2, memory: 2Gi, time_max: 10m}
  register: {model: fraud, verify_rows: 100000}
---
kind: Deployment
metadata: {name: fraud, project: @P@}
spec: {model: fraud, alias: champion, features: fraud_v1}
---
kind: Monitor
metadata: {name: fraud_drift, project: @P@}
spec: {deployment: fraud, window: 4000 rows, drift: {method: psi, threshold: 0.2, of: 2 in 3}}
---
kind: Policy
metadata: {name: fraud_loop, project: @P@}
spec:
  on: drift
  monitor: fraud_drift
  retrain: {job: fraud_train, window: 15d, labels_min: 16000}
  gate: {metric: auc, window: 6d, no_worse_by: 0.002}
  then: promote
  max_per_week: 2
)";
  fill(yaml, "@FROM@", to_rfc3339(train_from));
  fill(yaml, "@TO@", to_rfc3339(train_to));
  return in_project(project, yaml);
}

}  // namespace falaj::cli::demo
