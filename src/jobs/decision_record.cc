#include "jobs/decision_record.h"

#include <algorithm>
#include <utility>

#include "net/compression.h"
#include "scheduler/encode.h"
#include "scheduler/verify.h"

namespace falaj::jobs {
namespace {

constexpr std::uint32_t kForm = 2;  // 1 had one figure for what a queue had used.
constexpr std::size_t kPlainMax = std::size_t{256} << 20;
constexpr std::size_t kHeadBytes = 4 + 8 + 4 * 3 + 1 + 8;

std::int64_t claims(const scheduler::Decisions& decisions) {
  return std::count_if(decisions.reserve.begin(), decisions.reserve.end(), [](const auto& reserve) {
    return reserve.kind == scheduler::ReserveKind::kClaim;
  });
}

Error differs(const std::string& what) {
  return Error(Code::kDataLoss, "the decision cannot be confirmed: " + what);
}

// Little-endian, as scheduler::Encoder writes.
std::uint64_t take(std::string_view& bytes, std::size_t size) {
  std::uint64_t sum = 0;
  for (std::size_t i = size; i-- > 0;) sum = sum << 8 | static_cast<unsigned char>(bytes[i]);
  bytes.remove_prefix(size);
  return sum;
}

struct Inputs {
  Timestamp now;
  scheduler::Budget budget;
  scheduler::Policy policy;
  scheduler::Snapshot snapshot;
};

Result<Inputs> read(std::string_view bytes) {
  if (bytes.size() < kHeadBytes) return differs("its record is cut short");
  if (take(bytes, 4) != kForm) return differs("its record has a form that is not known here");
  Inputs out;
  out.now.nanos = static_cast<std::int64_t>(take(bytes, 8));
  out.budget.preemption_tries = static_cast<std::uint32_t>(take(bytes, 4));
  out.budget.max_preemptions = static_cast<std::uint32_t>(take(bytes, 4));
  out.budget.placement_tries = static_cast<std::uint32_t>(take(bytes, 4));
  out.budget.explain = take(bytes, 1) == 0 ? scheduler::Explain::kCode : scheduler::Explain::kFull;
  const std::uint64_t policy = take(bytes, 8);
  if (policy > bytes.size()) return differs("its record is cut short");
  out.policy = FALAJ_TRY(scheduler::decode_policy(bytes.substr(0, policy)));
  out.snapshot = FALAJ_TRY(scheduler::decode_snapshot(bytes.substr(policy)));
  FALAJ_TRY(scheduler::check(out.snapshot));
  return out;
}

}  // namespace

DecisionRecord::DecisionRecord(const scheduler::Snapshot& snapshot, const scheduler::Policy& policy,
                               Timestamp now, const scheduler::Budget& budget,
                               scheduler::Decisions decisions)
    : snapshot_(scheduler::encode(snapshot)),
      policy_(scheduler::encode(policy)),
      now_(now),
      budget_(budget),
      decisions_(std::move(decisions)) {}

const DecisionRecord::Packed& DecisionRecord::packed() const {
  MutexLock lock(mutex_);
  if (packed_) return *packed_;
  scheduler::Encoder head;
  head.put(kForm, now_, budget_.preemption_tries, budget_.max_preemptions, budget_.placement_tries,
           budget_.explain, static_cast<std::uint64_t>(policy_.size()));
  const std::string plain = head.str() + policy_ + snapshot_;
  scheduler::Decisions certified = decisions_;
  certified.certificate.snapshot = sha256(snapshot_);
  certified.certificate.policy = sha256(policy_);
  Packed out;
  out.id = sha256_hex(plain);
  out.detail["id"] = out.id;
  out.detail["snapshot"] = certified.certificate.snapshot.hex();
  out.detail["policy"] = certified.certificate.policy.hex();
  out.detail["decisions"] = sha256_hex(scheduler::encode(certified));
  out.detail["admitted"] = static_cast<std::int64_t>(decisions_.admit.size());
  out.detail["preempted"] = static_cast<std::int64_t>(decisions_.preempt.size());
  out.detail["claimed"] = claims(decisions_);
  auto body = net::deflate(plain, net::Coding::kDeflate);
  if (body.ok() && body->size() <= kBodyMax) out.body = *std::move(body);
  packed_ = std::make_unique<const Packed>(std::move(out));
  return *packed_;
}

Result<Value> replay_decision(std::string_view body, const Value& detail) {
  const std::string plain = FALAJ_TRY(net::inflate(body, net::Coding::kDeflate, kPlainMax));
  if (sha256_hex(plain) != detail.text("id")) return differs("its record is another one's");
  Inputs inputs = FALAJ_TRY(read(plain));
  inputs.budget.digest = 1;
  const scheduler::Decisions again =
      scheduler::decide(inputs.snapshot, inputs.policy, inputs.now, inputs.budget);
  if (again.certificate.snapshot.hex() != detail.text("snapshot") ||
      again.certificate.policy.hex() != detail.text("policy")) {
    return differs("its certificate is of another snapshot or policy");
  }
  if (sha256_hex(scheduler::encode(again)) != detail.text("decisions")) {
    return differs("deciding again gives something else");
  }
  const auto violations = scheduler::verify(inputs.snapshot, inputs.policy, inputs.now, again);
  if (!violations.empty()) {
    return differs("it breaks the rule '" + std::string(violations.front().rule) + "'");
  }
  const auto sizes = [&](const auto& placed) {
    Value list = Value::array();
    for (const auto& each : placed) {
      Value one;
      one["number"] = static_cast<std::int64_t>(inputs.snapshot.jobs[each.job].id);
      one["workers"] = std::int64_t{each.placement.counts.front()};
      list.push(std::move(one));
    }
    return list;
  };
  Value out;
  out["started"] = sizes(again.admit);
  out["resized"] = sizes(again.resize);
  out["admitted"] = static_cast<std::int64_t>(again.admit.size());
  out["preempted"] = static_cast<std::int64_t>(again.preempt.size());
  out["claimed"] = claims(again);
  out["held"] = static_cast<std::int64_t>(again.hold.size());
  out["jobs"] = static_cast<std::int64_t>(inputs.snapshot.jobs.size());
  out["nodes"] = static_cast<std::int64_t>(inputs.snapshot.nodes.size());
  return out;
}

}  // namespace falaj::jobs
