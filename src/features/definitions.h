// features/definitions.h — Entity, Source, FeatureView, FeatureService and TrainingSet as declared.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "features/leakage.h"
#include "storage/kv.h"
#include "storage/objects.h"
#include "table/io.h"
#include "table/schema.h"

namespace falaj::features {

// kind: Entity   spec: {keys: [{name: customer_id, type: int64}], subject_keys: true}
struct Entity {
  std::string name;
  std::vector<table::Field> keys;  // int64 or string; at least one.
  // Each is a person: online rows are sealed under a key for each, which erasure destroys.
  storage::RowKey row_key = storage::RowKey::kOwners;
};

// kind: Source   spec: {format: parquet, path: data/tx/, event_time: at, created_time: loaded_at}
struct Source {
  std::string name;
  table::Format format = table::Format::kParquet;
  std::string path;  // Read by the client that ingests; the server never opens it.
  std::string event_time;
  std::string created_time;  // "" when the source has none.
};

// What becomes of rows that break an expectation.
enum class Severity : std::uint8_t {
  kBlock,  // They do not come in: each is kept in quarantine with the reason.
  kWarn,   // They come in, and are counted in the report.
};

// expect: {min: 0, max: 1e6, nulls_max: 0.1%, severity: block}
struct Expectation {
  std::optional<double> min;
  std::optional<double> max;
  double nulls_max = 1.0;  // Share of an ingest; 0 makes each null row a bad row.
  Severity severity = Severity::kBlock;
};

// expect: [{name: refunds, expr: "amount >= 0 or refunded", severity: warn, broken_max: 1%},
//          {unique: [payment_id]}]
// A row breaks it where the expression (docs/reference/expressions.md) over the row's keys, times
// and features is false; null is not. With `unique`: where a row before it, of the same file or
// push, has the same values in these columns; a row with a null in one of them is like no other.
struct RowExpectation {
  std::string name;  // The expression itself when none was given; of `unique` "unique a, b".
  std::string expr;
  std::vector<std::string> unique{};  // Instead of `expr`.
  Severity severity = Severity::kBlock;
  double broken_max = 1.0;  // Past this share of an ingest nothing of it is taken.
};

struct Feature {
  std::string name;
  table::Type type = table::Type::kFloat64;
  Expectation expect;
};

// {name: ratio, type: float64, expr: "amount / max(mean, 1)"}: computed whenever it is read, by the
// same code when a training set is frozen and online; see docs/reference/expressions.md.
struct ComputedFeature {
  std::string name;
  table::Type type = table::Type::kFloat64;
  std::string expr;
};

enum class AggregateFunction : std::uint8_t {
  kCount,     // Rows, or values that are not null: int64.
  kSum,       // Exact, rounded once; of int64 an int64, null past its range.
  kMean,      // The sum as a float64 by the number of values.
  kVar,       // Of a sample (n − 1); null below two values.
  kMin,       // Of int64, float64 and timestamp.
  kMax,       //
  kFirst,     // The oldest value, of any type.
  kLast,      // The newest.
  kDistinct,  // How many different values there are, counted exactly: int64.
  kQuantile,  // Exact, between two values by linear interpolation.
};

// aggregate: {sum: amount, window: 7d}, {count: "*", window: 1h}, {quantile: amount, q: 0.9,
// window: 1d} Over the events of the key with at − window < event time ≤ at:
// docs/reference/windows.md.
struct Aggregate {
  AggregateFunction function = AggregateFunction::kCount;
  table::Field of{};  // A feature that rows bring; without a name: the rows themselves.
  Duration window{};
  double q = 0;  // Of a quantile, from 0 to 1.
  bool operator==(const Aggregate&) const = default;
};
struct AggregatedFeature {
  std::string name;
  table::Type type = table::Type::kFloat64;
  Aggregate aggregate{};
};

enum class OnlineUse : std::uint8_t { kOffline, kOnline };

// kind: FeatureView   spec: {entity, source, ttl, features: [{name, type, expect}],
//                             expect: [{expr}], online: true, event_id, events_max}
struct FeatureView {
  std::string name;
  std::string entity;
  std::string source;
  Duration ttl{};                           // 0 = no limit.
  std::vector<Feature> features;            // Those that rows bring.
  std::vector<ComputedFeature> computed{};  // Those with `expr`, over the others, keys and time.
  std::vector<RowExpectation> expect{};
  OnlineUse online = OnlineUse::kOnline;
  std::vector<AggregatedFeature> aggregated{};  // Those with `aggregate`, over the key's events.
  // Tells events of one key and time apart; without it, or with the same, the newer corrects.
  std::optional<table::Field> event_id{};
  std::int64_t events_max = 10'000;  // Kept for each key online; windows past them are null.
};

// How features are called. Full names are "view__feature".
enum class NameStyle : std::uint8_t { kBare, kFull };

// One view of a service: all its features, or the named ones.
//   features: [customer_activity, {merchant_profile: [risk_score, {score: merchant_score}]},
//              {location: {as: origin, keys: {location_id: origin_id}, features: [temperature]}}]
struct ServiceView {
  std::string view;
  std::vector<std::string> features;          // Empty: all.
  std::vector<std::string> names{};           // What each of `features` is called; empty: the same.
  std::string as{};                           // In front of full names instead of the view's.
  std::map<std::string, std::string> keys{};  // The entity's key → the column that brings it.
};

// kind: FeatureService
// spec: {features: [...], on_demand: [{name, type, expr}], full_names: false}
// The contract of a model: its features in this order, those that are computed from them last.
struct FeatureService {
  std::string name;
  std::vector<ServiceView> views;
  std::vector<ComputedFeature> on_demand{};
  NameStyle names = NameStyle::kBare;
};

// kind: TrainingSet
// spec: {service: fraud_v1,
//        spine: {view: payment_labels, label: is_fraud, from: 2026-01-01, to: 2026-03-01},
//        as_known_at: now | <sequence>, split: {by: customer_id, valid: 20%},
//        created_later: mark | refuse | leave_out}
// The spine's rows are the label view's rows with from ≤ event time < to. Instead of `view`,
// `spine: {path: labels.parquet, time: at, label: is_fraud}` names a file that is sent with freeze.
struct TrainingSetSpec {
  std::string name;
  std::string service;
  std::string spine_view;  // Or:
  std::string spine_path;
  std::string time_column;  // For a file; a view brings its own.
  std::string label;
  Timestamp from = Timestamp::min();
  Timestamp to = Timestamp::max();
  std::optional<std::int64_t> as_known_at;  // nullopt: now.
  std::string split_by;                     // A key column; "" = by time, newest rows are valid.
  double valid_share = 0.2;
  CreatedLater created_later = CreatedLater::kMark;
};

Result<Entity> decode_entity(const storage::Object& object);
Result<Source> decode_source(const storage::Object& object);
Result<FeatureView> decode_feature_view(const storage::Object& object);
Result<FeatureService> decode_feature_service(const storage::Object& object);
Result<TrainingSetSpec> decode_training_set(const storage::Object& object);

// Null when the view has no such windowed feature.
const AggregatedFeature* find_aggregated(const FeatureView& view, std::string_view name);

// The kinds this module owns, for the catalog.
std::vector<storage::KindInfo> kinds();

}  // namespace falaj::features
