#include "scheduler/encode.h"

namespace falaj::scheduler {

void Encoder::text(std::string_view value) {
  put(static_cast<std::uint64_t>(value.size()));
  out_.append(value);
}

void Encoder::bytes(std::span<const std::uint8_t> value) {
  out_.append(reinterpret_cast<const char*>(value.data()), value.size());
}

void Encoder::placement(const Placement& placement) {
  list(placement.counts, [&](std::uint32_t count) { put(count); });
  list(placement.pods,
       [&](const PodPlacement& pod) { put(pod.node, pod.gpus, pod.numa, pod.mig_start); });
}

namespace {

// One list of members each, for writing and for reading.
template <class T, class Of>
concept Like = std::is_same_v<std::remove_const_t<T>, Of>;

template <class A>
void describe(A& a, Like<Flavor> auto& f) {
  a(f.name, f.weight);
}

template <class A>
void describe(A& a, Like<JobArray> auto& array) {
  a(array.max_running);
}

template <class A>
void describe(A& a, Like<NodeClass> auto& c) {
  a(c.name, c.cpu, c.memory, c.gpu_flavor, c.gpus, c.gpu_memory, c.mig, c.labels, c.numa_nodes,
    c.watts_per_gpu, c.price_per_gpu_hour, c.price_per_core_hour, c.gpu_islands, c.numa_gpus);
}

template <class A>
void describe(A& a, Like<Quota> auto& q) {
  a(q.flavor, q.nominal, q.borrow, q.lend);
}

template <class A>
void describe(A& a, Like<Allowance> auto& x) {
  a(x.kind, x.limit, x.spent, x.window_end);
}

template <class A>
void describe(A& a, Like<Queue> auto& q) {
  a(q.name, q.parent, q.weight, q.decayed_use, q.reclaim, q.within, q.min_run, q.quotas,
    q.allowances);
}

template <class A>
void describe(A& a, Like<TaskGroup> auto& g) {
  a(g.min, g.max, g.cpu, g.memory, g.max_per_node, g.one_numa_node, g.gpu.count, g.gpu.fraction,
    g.gpu.mig, g.gpu.memory, g.gpu.models);
}

template <class A>
void describe(A& a, Like<Shape> auto& s) {
  a(s.required, s.preferred, s.labels_required, s.labels_forbidden, s.tags, s.avoids, s.needs,
    s.data_zones, s.groups);
}

template <class A>
void describe(A& a, Like<PodPlacement> auto& pod) {
  a(pod.node, pod.gpus, pod.numa, pod.mig_start);
}

template <class A>
void describe(A& a, Like<Job> auto& j) {
  a(j.id, j.queue, j.shape, j.state, j.priority, j.submitted, j.started, j.deadline,
    j.remaining_p50, j.remaining_p90, j.max_run, j.attained, j.checkpoint, j.restart_cost, j.spent,
    j.cost_cap, j.unmet_dependencies, j.array, j.placement.counts, j.placement.pods);
}

template <class A>
void describe(A& a, Like<Node> auto& n) {
  a(n.node_class, n.zone, n.domain, n.health, n.drain_at, n.power_cap);
}

template <class A>
void describe(A& a, Like<Snapshot> auto& s) {
  a(s.epoch, s.flavors, s.zones, s.arrays, s.classes, s.nodes, s.queues, s.shapes, s.jobs);
}

template <class A>
void describe(A& a, Like<Policy> auto& p) {
  a(p.order.p50, p.order.p90, p.order.size, p.order.attained, p.order.share, p.order.age,
    p.order.points_per_hour, p.order.age_cap, p.order.deadline_slack);
  a(p.preemption.entitlement, p.preemption.priority, p.preemption.order, p.preemption.margin,
    p.preemption.score_weight, p.preemption.grace, p.preemption.min_run);
  a(p.reservations, p.reserve_after, p.unknown_run, p.strict_fifo);
}

template <class T>
inline constexpr bool kTime = std::is_same_v<T, Timestamp> || std::is_same_v<T, Duration>;
template <class T>
inline constexpr bool kNumber = std::is_integral_v<T> || std::is_enum_v<T> || kTime<T>;
template <class T>
inline constexpr bool kList = false;
template <class T>
inline constexpr bool kList<std::vector<T>> = true;
template <class T>
inline constexpr bool kFixed = false;
template <class T, std::size_t N>
inline constexpr bool kFixed<std::array<T, N>> = true;

class Writer {
 public:
  // Into one text, or in pieces into a hasher, so that a large snapshot is never twice in memory.
  explicit Writer(Sha256Hasher* hasher = nullptr) : hasher_(hasher) {}

  template <class... T>
  void operator()(const T&... values) {
    (one(values), ...);
  }
  std::string take() && { return std::move(out_).take(); }
  void flush() {
    hasher_->update(out_.str());
    out_.clear();
  }

 private:
  static constexpr std::size_t kPiece = 65536;

  template <class T>
  void one(const T& value) {
    if constexpr (kNumber<T>) {
      out_.put(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      out_.text(value);
    } else if constexpr (kList<T> || kFixed<T>) {
      if constexpr (kList<T>) out_.put(static_cast<std::uint64_t>(value.size()));
      for (const auto& each : value) {
        one(each);
        if (hasher_ != nullptr && out_.str().size() >= kPiece) flush();
      }
    } else {
      describe(*this, value);
    }
  }

  Encoder out_;
  Sha256Hasher* hasher_;
};

// The last word of each list of words.
constexpr Level last(Level) { return Level::kCluster; }
constexpr MigGeometry last(MigGeometry) { return MigGeometry::kH100; }
constexpr MigProfile last(MigProfile) { return MigProfile::k7g; }
constexpr NodeHealth last(NodeHealth) { return NodeHealth::kDown; }
constexpr AllowanceKind last(AllowanceKind) { return AllowanceKind::kEnergy; }
constexpr Reclaim last(Reclaim) { return Reclaim::kAny; }
constexpr WithinQueue last(WithinQueue) { return WithinQueue::kSubmittedLater; }
constexpr JobState last(JobState) { return JobState::kStopping; }
constexpr Entitlement last(Entitlement) { return Entitlement::kFairShare; }
constexpr Scope last(Scope) { return Scope::kCluster; }

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  bool good() const { return good_; }
  bool at_end() const { return good_ && left_.empty(); }

 private:
  template <class T>
  void number(T& value) {
    if (left_.size() < sizeof(T)) {
      good_ = false;
      left_ = {};
      return;
    }
    std::uint64_t sum = 0;
    for (std::size_t i = sizeof(T); i-- > 0;) sum = sum << 8 | static_cast<unsigned char>(left_[i]);
    value = static_cast<T>(sum);
    left_.remove_prefix(sizeof(T));
  }

  template <class T>
  void one(T& value) {
    if constexpr (kTime<T>) {
      number(value.nanos);
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> raw{};
      number(raw);
      good_ = good_ && raw <= static_cast<std::underlying_type_t<T>>(last(T{}));
      if (good_) value = static_cast<T>(raw);
    } else if constexpr (std::is_integral_v<T>) {
      number(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      std::uint64_t size = 0;
      number(size);
      good_ = good_ && size <= left_.size();
      if (!good_) return;
      value = left_.substr(0, size);
      left_.remove_prefix(size);
    } else if constexpr (kFixed<T>) {
      for (auto& each : value) one(each);
    } else if constexpr (kList<T>) {
      std::uint64_t size = 0;
      number(size);
      // Grows as elements are found: a length alone takes no memory.
      for (; size > 0 && good_; --size) one(value.emplace_back());
    } else {
      describe(*this, value);
    }
  }

  std::string_view left_;
  bool good_ = true;
};

template <class T>
Result<T> decode(std::string_view bytes, std::string_view what) {
  Reader reader(bytes);
  T out;
  reader(out);
  if (reader.at_end()) return out;
  return Error(Code::kInvalidArgument,
               "these bytes are no " + std::string(what) + " of the scheduler");
}

template <class T>
std::string written(const T& value) {
  Writer out;
  out(value);
  return std::move(out).take();
}

}  // namespace

std::string encode(const Snapshot& snapshot) { return written(snapshot); }
std::string encode(const Policy& policy) { return written(policy); }

Result<Snapshot> decode_snapshot(std::string_view bytes) {
  return decode<Snapshot>(bytes, "snapshot");
}

Result<Policy> decode_policy(std::string_view bytes) { return decode<Policy>(bytes, "policy"); }

Sha256 digest(const Snapshot& snapshot) {
  Sha256Hasher hasher;
  Writer out(&hasher);
  out(snapshot);
  out.flush();
  return hasher.finish();
}

Sha256 digest(const Policy& policy) { return sha256(encode(policy)); }

}  // namespace falaj::scheduler
