#include "features/training_sets.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/decode.h"
#include "base/hash.h"
#include "base/json.h"
#include "features/internal/segments.h"
#include "features/internal/service_layout.h"
#include "features/internal/spine.h"
#include "features/key.h"
#include "features/leakage.h"
#include "features/point_in_time_join.h"
#include "table/table_writer.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

constexpr std::string_view kSplitColumn = "split";

// A view with the segments that it is read from.
struct JoinedView {
  ViewDefinition definition;
  std::vector<Segment> segments;
};

// Everything that decides the bytes of a frozen set, read in one snapshot.
struct Inputs {
  std::string name;  // Of the frozen set: the spec's with the suffix.
  TrainingSetSpec spec;
  std::int64_t service_generation = 0;
  std::vector<JoinedView> views;
  ServiceLayout layout;  // Its parts are the views.
  std::optional<JoinedView> spine_view;
  std::uint64_t known_at = 0;
};

// FJ-3005 when a feature would be called like another column of the set.
Status check_names(const Inputs& inputs, const std::string& time_column) {
  for (const std::string& taken : {time_column, inputs.spec.label, std::string(kSplitColumn)}) {
    for (const ServiceColumn& column : inputs.layout.columns) {
      if (column.field.name != taken) continue;
      return Error(ErrorId::kFeatureNameCollision,
                   "\"" + taken +
                       "\" would be two columns of the training set: rename the feature in the "
                       "service, or take it from no view");
    }
  }
  return {};
}

// Under which a join says when a view's values were available.
std::string available_column(const std::string& view) { return "__available_" + view; }

// The views as the join takes them, without their segments. What it reads is called as the
// layout's reads are.
std::vector<JoinView> views_to_join(const Inputs& inputs) {
  std::vector<JoinView> out;
  std::size_t read = 0;
  for (std::size_t i = 0; i < inputs.views.size(); ++i) {
    const JoinedView& joined = inputs.views[i];
    const ServicePart& part = inputs.layout.parts[i];
    JoinView& view = out.emplace_back();
    view.name = part.alias;
    view.keys = joined.definition.entity.keys;
    view.columns = part.key_columns;
    view.ttl = joined.definition.view.ttl;
    view.available_as = available_column(view.name);
    if (inputs.spec.created_later == CreatedLater::kLeaveOut &&
        !joined.definition.source.created_time.empty()) {
      view.created = CreatedRule::kKnownByRow;
    }
    view.event_id = joined.definition.view.event_id;
    for (const table::Field& stored : part.stored) {
      JoinFeature& feature = view.features.emplace_back();
      feature.stored = stored;
      feature.as = inputs.layout.reads[read++].name;
      const AggregatedFeature* windowed = find_aggregated(joined.definition.view, stored.name);
      if (windowed != nullptr) feature.aggregate = windowed->aggregate;
    }
  }
  return out;
}

// The service's columns from what was joined: those that are read as they are, the others computed.
Status add_features(const ServiceLayout& layout, const Spine& spine, Batch& joined, Batch& out) {
  std::vector<std::size_t> places;  // Of the reads in `joined`.
  std::vector<const Column*> slots;
  for (const table::Field& read : layout.reads) {
    places.push_back(*joined.schema.find(read.name));
    slots.push_back(&joined.columns[places.back()]);
  }
  for (const table::Field& key : layout.keys) slots.push_back(spine.rows.find(key.name));
  slots.push_back(&spine.time());
  std::vector<Column> computed;
  computed.reserve(layout.computed.size());
  for (const ComputedColumn& each : layout.computed) {
    std::vector<const Column*> inputs;
    for (const std::size_t slot : each.inputs) inputs.push_back(slots[slot]);
    computed.push_back(each.expression.evaluate(inputs, spine.rows.rows()));
    slots.push_back(&computed.back());
  }
  for (const ServiceColumn& column : layout.columns) {
    Column& from = layout.is_computed(column) ? computed[column.slot - layout.first_computed()]
                                              : joined.columns[places[column.slot]];
    FALAJ_TRY(out.add(column.field, std::move(from)));
  }
  return {};
}

std::string versioned(const ViewDefinition& definition) {
  return definition.view.name + "@" + std::to_string(definition.generation);
}

// Segments that cannot hold a row that counts for any spine row are not read.
std::vector<Segment> useful(const JoinedView& view, const Spine& spine) {
  Timestamp first = Timestamp::max();
  Timestamp last = Timestamp::min();
  for (std::size_t row = 0; row < spine.rows.rows(); ++row) {
    if (spine.time().is_null(row)) continue;
    const Timestamp at{spine.time().ints()[row]};
    first = std::min(first, at);
    last = std::max(last, at);
  }
  const Duration ttl = view.definition.view.ttl;
  Duration longest = ttl;
  for (const AggregatedFeature& feature : view.definition.view.aggregated) {
    longest = std::max(longest, feature.aggregate.window);
  }
  std::vector<Segment> out;
  for (const Segment& segment : view.segments) {
    const bool too_old = ttl > Duration{} && segment.event_max < first - longest;
    if (segment.event_min <= last && !too_old) out.push_back(segment);
  }
  return out;
}

std::vector<bool> valid_by_key(const Column& column, double share) {
  // The upper 53 bits of a stable hash as a number in [0, 1).
  std::vector<bool> out(column.size());
  std::string key;
  for (std::size_t i = 0; i < out.size(); ++i) {
    key = key_of_row({&column}, i);
    out[i] = static_cast<double>(hash64(key, 0x5917) >> 11) * 0x1p-53 < share;
  }
  return out;
}

// The newest rows are for validation; rows of one moment stay together.
std::vector<bool> valid_by_time(const Column& time, double share) {
  std::vector<std::int64_t> times = time.ints();
  std::vector<bool> out(times.size(), false);
  const auto count = static_cast<std::size_t>(static_cast<double>(times.size()) * share + 0.5);
  if (count == 0) return out;
  const auto cut = times.end() - static_cast<std::ptrdiff_t>(count);
  std::nth_element(times.begin(), cut, times.end());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = !time.is_null(i) && time.ints()[i] >= *cut;
  }
  return out;
}

// Which rows of the spine are for validation.
Result<std::vector<bool>> valid_rows(const Inputs& inputs, const Spine& spine) {
  const Column* by = inputs.spec.split_by.empty() ? nullptr : spine.rows.find(inputs.spec.split_by);
  const std::vector<table::Field>& keys = inputs.layout.keys;
  const bool is_key = std::any_of(
      keys.begin(), keys.end(), [&](const auto& key) { return key.name == inputs.spec.split_by; });
  if (!inputs.spec.split_by.empty() && !is_key) {
    return Error(ErrorId::kSpineInvalid,
                 "split: \"" + inputs.spec.split_by + "\" is not a key column of the training set");
  }
  const double share = inputs.spec.valid_share;
  return by != nullptr ? valid_by_key(*by, share) : valid_by_time(spine.time(), share);
}

Status check_leakage(const TrainingSetSpec& spec, const Leakage& leakage) {
  if (spec.created_later != CreatedLater::kRefuse || leakage.created_later == 0) return {};
  return Error(Code::kFailedPrecondition,
               std::to_string(leakage.created_later) + " of " + std::to_string(leakage.rows) +
                   " rows would get a value of FeatureView " + leakage.view +
                   " that was created after their time: set created_later to leave_out to use "
                   "what was known then, or to mark to use them all the same");
}

// The columns of a frozen set: the spine's, the service's, the split.
table::Schema set_schema(const ServiceLayout& layout, const Spine& spine) {
  table::Schema out = spine.rows.schema;
  for (const ServiceColumn& column : layout.columns) out.fields.push_back(column.field);
  out.fields.push_back({std::string(kSplitColumn), Type::kString});
  return out;
}

// Takes what was joined, piece by piece in the order of the spine, and writes the rows of the set.
class SetRows {
 public:
  SetRows(const Inputs& inputs, const Spine& spine, std::vector<bool> valid,
          table::TableWriter& file)
      : inputs_(inputs), spine_(spine), valid_(std::move(valid)), file_(file) {
    for (const ServicePart& part : inputs.layout.parts) meters_.emplace_back(part.alias);
  }

  Status add(Batch joined) {
    const Spine part = spine_.part(done_, joined.rows());
    for (std::size_t i = 0; i < meters_.size(); ++i) {
      const std::string available = available_column(inputs_.layout.parts[i].alias);
      meters_[i].add(part.time(), *joined.find(available));
    }
    Batch out = part.rows;
    FALAJ_TRY(add_features(inputs_.layout, part, joined, out));
    Column split(Type::kString);
    for (std::size_t row = done_; row < done_ + out.rows(); ++row) {
      split.push_string(valid_[row] ? "valid" : "train");
    }
    done_ += out.rows();
    FALAJ_TRY(out.add({std::string(kSplitColumn), Type::kString}, std::move(split)));
    return file_.add(std::move(out));
  }

  // After the last row: the rest of the file, and what was found out about the rows. Call once.
  Status finish(Manifest& manifest) {
    for (LeakageMeter& meter : meters_) {
      manifest.leakage.push_back(meter.finish());
      FALAJ_TRY(check_leakage(inputs_.spec, manifest.leakage.back()));
    }
    manifest.rows_valid =
        static_cast<std::uint64_t>(std::count(valid_.begin(), valid_.end(), true));
    return file_.finish();
  }

 private:
  const Inputs& inputs_;
  const Spine& spine_;
  const std::vector<bool> valid_;
  table::TableWriter& file_;
  std::vector<LeakageMeter> meters_;
  std::size_t done_ = 0;
};

// Where everything that went in may be.
Result<Zone> zone_of(const Inputs& inputs, const Zone& of_caller) {
  std::vector<Zone> zones{of_caller};
  const auto add = [&](const JoinedView& view) {
    for (const Segment& segment : view.segments) zones.push_back(segment.zone);
  };
  for (const JoinedView& view : inputs.views) add(view);
  if (inputs.spine_view) add(*inputs.spine_view);
  return derived_zone(zones);
}

Manifest describe(const Inputs& inputs, const Spine& spine, const std::string& project) {
  Manifest out;
  out.name = inputs.name;
  out.project = project;
  out.rows = spine.rows.rows();
  for (const table::Field& key : inputs.layout.keys) out.keys.push_back(key.name);
  out.time_column = spine.rows.schema.fields[spine.key_count].name;
  out.label = inputs.spec.label;
  out.service = inputs.spec.service;
  out.service_generation = inputs.service_generation;
  for (const JoinedView& view : inputs.views) {
    out.views.push_back(versioned(view.definition));
    for (const Segment& segment : useful(view, spine)) out.segments.push_back(segment.content);
  }
  for (const ServiceColumn& column : inputs.layout.columns) {
    out.features.push_back(column.field.name);
  }
  if (inputs.spine_view) {
    out.views.push_back(versioned(inputs.spine_view->definition));
    for (const Segment& segment : inputs.spine_view->segments) {
      out.segments.push_back(segment.content);
    }
  }
  std::sort(out.segments.begin(), out.segments.end());
  out.segments.erase(std::unique(out.segments.begin(), out.segments.end()), out.segments.end());
  out.spine_hash = hash_rows(spine.rows);
  out.known_at = inputs.known_at;
  out.from = inputs.spec.from;
  out.to = inputs.spec.to;
  return out;
}

// The manifest without what the joining finds out and the clock says: equal texts, equal bytes.
std::string inputs_hash(const Manifest& manifest, const TrainingSetSpec& spec) {
  Value value = to_value(manifest);
  value["split_by"] = spec.split_by;
  value["valid_share"] = spec.valid_share;
  value["created_later"] = static_cast<std::int64_t>(spec.created_later);
  value["leakage"] = Value::array();
  value["rows_valid"] = 0;
  value["frozen_at"] = "";
  return sha256_hex(to_json(value));
}

std::string manifest_id(const Manifest& manifest) {
  Value value = to_value(manifest);
  value["id"] = "";
  value["data"] = "";
  value["frozen_at"] = "";
  return sha256_hex(to_json(value));
}

Result<std::optional<Manifest>> find_manifest(storage::SqlTransaction& tx, std::string_view where,
                                              const storage::SqlParams& params) {
  const storage::SqlRows rows = FALAJ_TRY(tx.query(where, params));
  if (rows.empty()) return std::optional<Manifest>();
  return std::optional<Manifest>(
      FALAJ_TRY(manifest_from_value(FALAJ_TRY(parse_json(rows[0].text(0))))));
}

constexpr std::string_view kByInputs =
    "SELECT manifest FROM training_sets WHERE project = ? AND name = ? AND inputs = ?";
constexpr std::string_view kLatest =
    "SELECT manifest FROM training_sets WHERE project = ? AND name = ? ORDER BY number DESC LIMIT "
    "1";
constexpr std::string_view kById =
    "SELECT manifest FROM training_sets WHERE project = ? AND id = ? ORDER BY number LIMIT 1";

}  // namespace

struct TrainingSets::Impl {
  storage::SqlStore& sql;
  storage::BlobStore& blobs;
  security::Audit& audit;
  const Clock& clock;
  const TrainingSetOptions options;

  Result<JoinedView> load_joined(storage::SqlTransaction& tx, const std::string& project,
                                 const std::string& view, std::uint64_t up_to) {
    JoinedView out;
    out.definition = FALAJ_TRY(load_view(tx, project, view));
    out.segments = FALAJ_TRY(list_segments(tx, project, view, {0, up_to, Reach::kOffline}));
    return out;
  }

  Status load_views(storage::SqlTransaction& tx, const std::string& project, std::uint64_t up_to,
                    Inputs& inputs) {
    const storage::Object object =
        FALAJ_TRY(storage::get_object(tx, "FeatureService", project, inputs.spec.service));
    inputs.service_generation = object.generation;
    const FeatureService service = FALAJ_TRY(decode_feature_service(object));
    for (const ServiceView& wanted : service.views) {
      inputs.views.push_back(FALAJ_TRY(load_joined(tx, project, wanted.view, up_to)));
    }
    std::vector<ViewOfService> views;
    for (const JoinedView& joined : inputs.views) {
      views.push_back({joined.definition.view, joined.definition.entity});
    }
    Result<ServiceLayout> layout = lay_out(service, views);
    if (!layout.ok()) return layout.error().within("FeatureService " + service.name);
    inputs.layout = std::move(layout).value();
    if (!inputs.spec.spine_view.empty()) {
      inputs.spine_view = FALAJ_TRY(load_joined(tx, project, inputs.spec.spine_view, up_to));
      // Labels outside the period are no input.
      std::erase_if(inputs.spine_view->segments, [&](const Segment& segment) {
        return segment.event_max < inputs.spec.from || segment.event_min >= inputs.spec.to;
      });
    }
    // The cut-off is the last commit that matters here: an ingest elsewhere changes nothing.
    const auto note = [&](const JoinedView& view) {
      for (const Segment& segment : view.segments) {
        inputs.known_at = std::max(inputs.known_at, segment.commit);
      }
    };
    for (const JoinedView& view : inputs.views) note(view);
    if (inputs.spine_view) note(*inputs.spine_view);
    return {};
  }

  Result<Inputs> load_inputs(const std::string& project, const std::string& name,
                             const FreezeOptions& asked) {
    Inputs out;
    out.name = name + asked.name_suffix;
    FALAJ_TRY(check_name("TrainingSet", out.name));
    FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
      out.spec = FALAJ_TRY(
          decode_training_set(FALAJ_TRY(storage::get_object(tx, "TrainingSet", project, name))));
      if (asked.from) out.spec.from = *asked.from;
      if (asked.to) out.spec.to = *asked.to;
      std::uint64_t up_to = std::numeric_limits<std::uint64_t>::max();
      if (out.spec.as_known_at) up_to = static_cast<std::uint64_t>(*out.spec.as_known_at);
      if (asked.known_at) up_to = *asked.known_at;
      return load_views(tx, project, up_to, out);
    }));
    if (out.spec.from >= out.spec.to) {
      return Error(ErrorId::kSpineInvalid, "spine: 'from' must be before 'to'");
    }
    return out;
  }

  Result<Spine> load_spine(const Inputs& inputs, const FreezeOptions& asked) {
    SpineRequest request{inputs.layout.keys, inputs.spec.time_column, inputs.spec.label,
                         inputs.spec.from, inputs.spec.to};
    if (inputs.spine_view) {
      request.time_column = inputs.spine_view->definition.source.event_time;
      FALAJ_TRY(check_names(inputs, request.time_column));
      return spine_of_view(blobs, inputs.spine_view->definition, inputs.spine_view->segments,
                           request);
    }
    if (asked.spine_file == nullptr) {
      return Error(ErrorId::kSpineInvalid,
                   "spine: " + inputs.spec.spine_path + " must be sent with the request to freeze");
    }
    FALAJ_TRY(check_names(inputs, request.time_column));
    return spine_of_file(*asked.spine_file, asked.spine_format, request);
  }

  // The views with the segments that they are read from.
  Result<std::vector<JoinView>> open_views(const Inputs& inputs, const Spine& spine) {
    std::vector<JoinView> views = views_to_join(inputs);
    for (std::size_t i = 0; i < views.size(); ++i) {
      const ViewName name{inputs.views[i].definition.project, inputs.views[i].definition.view.name};
      for (const Segment& segment : useful(inputs.views[i], spine)) {
        auto file = FALAJ_TRY(open_segment(blobs, name, segment));
        views[i].segments.push_back(
            {std::make_shared<SegmentFile>(std::move(file)), segment.commit});
      }
    }
    return views;
  }

  // Joins and writes, a piece after the other. Nothing is kept of a set that could not be finished.
  Status store(const Inputs& inputs, const Spine& spine, Timestamp deadline, Manifest& manifest) {
    const std::vector<JoinView> views = FALAJ_TRY(open_views(inputs, spine));
    const auto blob = FALAJ_TRY(blobs.create(owner_of(manifest)));
    table::TableWriter file = FALAJ_TRY(
        table::TableWriter::open(*blob, table::Format::kParquet, set_schema(inputs.layout, spine)));
    SetRows rows(inputs, spine, FALAJ_TRY(valid_rows(inputs, spine)), file);
    JoinOptions join;
    join.time_column = spine.rows.schema.fields[spine.key_count].name;
    join.memory_max = options.memory_max / 2;  // A piece is there a second time when it is written.
    FALAJ_TRY(point_in_time_join(spine.rows, views, join, [&](Batch joined) -> Status {
      if (clock.now() > deadline) {
        return Error(Code::kDeadlineExceeded, "the join took longer than the caller waits");
      }
      return rows.add(std::move(joined));
    }));
    FALAJ_TRY(rows.finish(manifest));
    const storage::StoredBlob stored = FALAJ_TRY(blob->commit());
    manifest.data = stored.id;
    manifest.data_sha256 = stored.content_sha256;
    return {};
  }

  // The record and its audit entry; or the manifest that another freeze recorded first.
  Result<Manifest> record(const security::RequestContext& context, Manifest manifest,
                          const std::string& inputs) {
    FALAJ_TRY(sql.write([&](storage::SqlTransaction& tx) -> Status {
      const storage::SqlParams params{manifest.project, manifest.name, inputs};
      if (auto first = FALAJ_TRY(find_manifest(tx, kByInputs, params))) {
        manifest = std::move(*first);
        return {};
      }
      FALAJ_TRY(
          tx.execute("INSERT INTO training_sets (project, name, id, inputs, manifest, "
                     "frozen_at, zone) VALUES (?, ?, ?, ?, ?, ?, ?)",
                     {manifest.project, manifest.name, manifest.id, inputs,
                      to_json(to_value(manifest)), manifest.frozen_at.nanos, manifest.zone}));
      Value detail = Value::object();
      detail["id"] = manifest.id;
      detail["data"] = manifest.data_sha256;
      detail["rows"] = manifest.rows;
      detail["known_at"] = manifest.known_at;
      detail["segments"] = manifest.segments.size();
      detail["zone"] = manifest.zone;
      FALAJ_TRY(audit.append(
          tx, context,
          {"training_set.freeze", "TrainingSet/" + manifest.project + "/" + manifest.name,
           std::move(detail)}));
      return {};
    }));
    return manifest;
  }

  Result<Manifest> freeze(const security::RequestContext& context, const std::string& name,
                          const FreezeOptions& asked) {
    const std::string& project = context.project.str();
    const Inputs inputs = FALAJ_TRY(load_inputs(project, name, asked));
    const Zone zone = FALAJ_TRY(zone_of(inputs, context.zone));
    const Spine spine = FALAJ_TRY(load_spine(inputs, asked));
    Manifest manifest = describe(inputs, spine, project);
    manifest.zone = zone.name();
    const std::string hash = inputs_hash(manifest, inputs.spec);
    std::optional<Manifest> first;
    FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
      first = FALAJ_TRY(find_manifest(tx, kByInputs, {project, inputs.name, hash}));
      return {};
    }));
    if (first) return std::move(*first);

    FALAJ_TRY(store(inputs, spine, context.deadline, manifest));
    manifest.id = manifest_id(manifest);
    manifest.frozen_at = clock.now();
    return record(context, std::move(manifest), hash);
  }

  Result<std::optional<Manifest>> find(std::string_view query, const ProjectName& project,
                                       const std::string& value) {
    std::optional<Manifest> out;
    FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
      out = FALAJ_TRY(find_manifest(tx, query, {project.str(), value}));
      return {};
    }));
    return out;
  }
};

namespace {

// `versioned` is a view as a manifest names it: "customer_activity@3".
Status note_newer(storage::SqlTransaction& tx, const Manifest& manifest,
                  const std::string& versioned_name, std::vector<std::string>& out) {
  const std::string view = versioned_name.substr(0, versioned_name.rfind('@'));
  const auto definition = load_view(tx, manifest.project, view);
  if (!definition.ok() && definition.error().code == Code::kNotFound) {
    out.push_back("FeatureView " + view + " is gone");
    return {};
  }
  if (!definition.ok()) return definition.error();
  if (versioned(*definition) != versioned_name) {
    out.push_back("FeatureView " + view + " was declared anew");
  }
  std::uint64_t rows = 0;
  for (const Segment& segment : FALAJ_TRY(list_segments(
           tx, manifest.project, view,
           {manifest.known_at, std::numeric_limits<std::uint64_t>::max(), Reach::kOffline}))) {
    // Labels outside the period are no input; values of any time may be.
    if (segment.event_min < manifest.to) rows += segment.rows;
  }
  if (rows > 0) {
    out.push_back("FeatureView " + view + " has " + std::to_string(rows) + " newer rows");
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> TrainingSets::newer_inputs(const Manifest& manifest) const {
  std::vector<std::string> out;
  FALAJ_TRY(impl_->sql.read([&](storage::SqlTransaction& tx) -> Status {
    out.clear();
    for (const std::string& view : manifest.views) FALAJ_TRY(note_newer(tx, manifest, view, out));
    return {};
  }));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

TrainingSets::TrainingSets(storage::SqlStore& sql, storage::BlobStore& blobs,
                           security::Audit& audit, const Clock& clock,
                           const TrainingSetOptions& options)
    : impl_(new Impl{sql, blobs, audit, clock, options}) {}

TrainingSets::~TrainingSets() = default;

Result<Manifest> TrainingSets::freeze(const security::RequestContext& context,
                                      const std::string& name, const FreezeOptions& options) {
  Result<Manifest> manifest = impl_->freeze(context, name, options);
  if (!manifest.ok()) return manifest.error().within("freeze " + name);
  return manifest;
}

Result<Manifest> TrainingSets::latest(const ProjectName& project, const std::string& name) const {
  if (auto found = FALAJ_TRY(impl_->find(kLatest, project, name))) return std::move(*found);
  return Error(ErrorId::kObjectNotFound, "TrainingSet " + name + " of project " + project.str() +
                                             " was never frozen: freeze it first");
}

Result<Manifest> TrainingSets::by_id(const ProjectName& project, const std::string& id) const {
  if (auto found = FALAJ_TRY(impl_->find(kById, project, id))) return std::move(*found);
  return Error(ErrorId::kObjectNotFound,
               "project " + project.str() + " has no frozen training set with id " + id);
}

Result<std::vector<Manifest>> TrainingSets::list(const ProjectName& project) const {
  std::vector<Manifest> out;
  FALAJ_TRY(impl_->sql.read([&](storage::SqlTransaction& tx) -> Status {
    const storage::SqlRows rows = FALAJ_TRY(tx.query(
        "SELECT manifest FROM training_sets WHERE project = ? ORDER BY number", {project.str()}));
    for (const storage::SqlRow& row : rows) {
      out.push_back(FALAJ_TRY(manifest_from_value(FALAJ_TRY(parse_json(row.text(0))))));
    }
    return {};
  }));
  return out;
}

}  // namespace falaj::features
