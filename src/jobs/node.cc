#include "jobs/node.h"

#include <algorithm>
#include <cmath>

#include "base/decode.h"
#include "jobs/scheduling_policy.h"

namespace falaj::jobs {
namespace {

constexpr std::size_t kIslandsMax = 32;
constexpr std::size_t kWindowsMax = 64;
constexpr std::int64_t kDevicesMost = static_cast<std::int64_t>(scheduler::kMaxDevices) - 1;
constexpr std::int64_t kMemoryMost = std::int64_t{1} << 50;
constexpr std::int64_t kWattsMost = 1'000'000;
constexpr double kPriceMost = 1e6;

Error wrong(const std::string& where, const std::string& what) {
  return Error(ErrorId::kOutOfRange, where + ": " + what);
}

// [[0, 1], [2, 3]] as a bit for each device.
Result<std::vector<std::uint16_t>> device_sets(Fields& fields, std::string_view key,
                                               std::size_t most) {
  std::vector<std::uint16_t> out;
  const Value::Array list = FALAJ_TRY(fields.list(key));
  const std::string named = "'" + std::string(key) + "'";
  if (list.size() > most) {
    return wrong(fields.where(), named + " lists at most " + std::to_string(most));
  }
  for (const Value& set : list) {
    if (!set.is_array()) return wrong(fields.where(), named + " are lists of GPUs: [[0, 1], [2]]");
    std::uint16_t mask = 0;
    for (const Value& device : set.as_array()) {
      if (!device.is_int() || device.as_int() < 0 || device.as_int() > kDevicesMost) {
        return wrong(fields.where(), named + ": GPUs are numbered 0 to 15");
      }
      mask = static_cast<std::uint16_t>(mask | 1U << device.as_int());
    }
    out.push_back(mask);
  }
  return out;
}

Status decode_gpu(Fields& spec, NodeSpec& out) {
  const Value value = FALAJ_TRY(spec.object("gpu"));
  Fields fields(value, spec.where() + " gpu");
  out.gpu_model = FALAJ_TRY(fields.text("model"));
  if (!out.gpu_model.empty()) FALAJ_TRY(check_name("model", out.gpu_model));
  out.gpu_memory_bytes = FALAJ_TRY(fields.bytes("memory", 0));
  if (out.gpu_memory_bytes < 0 || out.gpu_memory_bytes > kMemoryMost) {
    return wrong(fields.where(), "'memory' is at most 1024Ti");
  }
  const std::string mig = FALAJ_TRY(fields.choice("mig", {"none", "a100", "h100"}));
  out.mig = mig == "a100"   ? scheduler::MigGeometry::kA100
            : mig == "h100" ? scheduler::MigGeometry::kH100
                            : scheduler::MigGeometry::kNone;
  out.gpu_islands = FALAJ_TRY(device_sets(fields, "islands", kIslandsMax));
  return fields.finish();
}

Status decode_prices(Fields& spec, NodePrices& out) {
  const Value value = FALAJ_TRY(spec.object("prices"));
  Fields fields(value, spec.where() + " prices");
  for (auto [key, micros] : {std::pair{"cpu_hour", &out.micros_per_cpu_hour},
                             std::pair{"gpu_hour", &out.micros_per_gpu_hour}}) {
    const double price = FALAJ_TRY(fields.number(key, 0));
    if (!(price >= 0 && price <= kPriceMost)) {
      return wrong(fields.where(), "'" + std::string(key) + "' is within 0 and 1000000");
    }
    if (!fields.any(key).is_null()) *micros = std::llround(price * 1e6);
  }
  const std::int64_t watts = FALAJ_TRY(fields.integer("gpu_watts", 0, 0, kWattsMost));
  if (!fields.any("gpu_watts").is_null()) out.watts_per_gpu = watts;
  return fields.finish();
}

Result<Timestamp> time_of(Fields& fields, std::string_view key) {
  auto at = parse_timestamp(FALAJ_TRY(fields.required_text(key)));
  if (!at.ok()) return at.error().within(fields.where() + " " + std::string(key));
  return at;
}

Result<std::vector<Maintenance>> decode_maintenance(Fields& spec) {
  std::vector<Maintenance> out;
  const Value::Array list = FALAJ_TRY(spec.list("maintenance"));
  if (list.size() > kWindowsMax) return wrong(spec.where(), "'maintenance' lists at most 64");
  for (const Value& value : list) {
    Fields fields(value, spec.where() + " maintenance");
    const Timestamp from = FALAJ_TRY(time_of(fields, "from"));
    const Timestamp to = FALAJ_TRY(time_of(fields, "to"));
    FALAJ_TRY(fields.finish());
    if (to <= from) return wrong(fields.where(), "'to' is after 'from'");
    out.push_back({from, to});
  }
  std::sort(out.begin(), out.end(),
            [](const Maintenance& a, const Maintenance& b) { return a.from < b.from; });
  return out;
}

}  // namespace

Result<NodeSpec> decode_node(const storage::Object& object) {
  Fields fields(object.spec, "Node " + object.name + " spec");
  if (object.name != kThisNode) {
    return wrong("Node " + object.name, "jobs run on one machine, whose Node is called 'local'");
  }
  NodeSpec out;
  out.labels = FALAJ_TRY(decode_labels(object.labels, "Node " + object.name + " labels"));
  FALAJ_TRY(decode_gpu(fields, out));
  out.numa_gpus = FALAJ_TRY(device_sets(fields, "numa", scheduler::kMaxNumaNodes));
  FALAJ_TRY(decode_prices(fields, out.prices));
  const std::int64_t cap = FALAJ_TRY(fields.integer("power_cap", 0, 0, kWattsMost));
  if (!fields.any("power_cap").is_null()) out.power_cap = cap;
  out.maintenance = FALAJ_TRY(decode_maintenance(fields));
  out.closed = FALAJ_TRY(fields.boolean("closed", false));
  out.hot = FALAJ_TRY(fields.choice("temperature", {"normal", "hot"})) == "hot";
  FALAJ_TRY(fields.finish());
  return out;
}

scheduler::simulate::Prices NodePrices::over(scheduler::simulate::Prices prices) const {
  prices.micros_per_cpu_hour = micros_per_cpu_hour.value_or(prices.micros_per_cpu_hour);
  prices.micros_per_gpu_hour = micros_per_gpu_hour.value_or(prices.micros_per_gpu_hour);
  prices.watts_per_gpu = watts_per_gpu.value_or(prices.watts_per_gpu);
  return prices;
}

Status check_power(const storage::Object* node, const storage::Object* policy) {
  if (node == nullptr) return {};
  const NodeSpec spec = FALAJ_TRY(decode_node(*node));
  if (spec.power_cap == INT64_MAX) return {};
  const SchedulingPolicy rules =
      policy == nullptr ? first_come() : FALAJ_TRY(decode_scheduling_policy(*policy));
  if (spec.prices.over(rules.prices).watts_per_gpu > 0) return {};
  return Error(ErrorId::kInvalidArgument,
               "Node " + node->name +
                   ": 'power_cap' caps nothing while nobody says what a GPU draws: give "
                   "prices.gpu_watts of the Node or of the SchedulingPolicy in force");
}

Opening opening_of(const NodeSpec& node, Timestamp now) {
  if (node.closed) return {false, Timestamp::max()};
  Opening out;
  Timestamp end = now;
  for (const Maintenance& each : node.maintenance) {
    if (each.to <= now) continue;
    if (each.from > end) {
      // After those that are on now, or touch them.
      if (out.open) out.until = each.from;
      return out;
    }
    end = std::max(end, each.to);
    out = {false, end};
  }
  return out;
}

storage::KindInfo node_kind() {
  storage::KindInfo info;
  info.kind = "Node";
  info.scope = storage::Scope::kPlatform;
  info.summary =
      "What the machine that runs jobs is: labels, GPUs, NUMA nodes, prices, and when it is "
      "closed; "
      "it is named 'local'.";
  info.check = [](const storage::Object& object) -> Result<std::vector<storage::Reference>> {
    FALAJ_TRY(decode_node(object));
    return std::vector<storage::Reference>{};
  };
  info.check_beside = [](const storage::Object& object, const storage::FindObject& find) {
    return check_power(&object, find({"SchedulingPolicy", "", std::string(kPolicyInForce)}));
  };
  return info;
}

}  // namespace falaj::jobs
