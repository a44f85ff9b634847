#include "launch/contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace falaj::launch {
namespace {

// Two nodes, the first with two workers and the second with one.
Gang small_gang() {
  Gang gang;
  gang.run_id = "run7";
  gang.attempt = 2;
  gang.restarts_max = 3;
  gang.workers_min = 1;
  gang.workers_max = 4;
  gang.grace = Duration::seconds(30);
  gang.members = {{"10.0.0.1", "eth0", 2, {9000, 9001, 9002, 9010, 9011}},
                  {"10.0.0.2", "eth1", 1, {9000, 9001, 9002, 9010}}};
  return gang;
}

using Names = std::map<std::string, std::string>;

Names names_of(const Gang& gang, const Place& place, const Surroundings& around = {}) {
  const Environment env = environment(gang, place, around);
  EXPECT_TRUE(std::is_sorted(env.begin(), env.end()));
  return {env.begin(), env.end()};
}

// Every expected variable, and the names with the prefix are exactly those that are expected.
void expect_exactly(const Names& env, const std::string& prefix, const Names& expected) {
  Names found;
  for (const auto& [name, value] : env) {
    if (name.starts_with(prefix)) found[name] = value;
  }
  EXPECT_EQ(found, expected) << prefix;
}

const Place kLast{Role::kWorker, 2, 1, 0};

TEST(Contract, places_are_ranks_in_the_order_of_members) {
  const Gang gang = small_gang();
  EXPECT_EQ(gang.world(), 3);
  ASSERT_EQ(places_on(gang, 0).size(), 2u);
  EXPECT_EQ(places_on(gang, 0)[1].rank, 1);
  EXPECT_EQ(places_on(gang, 0)[1].local_rank, 1);
  ASSERT_EQ(places_on(gang, 1).size(), 1u);
  EXPECT_EQ(places_on(gang, 1)[0].rank, 2);
  EXPECT_EQ(places_on(gang, 1)[0].local_rank, 0);
}

TEST(Contract, devices_are_shared_out_by_local_rank) {
  Gang gang = small_gang();
  const auto seen = [&](const Place& place, int each) {
    const Names env = names_of(gang, place, {.devices = {"4", "5", "7"}, .devices_each = each});
    const auto found = env.find("CUDA_VISIBLE_DEVICES");
    EXPECT_EQ(found == env.end(), !env.contains("NVIDIA_VISIBLE_DEVICES"));
    return found == env.end() ? "nothing said" : found->second;
  };
  EXPECT_EQ(seen({Role::kWorker, 0, 0, 0}, 1), "4");
  EXPECT_EQ(seen({Role::kWorker, 1, 0, 1}, 1), "5");
  EXPECT_EQ(seen(kLast, 2), "4,5") << "the first on its own node";
  EXPECT_EQ(seen({Role::kWorker, 1, 0, 1}, 2), "7") << "what there is";
  EXPECT_EQ(seen(kLast, 0), "nothing said");
  gang.servers = 1;
  gang.members[0].ports.push_back(9012);
  EXPECT_EQ(seen({Role::kServer, 0, 0, 0}, 1), "");
}

TEST(Contract, torchrun) {
  const Names env = names_of(small_gang(), kLast, {.folder = "/run/x", .cpus = 8});
  const Names expected = {{"RANK", "2"},
                          {"WORLD_SIZE", "3"},
                          {"LOCAL_RANK", "0"},
                          {"LOCAL_WORLD_SIZE", "1"},
                          {"GROUP_RANK", "1"},
                          {"GROUP_WORLD_SIZE", "2"},
                          {"ROLE_RANK", "2"},
                          {"ROLE_WORLD_SIZE", "3"},
                          {"ROLE_NAME", "default"},
                          {"MASTER_ADDR", "10.0.0.1"},
                          {"MASTER_PORT", "9000"},
                          {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                          {"OMP_NUM_THREADS", "8"}};
  for (const auto& [name, value] : expected) EXPECT_EQ(env.at(name), value) << name;
  expect_exactly(env, "TORCHELASTIC_",
                 {{"TORCHELASTIC_RESTART_COUNT", "2"},
                  {"TORCHELASTIC_MAX_RESTARTS", "3"},
                  {"TORCHELASTIC_RUN_ID", "run7"},
                  {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                  {"TORCHELASTIC_ERROR_FILE", "/run/x/error-2.json"}});
  expect_exactly(env, "PET_",
                 {{"PET_NNODES", "2"},
                  {"PET_NPROC_PER_NODE", "1"},
                  {"PET_NODE_RANK", "1"},
                  {"PET_MASTER_ADDR", "10.0.0.1"},
                  {"PET_MASTER_PORT", "9000"}});
  EXPECT_EQ(names_of(small_gang(), {Role::kWorker, 0, 0, 0}, {.cpus = 8}).at("OMP_NUM_THREADS"),
            "4");
}

TEST(Contract, horovod) {
  const Surroundings around{.rendezvous_host = "10.0.0.1", .rendezvous_port = 8100};
  expect_exactly(names_of(small_gang(), kLast, around), "HOROVOD_",
                 {{"HOROVOD_HOSTNAME", "10.0.0.2"},
                  {"HOROVOD_RANK", "2"},
                  {"HOROVOD_SIZE", "3"},
                  {"HOROVOD_LOCAL_RANK", "0"},
                  {"HOROVOD_LOCAL_SIZE", "1"},
                  {"HOROVOD_CROSS_RANK", "1"},
                  {"HOROVOD_CROSS_SIZE", "2"},
                  {"HOROVOD_CONTROLLER", "gloo"},
                  {"HOROVOD_CPU_OPERATIONS", "gloo"},
                  {"HOROVOD_GLOO_IFACE", "eth1"},
                  {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.1"},
                  {"HOROVOD_GLOO_RENDEZVOUS_PORT", "8100"}});
  // Only the first node has a worker with local rank 1.
  const Names second = names_of(small_gang(), {Role::kWorker, 1, 0, 1}, around);
  EXPECT_EQ(second.at("HOROVOD_CROSS_RANK"), "0");
  EXPECT_EQ(second.at("HOROVOD_CROSS_SIZE"), "1");
  EXPECT_EQ(second.at("PYTHONUNBUFFERED"), "1");
  EXPECT_EQ(second.at("NCCL_SOCKET_IFNAME"), "eth0");
}

TEST(Contract, deepspeed) {
  const Names env = names_of(small_gang(), kLast, {.folder = "/run/x"});
  EXPECT_EQ(env.at("CROSS_RANK"), "1");
  EXPECT_EQ(env.at("CROSS_SIZE"), "2");
  EXPECT_EQ(env.at("LOCAL_SIZE"), "1");
  EXPECT_EQ(hostfile(small_gang()), "10.0.0.1 slots=2\n10.0.0.2 slots=1\n");
  Gang shared = small_gang();
  shared.members[1].host = "10.0.0.1";  // A host that stands twice is an error to DeepSpeed.
  EXPECT_EQ(hostfile(shared), "10.0.0.1 slots=3\n");
}

TEST(Contract, mpi_and_slurm) {
  const Names env = names_of(small_gang(), kLast, {.folder = "/run/x"});
  expect_exactly(env, "OMPI_",
                 {{"OMPI_COMM_WORLD_RANK", "2"},
                  {"OMPI_COMM_WORLD_SIZE", "3"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                  {"OMPI_COMM_WORLD_NODE_RANK", "0"},
                  {"OMPI_MCA_orte_default_hostfile", "/run/x/hostfile"}});
  expect_exactly(env, "MV2_",
                 {{"MV2_COMM_WORLD_RANK", "2"},
                  {"MV2_COMM_WORLD_SIZE", "3"},
                  {"MV2_COMM_WORLD_LOCAL_RANK", "0"},
                  {"MV2_COMM_WORLD_LOCAL_SIZE", "1"}});
  expect_exactly(env, "PMI_", {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}});
  expect_exactly(env, "MPI_", {{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}});
  expect_exactly(env, "SLURM_",
                 {{"SLURM_PROCID", "2"},
                  {"SLURM_NPROCS", "3"},
                  {"SLURM_LOCALID", "0"},
                  {"SLURM_NODEID", "1"},
                  {"SLURM_NNODES", "2"}});
}

TEST(Contract, tensorflow) {
  EXPECT_EQ(tf_config(small_gang(), kLast),
            R"({"cluster":{"worker":["10.0.0.1:9010","10.0.0.1:9011","10.0.0.2:9010"]},)"
            R"("task":{"index":2,"type":"worker"}})");
}

TEST(Contract, tensorflow_with_parameter_servers_has_a_chief) {
  Gang gang = small_gang();
  gang.servers = 1;
  gang.members[0].ports.push_back(9012);
  const std::string cluster = R"({"cluster":{"chief":["10.0.0.1:9010"],"ps":["10.0.0.1:9012"],)"
                              R"("worker":["10.0.0.1:9011","10.0.0.2:9010"]},"task":)";
  EXPECT_EQ(tf_config(gang, {Role::kWorker, 0, 0, 0}), cluster + R"({"index":0,"type":"chief"}})");
  EXPECT_EQ(tf_config(gang, kLast), cluster + R"({"index":1,"type":"worker"}})");
  EXPECT_EQ(tf_config(gang, {Role::kServer, 0, 0, 0}), cluster + R"({"index":0,"type":"ps"}})");
}

TEST(Contract, xgboost_and_mxnet) {
  Gang gang = small_gang();
  gang.servers = 2;
  gang.members[0].ports.insert(gang.members[0].ports.end(), {9012, 9013});
  expect_exactly(names_of(gang, kLast), "DMLC_",
                 {{"DMLC_TRACKER_URI", "10.0.0.1"},
                  {"DMLC_TRACKER_PORT", "9001"},
                  {"DMLC_TASK_ID", "2"},
                  {"DMLC_NUM_ATTEMPT", "2"},
                  {"DMLC_WORKER_CONNECT_RETRY", "5"},
                  {"DMLC_ROLE", "worker"},
                  {"DMLC_PS_ROOT_URI", "10.0.0.1"},
                  {"DMLC_PS_ROOT_PORT", "9002"},
                  {"DMLC_NUM_WORKER", "3"},
                  {"DMLC_NUM_SERVER", "2"}});
  const std::vector<Place> first = places_on(gang, 0);
  ASSERT_EQ(first.size(), 5u);
  EXPECT_EQ(places_on(gang, 1).size(), 1u);
  EXPECT_EQ(names_of(gang, first[2]).at("DMLC_ROLE"), "scheduler");
  EXPECT_EQ(names_of(gang, first[2]).at("FALAJ_PORT"), "9002");
  EXPECT_EQ(names_of(gang, first[4]).at("DMLC_ROLE"), "server");
  EXPECT_EQ(names_of(gang, first[4]).at("FALAJ_PORT"), "9013");
  EXPECT_EQ(process_number(gang, first[1]), 1);
  EXPECT_EQ(process_number(gang, first[2]), 3);
  EXPECT_EQ(process_number(gang, first[4]), 5);
  EXPECT_EQ(process_name(gang, first[1]), "1");
  EXPECT_EQ(process_name(gang, first[2]), "scheduler");
  EXPECT_EQ(process_name(gang, first[4]), "server 1");
  // A server is no rank of anything else.
  EXPECT_FALSE(names_of(gang, first[4]).contains("RANK"));
}

TEST(Contract, lightgbm) {
  EXPECT_EQ(machine_list(small_gang()), "10.0.0.1 9010\n10.0.0.1 9011\n10.0.0.2 9010\n");
  EXPECT_EQ(machines(small_gang()), "10.0.0.1:9010,10.0.0.1:9011,10.0.0.2:9010");
}

TEST(Contract, falajs_own) {
  const Surroundings around{
      .folder = "/run/x", .checkpoint_folder = "/dev/shm/c", .restore_path = "/kept/3"};
  expect_exactly(names_of(small_gang(), kLast, around), "FALAJ_",
                 {{"FALAJ_RUN_ID", "run7"},
                  {"FALAJ_ATTEMPT", "2"},
                  {"FALAJ_RANK", "2"},
                  {"FALAJ_LOCAL_RANK", "0"},
                  {"FALAJ_WORLD_SIZE", "3"},
                  {"FALAJ_WORKERS_MIN", "1"},
                  {"FALAJ_WORKERS_MAX", "4"},
                  {"FALAJ_NODE", "1"},
                  {"FALAJ_NODES", "2"},
                  {"FALAJ_ROLE", "worker"},
                  {"FALAJ_PORT", "9010"},
                  {"FALAJ_GRACE_MS", "30000"},
                  {"FALAJ_DEADLINE_FD", "3"},
                  {"FALAJ_CKPT_DIR", "/dev/shm/c"},
                  {"FALAJ_CKPT_RESTORE", "/kept/3"},
                  {"FALAJ_LAUNCH_DIR", "/run/x"},
                  {"FALAJ_HOSTFILE", "/run/x/hostfile"},
                  {"FALAJ_LIGHTGBM_MACHINE_LIST", "/run/x/machines"},
                  {"FALAJ_LIGHTGBM_MACHINES", machines(small_gang())}});
}

TEST(Contract, sets_over_what_is_inherited_but_for_the_threads) {
  EXPECT_EQ(merged({{"RANK", "9"}, {"HOME", "/h"}, {"OMP_NUM_THREADS", "7"}},
                   {{"OMP_NUM_THREADS", "1"}, {"RANK", "0"}}),
            (Environment{{"HOME", "/h"}, {"OMP_NUM_THREADS", "7"}, {"RANK", "0"}}));
}

TEST(Contract, a_gang_survives_the_wire) {
  const Gang gang = small_gang();
  const auto decoded = decode_gang(to_value(gang));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(environment(*decoded, kLast, {}), environment(gang, kLast, {}));
}

TEST(Contract, refuses_gangs_that_nobody_sends) {
  const auto refused = [](auto spoil) {
    Value value = to_value(small_gang());
    spoil(value);
    const auto decoded = decode_gang(value);
    return !decoded.ok() && decoded.error().code == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](Value& v) { v["members"] = Value::array(); }));
  EXPECT_TRUE(refused([](Value& v) { v["members"] = 3; }));
  EXPECT_TRUE(refused([](Value& v) { v["members"].as_array()[0]["workers"] = 3; }));
  EXPECT_TRUE(refused([](Value& v) { v["members"].as_array()[0]["host"] = ""; }));
  EXPECT_TRUE(refused([](Value& v) { v["members"].as_array()[1]["ports"].as_array()[0] = 0; }));
  EXPECT_TRUE(refused([](Value& v) { v["servers"] = 60'000; }));
  EXPECT_FALSE(refused([](Value&) {}));
}

}  // namespace
}  // namespace falaj::launch
