#include "launch/contract.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "base/json.h"

namespace falaj::launch {
namespace {

// Which of a member's ports is whose.
constexpr std::size_t kMasterPort = 0;   // torch's store, on the first member.
constexpr std::size_t kTrackerPort = 1;  // XGBoost's tracker, on the first member.
constexpr std::size_t kRootPort = 2;     // MXNet's scheduler, on the first member.
constexpr std::size_t kWorkerPorts = 3;  // One each, then one for each server.

constexpr int kMembersMax = 4096;
constexpr int kWorkersMax = 65'536;

std::string text(std::int64_t number) { return std::to_string(number); }

int first_rank_of(const Gang& gang, int member) {
  int rank = 0;
  for (int i = 0; i < member; ++i) rank += gang.members[static_cast<std::size_t>(i)].workers;
  return rank;
}

const Member& member_of(const Gang& gang, int index) {
  return gang.members[static_cast<std::size_t>(index)];
}

std::string endpoint(const Member& member, std::size_t port) {
  return member.host + ":" + text(member.ports[port]);
}

// "host:port" of every worker, by rank.
std::vector<std::string> worker_endpoints(const Gang& gang) {
  std::vector<std::string> all;
  for (const Member& member : gang.members) {
    for (int i = 0; i < member.workers; ++i) {
      all.push_back(endpoint(member, kWorkerPorts + static_cast<std::size_t>(i)));
    }
  }
  return all;
}

// Which of its member's ports a process has.
std::size_t port_of(const Gang& gang, const Place& place) {
  const int workers = member_of(gang, place.member).workers;
  switch (place.role) {
    case Role::kWorker:
      return kWorkerPorts + static_cast<std::size_t>(place.local_rank);
    case Role::kServer:
      return kWorkerPorts + static_cast<std::size_t>(workers + place.rank);
    case Role::kScheduler:
      return kRootPort;
    case Role::kEvaluator:
      return kWorkerPorts + static_cast<std::size_t>(workers + gang.servers + place.rank);
  }
  return kRootPort;
}

// The group of a process, and which of it that is; null without groups.
struct OwnGroup {
  const Group* group = nullptr;
  int index = 0;
};
OwnGroup group_of(const Gang& gang, const Place& place) {
  const InGroup found = find_process(gang.groups, process_number(gang, place));
  if (found.group == InGroup::kAbsent) return {};
  return {&gang.groups[found.group], found.index};
}

bool has_chief(const Gang& gang) {
  if (gang.groups.empty()) return gang.servers > 0;
  return gang.groups.front().chief;
}

// The members that have a worker with this local rank, and how many of them come before `member`.
struct Cross {
  int rank = 0;
  int size = 0;
};
Cross cross_of(const Gang& gang, const Place& place) {
  Cross cross;
  for (int i = 0; i < static_cast<int>(gang.members.size()); ++i) {
    if (member_of(gang, i).workers <= place.local_rank) continue;
    cross.rank += i < place.member ? 1 : 0;
    ++cross.size;
  }
  return cross;
}

std::string endpoint_of(const Gang& gang, const Place& place) {
  return endpoint(member_of(gang, place.member), port_of(gang, place));
}

using Names = std::map<std::string, std::string>;

void add_torch(Names& env, const Gang& gang, const Place& place, const Surroundings& around) {
  const Member& first = gang.members.front();
  const Member& own = member_of(gang, place.member);
  const std::string world = text(gang.world());
  const OwnGroup role = group_of(gang, place);
  env["RANK"] = text(place.rank);
  env["ROLE_RANK"] = text(role.group != nullptr ? role.index : place.rank);
  env["WORLD_SIZE"] = world;
  env["ROLE_WORLD_SIZE"] = role.group != nullptr ? text(role.group->count) : world;
  env["LOCAL_RANK"] = text(place.local_rank);
  env["LOCAL_WORLD_SIZE"] = text(own.workers);
  env["GROUP_RANK"] = text(place.member);
  env["GROUP_WORLD_SIZE"] = text(static_cast<std::int64_t>(gang.members.size()));
  env["ROLE_NAME"] = role.group != nullptr ? role.group->name : "default";
  env["MASTER_ADDR"] = env["PET_MASTER_ADDR"] = first.host;
  env["MASTER_PORT"] = env["PET_MASTER_PORT"] = text(first.ports[kMasterPort]);
  env["TORCHELASTIC_RESTART_COUNT"] = text(gang.attempt);
  env["TORCHELASTIC_MAX_RESTARTS"] = text(gang.restarts_max);
  env["TORCHELASTIC_RUN_ID"] = gang.run_id;
  env["TORCHELASTIC_USE_AGENT_STORE"] = "False";  // Rank 0 keeps the store.
  env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1";
  env["PET_NNODES"] = env["GROUP_WORLD_SIZE"];
  env["PET_NPROC_PER_NODE"] = text(own.workers);
  env["PET_NODE_RANK"] = text(place.member);
  env["OMP_NUM_THREADS"] = text(std::max(1, around.cpus / std::max(1, own.workers)));
  if (!around.folder.empty()) {
    env["TORCHELASTIC_ERROR_FILE"] = around.folder + "/error-" + text(place.rank) + ".json";
  }
}

// HOROVOD_ELASTIC is not set: a restart of ours is a new gang, which the plain start reads.
void add_horovod(Names& env, const Gang& gang, const Place& place, const Surroundings& around) {
  const Member& own = member_of(gang, place.member);
  const Cross cross = cross_of(gang, place);
  env["HOROVOD_HOSTNAME"] = own.host;
  env["HOROVOD_RANK"] = text(place.rank);
  env["HOROVOD_SIZE"] = text(gang.world());
  env["HOROVOD_LOCAL_RANK"] = text(place.local_rank);
  env["HOROVOD_LOCAL_SIZE"] = text(own.workers);
  env["HOROVOD_CROSS_RANK"] = env["CROSS_RANK"] = text(cross.rank);
  env["HOROVOD_CROSS_SIZE"] = env["CROSS_SIZE"] = text(cross.size);
  env["HOROVOD_CONTROLLER"] = "gloo";
  env["HOROVOD_CPU_OPERATIONS"] = "gloo";
  env["LOCAL_SIZE"] = text(own.workers);  // DeepSpeed's, as CROSS_*.
  env["PYTHONUNBUFFERED"] = "1";
  if (!own.interface.empty()) {
    env["HOROVOD_GLOO_IFACE"] = own.interface;
    env["NCCL_SOCKET_IFNAME"] = own.interface;
    env["GLOO_SOCKET_IFNAME"] = own.interface;
  }
  if (around.rendezvous_port == 0) return;
  env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = around.rendezvous_host;
  env["HOROVOD_GLOO_RENDEZVOUS_PORT"] = text(around.rendezvous_port);
}

// SLURM_NTASKS, SLURM_NODELIST and SLURM_STEPID stay away: with them Lightning and Open MPI believe
// that srun started them, and look for what only Slurm has.
void add_mpi(Names& env, const Gang& gang, const Place& place) {
  const Member& own = member_of(gang, place.member);
  const std::string rank = text(place.rank);
  const std::string size = text(gang.world());
  const std::string local = text(place.local_rank);
  const std::string local_size = text(own.workers);
  for (const char* family : {"OMPI", "MV2"}) {
    const std::string prefix = std::string(family) + "_COMM_WORLD_";
    env[prefix + "RANK"] = rank;
    env[prefix + "SIZE"] = size;
    env[prefix + "LOCAL_RANK"] = local;
    env[prefix + "LOCAL_SIZE"] = local_size;
  }
  env["OMPI_COMM_WORLD_NODE_RANK"] = local;
  env["PMI_RANK"] = env["SLURM_PROCID"] = rank;
  env["PMI_SIZE"] = env["SLURM_NPROCS"] = size;
  env["MPI_LOCALRANKID"] = env["SLURM_LOCALID"] = local;
  env["MPI_LOCALNRANKS"] = local_size;
  env["SLURM_NODEID"] = text(place.member);
  env["SLURM_NNODES"] = text(static_cast<std::int64_t>(gang.members.size()));
}

std::string role_name(Role role) {
  switch (role) {
    case Role::kWorker:
      return "worker";
    case Role::kServer:
      return "server";
    case Role::kScheduler:
      return "scheduler";
    case Role::kEvaluator:
      return "evaluator";
  }
  return "worker";
}

void add_dmlc(Names& env, const Gang& gang, const Place& place) {
  const Member& first = gang.members.front();
  env["DMLC_TRACKER_URI"] = env["DMLC_PS_ROOT_URI"] = first.host;
  env["DMLC_TRACKER_PORT"] = text(first.ports[kTrackerPort]);
  env["DMLC_PS_ROOT_PORT"] = text(first.ports[kRootPort]);
  env["DMLC_TASK_ID"] = text(place.rank);
  env["DMLC_NUM_ATTEMPT"] = text(gang.attempt);
  env["DMLC_WORKER_CONNECT_RETRY"] = "5";
  env["DMLC_NUM_WORKER"] = text(gang.world());
  env["DMLC_NUM_SERVER"] = text(gang.servers);
  // An evaluator is nobody to MXNet.
  if (place.role != Role::kEvaluator) env["DMLC_ROLE"] = role_name(place.role);
}

void add_own(Names& env, const Gang& gang, const Place& place, const Surroundings& around) {
  env["FALAJ_RUN_ID"] = gang.run_id;
  env["FALAJ_ATTEMPT"] = text(gang.attempt);
  env["FALAJ_RANK"] = text(place.rank);
  env["FALAJ_LOCAL_RANK"] = text(place.local_rank);
  env["FALAJ_WORLD_SIZE"] = text(gang.world());
  env["FALAJ_WORKERS_MIN"] = text(gang.workers_min);
  env["FALAJ_WORKERS_MAX"] = text(gang.workers_max);
  env["FALAJ_NODE"] = text(place.member);
  env["FALAJ_NODES"] = text(static_cast<std::int64_t>(gang.members.size()));
  env["FALAJ_ROLE"] = role_name(place.role);
  env["FALAJ_PORT"] = text(member_of(gang, place.member).ports[port_of(gang, place)]);
  env["FALAJ_GRACE_MS"] = text(gang.grace.nanos / 1'000'000);
  env["FALAJ_DEADLINE_FD"] = text(around.deadline_fd);
  if (around.metrics_fd >= 0) env["FALAJ_METRICS_FD"] = text(around.metrics_fd);
  env["FALAJ_LIGHTGBM_MACHINES"] = machines(gang);
  if (!around.checkpoint_folder.empty()) env["FALAJ_CKPT_DIR"] = around.checkpoint_folder;
  if (!around.restore_path.empty()) env["FALAJ_CKPT_RESTORE"] = around.restore_path;
  if (around.folder.empty()) return;
  env["FALAJ_LAUNCH_DIR"] = around.folder;
  env["FALAJ_HOSTFILE"] = around.folder + "/hostfile";
  env["OMPI_MCA_orte_default_hostfile"] = env["FALAJ_HOSTFILE"];
  env["FALAJ_LIGHTGBM_MACHINE_LIST"] = around.folder + "/machines";
}

// Which of its member's devices are a process's own.
struct DeviceRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

// Of groups, those before it on its member have theirs first.
DeviceRange grouped_devices(const Gang& gang, const Place& place) {
  DeviceRange own;
  const int number = process_number(gang, place);
  for (const Place& other : places_on(gang, place.member)) {
    const auto each = static_cast<std::size_t>(group_of(gang, other).group->devices_each);
    const int before = process_number(gang, other);
    if (before < number) own.first += each;
    if (before == number) own.count = each;
  }
  return own;
}

// Without groups helpers have none.
void add_devices(Names& env, const Gang& gang, const Place& place, const Surroundings& around) {
  if (around.devices_each <= 0) return;
  const auto each = static_cast<std::size_t>(around.devices_each);
  const DeviceRange range = gang.groups.empty()
                                ? DeviceRange{each * static_cast<std::size_t>(place.local_rank),
                                              place.role == Role::kWorker ? each : 0}
                                : grouped_devices(gang, place);
  std::string own;
  for (std::size_t i = range.first; i < range.first + range.count && i < around.devices.size();
       ++i) {
    own += (own.empty() ? "" : ",") + around.devices[i];
  }
  env["CUDA_VISIBLE_DEVICES"] = env["NVIDIA_VISIBLE_DEVICES"] = own;
}

void add_group(Names& env, const Gang& gang, const Place& place) {
  const OwnGroup own = group_of(gang, place);
  if (own.group == nullptr) return;
  env["FALAJ_GROUP"] = own.group->name;
  env["FALAJ_GROUP_RANK"] = text(own.index);
  env["FALAJ_GROUP_SIZE"] = text(own.group->count);
  env["FALAJ_GROUP_PEERS"] = group_peers(gang);
  if (own.group->chief) env["FALAJ_ROLE"] = "chief";
  if (own.group->threads > 0) env["OMP_NUM_THREADS"] = text(own.group->threads);
}

Value texts(const std::vector<std::string>& all) {
  Value list = Value::array();
  for (const std::string& each : all) list.push(each);
  return list;
}

Result<Member> decode_member(const Value& value, int listeners) {
  Member member;
  member.host = value.text("host");
  member.interface = value.text("interface");
  const std::int64_t workers = value.integer("workers", -1);
  if (member.host.empty() || workers < 0 || workers > kWorkersMax || !value["ports"].is_array()) {
    return Error(Code::kInvalidArgument, "a member of a gang needs a host, workers and ports");
  }
  member.workers = static_cast<int>(workers);
  for (const Value& port : value["ports"].as_array()) {
    if (!port.is_int() || port.as_int() < 1 || port.as_int() > 65'535) {
      return Error(Code::kInvalidArgument, "a port of " + member.host + " is not 1 to 65535");
    }
    member.ports.push_back(static_cast<std::uint16_t>(port.as_int()));
  }
  if (static_cast<int>(member.ports.size()) < ports_needed(member.workers, listeners)) {
    return Error(Code::kInvalidArgument, member.host + " brings too few ports for its workers");
  }
  return member;
}

Status decode_groups(const Value& value, Gang& gang) {
  if (!value.is_array()) return {};
  if (value.as_array().size() > kGroupsMax) {
    return Error(Code::kInvalidArgument, "a gang has at most 8 groups");
  }
  for (const Value& each : value.as_array()) {
    Group group = FALAJ_TRY(decode_group(each));
    gang.groups.push_back(std::move(group));
  }
  FALAJ_TRY(check_groups(gang.groups));
  gang.groups = in_order(std::move(gang.groups));
  gang.servers = 0;
  for (const Group& group : gang.groups) {
    if (group.role == Role::kServer) gang.servers += group.count;
  }
  return {};
}

Result<Gang> count_groups(Gang gang) {
  if (gang.groups.empty()) return gang;
  const int workers = gang.world();
  if (workers < workers_min(gang.groups) || workers > workers_max(gang.groups)) {
    return Error(Code::kInvalidArgument, "a gang has other workers than its groups say");
  }
  gang.groups = counted(std::move(gang.groups), workers);
  return gang;
}

}  // namespace

int Gang::world() const {
  int sum = 0;
  for (const Member& member : members) sum += member.workers;
  return sum;
}

int Gang::listeners() const {
  int evaluators = 0;
  for (const Group& group : groups) {
    if (group.role == Role::kEvaluator) evaluators += group.count;
  }
  return servers + evaluators;
}

int ports_needed(int workers, int listeners) {
  return static_cast<int>(kWorkerPorts) + workers + listeners;
}

std::vector<Place> places_on(const Gang& gang, int member) {
  std::vector<Place> places;
  const int first = first_rank_of(gang, member);
  for (int i = 0; i < member_of(gang, member).workers; ++i) {
    places.push_back({Role::kWorker, first + i, member, i});
  }
  if (member != 0) return places;
  for (const Group& group : gang.groups) {
    if (group.role == Role::kWorker) continue;
    for (int i = 0; i < group.count; ++i) places.push_back({group.role, i, 0, 0});
  }
  if (!gang.groups.empty() || gang.servers == 0) return places;
  places.push_back({Role::kScheduler, 0, 0, 0});
  for (int i = 0; i < gang.servers; ++i) places.push_back({Role::kServer, i, 0, 0});
  return places;
}

int process_number(const Gang& gang, const Place& place) {
  if (place.role == Role::kWorker) return place.rank;
  if (gang.groups.empty()) {
    return gang.world() + (place.role == Role::kServer ? 1 + place.rank : 0);
  }
  int number = gang.world() + place.rank;
  for (const Group& group : gang.groups) {
    if (group.role != Role::kWorker && group.role < place.role) number += group.count;
  }
  return number;
}

std::string process_name(const Gang& gang, const Place& place) {
  if (!gang.groups.empty()) return process_name(gang.groups, process_number(gang, place));
  if (place.role == Role::kScheduler) return "scheduler";
  return (place.role == Role::kServer ? "server " : "") + text(place.rank);
}

Environment environment(const Gang& gang, const Place& place, const Surroundings& around) {
  FALAJ_CHECK(!gang.members.empty());
  Names env;
  if (place.role == Role::kWorker) {
    add_torch(env, gang, place, around);
    add_horovod(env, gang, place, around);
    add_mpi(env, gang, place);
  }
  env["TF_CONFIG"] = tf_config(gang, place);
  add_dmlc(env, gang, place);
  add_own(env, gang, place, around);
  add_group(env, gang, place);
  add_devices(env, gang, place, around);
  return {env.begin(), env.end()};
}

Environment merged(const Environment& inherited, const Environment& set) {
  Names env(inherited.begin(), inherited.end());
  for (const auto& [name, value] : set) {
    if (name == "OMP_NUM_THREADS" && env.contains(name)) continue;
    env[name] = value;
  }
  return {env.begin(), env.end()};
}

std::string hostfile(const Gang& gang) {
  std::string out;
  std::set<std::string> seen;
  for (const Member& member : gang.members) {
    if (!seen.insert(member.host).second) continue;
    int slots = 0;
    for (const Member& other : gang.members) slots += other.host == member.host ? other.workers : 0;
    out += member.host + " slots=" + text(slots) + "\n";
  }
  return out;
}

std::string machine_list(const Gang& gang) {
  std::string out;
  for (std::string line : worker_endpoints(gang)) {
    line[line.rfind(':')] = ' ';
    out += line + "\n";
  }
  return out;
}

std::string machines(const Gang& gang) {
  std::string out;
  for (const std::string& each : worker_endpoints(gang)) out += (out.empty() ? "" : ",") + each;
  return out;
}

std::string tf_config(const Gang& gang, const Place& place) {
  std::vector<std::string> workers = worker_endpoints(gang);
  Value value = Value::object();
  Value& cluster = value["cluster"];
  Value& task = value["task"];
  task["type"] = "worker";
  task["index"] = place.rank;
  if (place.role == Role::kServer) task["type"] = "ps";
  if (place.role == Role::kScheduler || place.role == Role::kEvaluator) task["type"] = "evaluator";
  if (has_chief(gang)) {
    cluster["chief"] = texts({workers.front()});
    workers.erase(workers.begin());
    if (place.role == Role::kWorker) {
      task["type"] = place.rank == 0 ? "chief" : "worker";
      task["index"] = std::max(0, place.rank - 1);
    }
  }
  std::vector<std::string> servers;
  for (int i = 0; i < gang.servers; ++i) servers.push_back(endpoint_of(gang, {Role::kServer, i}));
  if (!servers.empty()) cluster["ps"] = texts(servers);
  if (!workers.empty()) cluster["worker"] = texts(workers);
  return to_json(value);
}

std::string group_peers(const Gang& gang) {
  Value value = Value::object();
  for (int member = 0; member < static_cast<int>(gang.members.size()); ++member) {
    for (const Place& place : places_on(gang, member)) {
      const OwnGroup own = group_of(gang, place);
      if (own.group != nullptr) value[own.group->name].push(endpoint_of(gang, place));
    }
  }
  return to_json(value);
}

Value to_value(const Gang& gang) {
  Value value = Value::object();
  value["run_id"] = gang.run_id;
  value["attempt"] = gang.attempt;
  value["restarts_max"] = gang.restarts_max;
  value["workers_min"] = gang.workers_min;
  value["workers_max"] = gang.workers_max;
  value["servers"] = gang.servers;
  value["grace_ms"] = gang.grace.nanos / 1'000'000;
  value["members"] = Value::array();
  for (const Member& member : gang.members) {
    Value each = Value::object();
    each["host"] = member.host;
    each["interface"] = member.interface;
    each["workers"] = member.workers;
    each["ports"] = Value::array();
    for (const std::uint16_t port : member.ports) each["ports"].push(int{port});
    value["members"].push(std::move(each));
  }
  for (const Group& group : gang.groups) value["groups"].push(to_value(group));
  return value;
}

Result<Gang> decode_gang(const Value& value) {
  const auto count = [&value](std::string_view key, std::int64_t most) {
    return static_cast<int>(std::clamp<std::int64_t>(value.integer(key), 0, most));
  };
  Gang gang;
  gang.run_id = value.text("run_id");
  gang.attempt = count("attempt", 1'000'000'000);
  gang.restarts_max = count("restarts_max", 1'000'000'000);
  gang.workers_min = count("workers_min", kWorkersMax);
  gang.workers_max = count("workers_max", kWorkersMax);
  gang.servers = count("servers", kWorkersMax);
  gang.grace = Duration::milliseconds(count("grace_ms", 1'000'000'000));
  const Value& members = value["members"];
  if (!members.is_array() || members.as_array().empty() ||
      members.as_array().size() > static_cast<std::size_t>(kMembersMax)) {
    return Error(Code::kInvalidArgument, "a gang needs 1 to 4096 members");
  }
  FALAJ_TRY(decode_groups(value["groups"], gang));
  for (const Value& each : members.as_array()) {
    // Helpers run on the first.
    const int listeners = gang.members.empty() ? gang.listeners() : 0;
    Member member = FALAJ_TRY(decode_member(each, listeners));
    gang.members.push_back(std::move(member));
  }
  if (gang.world() < 1 || gang.world() > kWorkersMax) {
    return Error(Code::kInvalidArgument, "a gang needs 1 to 65536 workers");
  }
  return count_groups(std::move(gang));
}

}  // namespace falaj::launch
