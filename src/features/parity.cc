#include "features/parity.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/log.h"
#include "features/internal/event_index.h"
#include "features/internal/segments.h"
#include "features/internal/view_index.h"
#include "features/key.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

constexpr const char* kTimeColumn = "__at";
constexpr std::uint64_t kNewest = std::numeric_limits<std::uint64_t>::max();

telemetry::MetricInfo checked_metric() {
  return {"falaj_features_parity_checked_total",
          "Sampled online replies that were asked again of the offline join, by view.",
          telemetry::MetricKind::kCounter,
          {"project", "view"}};
}

telemetry::MetricInfo mismatch_metric() {
  return {"falaj_features_parity_mismatches_total",
          "Of these, replies with another value than the offline join finds.",
          telemetry::MetricKind::kCounter,
          {"project", "view"}};
}

// One that the spine has not: keys are called as users call them.
std::string feature_column(std::size_t column) { return "__feature_" + std::to_string(column); }

// The asked row as a spine.
Batch spine_of(const ParitySample& sample) {
  table::Schema schema{sample.plan.keys};
  schema.fields.push_back({kTimeColumn, Type::kTimestamp});
  Batch out(std::move(schema));
  for (std::size_t i = 0; i < sample.keys.size(); ++i) {
    if (const auto* number = std::get_if<std::int64_t>(&sample.keys[i])) {
      out.columns[i].push_int(*number);
    } else {
      out.columns[i].push_string(std::get<std::string>(sample.keys[i]));
    }
  }
  out.columns.back().push_int(sample.ask.now.nanos);
  return out;
}

// Whether the column of the sample is what the join found.
bool is_same(const ParitySample& sample, std::size_t column, const Column& found) {
  const bool present = sample.statuses[column] == FeatureStatus::kPresent;
  if (present == found.is_null(0)) return false;
  if (!present) return true;
  if (found.type() == Type::kString) return found.strings()[0] == sample.texts[column];
  return word_of(found, 0) == sample.words[column];
}

// What may be older of a row: the view's time to live and the request's.
Duration limit_of(const OnlinePlan::View& view, const OnlineAsk& ask) {
  if (ask.max_age <= Duration{}) return view.ttl;
  return view.ttl <= Duration{} ? ask.max_age : std::min(view.ttl, ask.max_age);
}

// Of the columns of view `number` from `column` on, those that cannot be compared.
void skip_columns(ParitySample& sample, std::size_t number, std::size_t column, Timestamp event) {
  const OnlinePlan::View& view = sample.plan.views[number];
  for (std::size_t i = 0; i < view.fields.size(); ++i) {
    sample.skipped[column + i] =
        view.fields[i] != OnlinePlan::View::kWindow && event > sample.ask.now;
  }
  if (view.windows == nullptr) return;
  std::vector<KeyPart> key;
  for (const std::size_t part : view.key_names) key.push_back(sample.keys[part]);
  const std::int64_t complete = complete_after(*view.windows, encode_key(key));
  for (std::size_t item = 0; item < view.windows->places.size(); ++item) {
    const Duration window = view.windows->plan.items[item].aggregate.window;
    const bool cut = (sample.ask.now - window).nanos < complete;
    if (cut) sample.skipped[column + view.windows->places[item]] = true;
  }
}

}  // namespace

bool ParitySamples::due() const {
  if (every_ <= 0) return false;
  thread_local std::int64_t replies = 0;
  return ++replies % every_ == 0;
}

void ParitySamples::take(const OnlinePlan& plan, std::span<const KeyPart> keys,
                         const OnlineAsk& ask, const OnlineAnswer& answer, std::size_t row) {
  if (answer.too_large) return;
  ParitySample sample;
  sample.plan = plan;
  const auto own = keys.subspan(row * plan.keys.size(), plan.keys.size());
  sample.keys.assign(own.begin(), own.end());
  sample.ask = ask;
  sample.commit = answer.commit;
  for (std::size_t column = 0; column < answer.columns; ++column) {
    const std::size_t place = row * answer.columns + column;
    sample.statuses.push_back(answer.statuses[place]);
    sample.words.push_back(answer.words[place]);
    const bool text = plan.columns[column].type == Type::kString;
    sample.texts.emplace_back(text ? answer.text(answer.words[place]) : std::string_view());
  }
  sample.skipped.assign(answer.columns, false);
  std::size_t column = 0;
  for (std::size_t i = 0; i < plan.views.size(); ++i) {
    skip_columns(sample, i, column, answer.events[row * answer.views + i]);
    column += plan.views[i].fields.size();
  }
  const MutexLock lock(mutex_);
  if (waiting_.size() < kMax) waiting_.push_back(std::move(sample));
}

void ParitySamples::forget(const std::string& project, const std::string& view) {
  const MutexLock lock(mutex_);
  ++forgotten_;
  std::erase_if(waiting_, [&](const ParitySample& sample) {
    const auto& views = sample.plan.views;
    return sample.plan.project == project &&
           std::any_of(views.begin(), views.end(),
                       [&](const OnlinePlan::View& each) { return each.view == view; });
  });
}

std::pair<std::vector<ParitySample>, std::uint64_t> ParitySamples::all() {
  const MutexLock lock(mutex_);
  return {std::exchange(waiting_, {}), forgotten_};
}

void ParitySamples::put_back(ParitySample sample, std::uint64_t forgotten) {
  const MutexLock lock(mutex_);
  if (forgotten == forgotten_ && waiting_.size() < kMax) waiting_.push_back(std::move(sample));
}

// Of one sample: each view, and the first of its features that differs.
struct Parity::Compared {
  std::vector<std::string> views;
  std::vector<std::optional<std::string>> differs;
  bool same() const {
    return std::none_of(differs.begin(), differs.end(), [](const auto& each) { return !!each; });
  }
};

Parity::Parity(const ParityServices& services, ParitySamples& samples)
    : services_(services), samples_(samples) {
  services_.metrics.declare(checked_metric());
  services_.metrics.declare(mismatch_metric());
}

// As it was read online; the features are named from `column` on. FJ-2007 when it was declared anew
// since.
Result<JoinView> Parity::view_of(const ParitySample& sample, const OnlinePlan::View& view,
                                 std::size_t column) {
  const OnlinePlan& plan = sample.plan;
  ViewDefinition now;
  std::vector<Segment> segments;
  FALAJ_TRY(services_.sql.read([&](storage::SqlTransaction& tx) -> Status {
    now = FALAJ_TRY(load_view(tx, plan.project, view.view));
    segments = FALAJ_TRY(list_segments(tx, plan.project, view.view, {0, kNewest, Reach::kOnline}));
    return {};
  }));
  if (now.generation != view.generation) {
    return Error(ErrorId::kStaleGeneration, "FeatureView " + view.view + " was declared anew");
  }
  JoinView out;
  out.name = view.view;
  out.keys = now.entity.keys;
  for (const std::size_t key : view.key_names) out.columns.push_back(plan.keys[key].name);
  out.ttl = limit_of(view, sample.ask);
  out.event_id = now.view.event_id;
  for (const table::Field& stored : view.stored) {
    JoinFeature feature{stored, feature_column(column++), {}};
    const AggregatedFeature* windowed = find_aggregated(now.view, stored.name);
    if (windowed != nullptr) feature.aggregate = windowed->aggregate;
    out.features.push_back(std::move(feature));
  }
  for (const Segment& segment : segments) {
    auto& file = opened_[plan.project + "/" + view.view + "/" + segment.blob.str()];
    if (file == nullptr) {
      file = std::make_shared<const SegmentFile>(
          FALAJ_TRY(open_segment(services_.blobs, {plan.project, view.view}, segment)));
    }
    out.segments.push_back({file, segment.commit});
  }
  return out;
}

Result<Parity::Compared> Parity::compare(const ParitySample& sample) {
  JoinOptions options;
  options.time_column = kTimeColumn;
  options.known_at = sample.commit;
  options.threads = 1;
  std::vector<JoinView> views;
  std::size_t first = 0;
  for (const OnlinePlan::View& view : sample.plan.views) {
    views.push_back(FALAJ_TRY(view_of(sample, view, first)));
    first += view.stored.size();
  }
  const Batch joined = FALAJ_TRY(point_in_time_join(spine_of(sample), views, options));
  Compared out;
  std::size_t column = 0;
  for (const OnlinePlan::View& view : sample.plan.views) {
    out.views.push_back(view.view);
    auto& differs = out.differs.emplace_back();
    for (const table::Field& stored : view.stored) {
      const Column& found = *joined.find(feature_column(column));
      const bool same = sample.skipped[column] || is_same(sample, column, found);
      if (!same && !differs) differs = stored.name;
      ++column;
    }
  }
  return out;
}

Status Parity::raise(const std::string& project, const Compared& compared, std::uint64_t commit) {
  for (std::size_t i = 0; i < compared.views.size(); ++i) {
    if (!compared.differs[i]) continue;
    const std::string& view = compared.views[i];
    services_.metrics.counter(mismatch_metric(), {project, view}).add();
    log::error("an online reply is not what the offline join finds",
               {{"project", project},
                {"view", view},
                {"feature", *compared.differs[i]},
                {"commit", std::to_string(commit)}});
    const Timestamp now = services_.clock.now();
    const auto [last, first] = raised_.try_emplace({project, view}, now);
    if (!first && now - last->second < kQuiet) continue;
    last->second = now;
    Value detail;
    detail["problem"] = "parity";
    detail["feature"] = *compared.differs[i];
    detail["commit"] = commit;
    const auto context = security::system_context("service:features", ProjectName(project), Zone());
    FALAJ_TRY(services_.sql.write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(services_.audit.append(
          tx, context, {"features.alarm", "FeatureView/" + project + "/" + view, detail}));
      return {};
    }));
  }
  return {};
}

Status Parity::check(ParitySample sample, std::uint64_t forgotten) {
  const Result<Compared> compared = compare(sample);
  // Declared anew, deleted or shredded meanwhile: there is nothing to compare with.
  if (!compared.ok()) return {};
  if (!compared->same() && ++sample.asked < 2) {
    samples_.put_back(std::move(sample), forgotten);
    return {};
  }
  for (const std::string& view : compared->views) {
    services_.metrics.counter(checked_metric(), {sample.plan.project, view}).add();
  }
  return raise(sample.plan.project, *compared, sample.commit);
}

Status Parity::tick() {
  auto [samples, forgotten] = samples_.all();
  Status out;
  for (ParitySample& sample : samples) {
    Status checked = check(std::move(sample), forgotten);
    if (!checked.ok()) out = std::move(checked);
  }
  opened_.clear();
  return out;
}

}  // namespace falaj::features
