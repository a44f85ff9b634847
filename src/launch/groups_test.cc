#include "launch/groups.h"

#include <gtest/gtest.h>

#include <map>

#include "base/json.h"
#include "launch/contract.h"
#include "launch/testing/gang_fixture.h"

namespace falaj::launch {
namespace {

Group group_of(const std::string& json) {
  const auto group = decode_group(*parse_json(json));
  EXPECT_TRUE(group.ok()) << group.error().message;
  return *group;
}

std::string refused(const std::vector<std::string>& all) {
  std::vector<Group> groups;
  for (const std::string& json : all) groups.push_back(group_of(json));
  const Status status = check_groups(groups);
  return status.ok() ? "" : status.error().message;
}

std::vector<Group> small_groups() {
  return {group_of(R"({"name":"ps","count":2,"threads":3})"),
          group_of(R"({"name":"worker","min":1,"max":4,"gpus":2})"),
          group_of(R"({"name":"chief","gpus":1})"), group_of(R"({"name":"evaluator"})"),
          group_of(R"({"name":"scheduler"})")};
}

// A chief and two workers on two nodes; the helpers are on the first.
Gang small_gang() {
  Gang gang;
  gang.members = {{"10.0.0.1", "eth0", 2, {9000, 9001, 9002, 9010, 9011, 9012, 9013, 9014}},
                  {"10.0.0.2", "eth1", 1, {9000, 9001, 9002, 9010}}};
  gang.groups = counted(in_order(small_groups()), 3);
  gang.servers = 2;
  return gang;
}

using Names = std::map<std::string, std::string>;

Names names_of(const Gang& gang, const Place& place) {
  const Surroundings around{.cpus = 8, .devices = {"a", "b", "c", "d"}, .devices_each = 1};
  const Environment env = environment(gang, place, around);
  return {env.begin(), env.end()};
}

TEST(Groups, a_role_follows_from_the_name_unless_it_is_said) {
  EXPECT_EQ(role_text(group_of(R"({"name":"master"})")), "chief");
  EXPECT_EQ(role_text(group_of(R"({"name":"server"})")), "ps");
  EXPECT_EQ(role_text(group_of(R"({"name":"actor"})")), "worker");
  EXPECT_EQ(role_text(group_of(R"({"name":"shards","role":"ps"})")), "ps");
  EXPECT_EQ(decode_group(*parse_json(R"({"name":"a","role":"boss"})")).error().id,
            ErrorId::kOutOfRange);
  EXPECT_FALSE(decode_group(*parse_json(R"({"name":"a","count":2,"max":3})")).ok());
  EXPECT_FALSE(decode_group(*parse_json(R"({"name":"A b"})")).ok());
  EXPECT_FALSE(decode_group(*parse_json(R"({"name":"a","min":3,"max":2})")).ok());
  EXPECT_FALSE(decode_group(*parse_json(R"({"name":"a","cound":2})")).ok());
}

TEST(Groups, what_is_no_gang_is_refused) {
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({R"({"name":"a"})", R"({"name":"b","count":3})"}), "");
  EXPECT_NE(refused({R"({"name":"a"})", R"({"name":"a"})"}).find("twice"), std::string::npos);
  EXPECT_NE(refused({R"({"name":"ps"})"}).find("a chief or workers"), std::string::npos);
  EXPECT_NE(refused({R"({"name":"chief","count":2})"}).find("one process"), std::string::npos);
  EXPECT_NE(refused({R"({"name":"chief"})", R"({"name":"master"})"}).find("role chief"),
            std::string::npos);
  EXPECT_NE(refused({R"({"name":"a"})", R"({"name":"ps","min":1,"max":2})"}).find("'ps'"),
            std::string::npos);
  EXPECT_NE(refused({R"({"name":"a","max":2})", R"({"name":"b","max":2})"}).find("at most has"),
            std::string::npos);
  std::vector<std::string> many;
  for (int i = 0; i < 9; ++i) many.push_back(R"({"name":"g)" + std::to_string(i) + R"("})");
  EXPECT_NE(refused(many).find("at most 8"), std::string::npos);
}

TEST(Groups, what_is_more_than_the_least_is_the_workers) {
  const std::vector<Group> groups = in_order(small_groups());
  EXPECT_EQ(groups.front().name, "chief");
  EXPECT_EQ(groups.back().name, "evaluator");
  EXPECT_EQ(workers_min(groups), 2);
  EXPECT_EQ(workers_max(groups), 5);
  EXPECT_EQ(helpers_of(groups), 4);
  const std::vector<Group> four = counted(groups, 4);
  EXPECT_EQ(process_name(four, 0), "chief 0");
  EXPECT_EQ(process_name(four, 3), "worker 2");
  EXPECT_EQ(process_name(four, 4), "ps 0");
  EXPECT_EQ(process_name(four, 7), "evaluator 0");
  EXPECT_EQ(process_name(four, 8), "");
}

TEST(Groups, every_process_is_told_its_group_and_role) {
  const Gang gang = small_gang();
  const std::vector<Place> first = places_on(gang, 0);
  ASSERT_EQ(first.size(), 6u);
  ASSERT_EQ(places_on(gang, 1).size(), 1u);
  const std::string peers = R"({"chief":["10.0.0.1:9010"],"evaluator":["10.0.0.1:9014"],)"
                            R"("ps":["10.0.0.1:9012","10.0.0.1:9013"],)"
                            R"("scheduler":["10.0.0.1:9002"],)"
                            R"("worker":["10.0.0.1:9011","10.0.0.2:9010"]})";
  const std::string cluster =
      R"({"cluster":{"chief":["10.0.0.1:9010"],"ps":["10.0.0.1:9012","10.0.0.1:9013"],)"
      R"("worker":["10.0.0.1:9011","10.0.0.2:9010"]},"task":)";
  struct Told {
    Place place;
    const char* name;
    const char* role;
    const char* dmlc;
    const char* task;
    const char* port;
    const char* devices;
  };
  const std::vector<Told> all = {
      {first[0], "chief 0", "chief", "worker", R"({"index":0,"type":"chief"}})", "9010", "a"},
      {first[1], "worker 0", "worker", "worker", R"({"index":0,"type":"worker"}})", "9011", "b,c"},
      {places_on(gang, 1)[0], "worker 1", "worker", "worker", R"({"index":1,"type":"worker"}})",
       "9010", "a,b"},
      {first[2], "ps 0", "server", "server", R"({"index":0,"type":"ps"}})", "9012", ""},
      {first[3], "ps 1", "server", "server", R"({"index":1,"type":"ps"}})", "9013", ""},
      {first[4], "scheduler 0", "scheduler", "scheduler", R"({"index":0,"type":"evaluator"}})",
       "9002", ""},
      {first[5], "evaluator 0", "evaluator", "", R"({"index":0,"type":"evaluator"}})", "9014", ""}};
  int number = 0;
  for (const Told& each : all) {
    const Names env = names_of(gang, each.place);
    EXPECT_EQ(process_number(gang, each.place), number++) << each.name;
    EXPECT_EQ(process_name(gang, each.place), each.name);
    EXPECT_EQ(env.at("FALAJ_GROUP") + " " + env.at("FALAJ_GROUP_RANK"), each.name);
    EXPECT_EQ(env.at("FALAJ_ROLE"), each.role) << each.name;
    const auto dmlc = env.find("DMLC_ROLE");
    EXPECT_EQ(dmlc == env.end() ? "" : dmlc->second, each.dmlc) << each.name;
    EXPECT_EQ(env.at("TF_CONFIG"), cluster + each.task) << each.name;
    EXPECT_EQ(env.at("FALAJ_PORT"), each.port) << each.name;
    EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), each.devices) << each.name;
    EXPECT_EQ(env.at("FALAJ_GROUP_PEERS"), peers);
    EXPECT_EQ(env.at("DMLC_NUM_WORKER") + env.at("DMLC_NUM_SERVER"), "32");
  }
  const Names worker = names_of(gang, places_on(gang, 1)[0]);
  EXPECT_EQ(worker.at("RANK"), "2");
  EXPECT_EQ(worker.at("ROLE_NAME") + worker.at("ROLE_RANK") + worker.at("ROLE_WORLD_SIZE"),
            "worker12");
  EXPECT_EQ(names_of(gang, first[2]).at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(worker.at("OMP_NUM_THREADS"), "8");
}

TEST(Groups, without_servers_a_chief_is_a_chief_all_the_same) {
  Gang gang = small_gang();
  gang.groups = counted(
      in_order({group_of(R"({"name":"chief"})"), group_of(R"({"name":"worker","count":2})")}), 3);
  gang.servers = 0;
  EXPECT_EQ(tf_config(gang, {Role::kWorker, 0, 0, 0}),
            R"({"cluster":{"chief":["10.0.0.1:9010"],"worker":["10.0.0.1:9011",)"
            R"("10.0.0.2:9010"]},"task":{"index":0,"type":"chief"}})");
}

TEST(Groups, pass_over_the_wire) {
  const Gang gang = small_gang();
  const auto back = decode_gang(to_value(gang));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(to_value(*back), to_value(gang));
  EXPECT_EQ(back->listeners(), 3);
  EXPECT_EQ(names_of(*back, places_on(*back, 1)[0]), names_of(gang, places_on(gang, 1)[0]));
  Value other = to_value(gang);
  other["members"].as_array()[1]["workers"] = 0;
  other["members"].as_array()[0]["workers"] = 1;
  EXPECT_FALSE(decode_gang(other).ok()) << "fewer workers than the groups have";
}

class GroupLaunch : public GangTest {
 protected:
  // Each group runs its own script.
  LaunchOptions roles(const std::vector<std::pair<std::string, std::string>>& all) {
    LaunchOptions options = script("exit 9", 1);
    for (const auto& [json, text] : all) {
      Group group = group_of(json);
      group.argv = {"sh", "-c", text};
      options.launcher.groups.push_back(std::move(group));
    }
    options.launcher.policy.workers_min = workers_min(options.launcher.groups);
    options.launcher.policy.workers_max = workers_max(options.launcher.groups);
    options.slots = options.launcher.policy.workers_max;
    return options;
  }
};

TEST_F(GroupLaunch, each_runs_its_own_command_and_helpers_end_with_the_workers) {
  const LaunchReport report =
      launch(roles({{R"({"name":"chief"})", "echo leads $WORLD_SIZE as $RANK"},
                    {R"({"name":"worker","min":1,"max":2})", "echo computes as $RANK"},
                    {R"({"name":"ps"})", "echo serves ${RANK-nobody}; exec sleep 1000"}}));
  EXPECT_EQ(report.code, 0) << told_;
  EXPECT_TRUE(has("[chief 0] leads 3 as 0\n")) << output();
  EXPECT_TRUE(has("[worker 0] computes as 1\n")) << output();
  EXPECT_TRUE(has("[worker 1] computes as 2\n")) << output();
}

TEST_F(GroupLaunch, the_first_that_fails_is_named_with_its_group) {
  const LaunchReport report =
      launch(roles({{R"({"name":"chief"})", "exec sleep 1000"},
                    {R"({"name":"worker","count":2})",
                     "if [ $FALAJ_GROUP_RANK = 1 ]; then exit 3; fi; exec sleep 1000"},
                    {R"({"name":"ps"})", "exec sleep 1000"}}));
  EXPECT_EQ(report.code, 3);
  EXPECT_NE(report.reason.find("worker 1 (rank 2) failed: exit code 3"), std::string::npos)
      << report.reason;
  const Value failure = to_value(report)["attempts"].as_array().back()["first_failure"];
  EXPECT_EQ(failure.text("group"), "worker");
  EXPECT_EQ(failure.integer("rank"), 2);
  EXPECT_EQ(failure.text("process"), "worker 1");
  EXPECT_NE(told_.find("post-mortem: [worker 1], rank 2, failed first of 3 workers, of group "
                       "worker, on node"),
            std::string::npos)
      << told_;
}

TEST_F(GroupLaunch, a_server_that_fails_has_no_rank) {
  const LaunchReport report = launch(roles(
      {{R"({"name":"worker"})", "exec sleep 1000"}, {R"({"name":"ps","count":2})", "exit 4"}}));
  EXPECT_EQ(report.code, 4);
  const Value failure = to_value(report)["attempts"].as_array().back()["first_failure"];
  EXPECT_EQ(failure.text("group"), "ps");
  EXPECT_TRUE(failure["rank"].is_null());
}

TEST_F(GroupLaunch, a_command_that_is_not_there_is_told) {
  LaunchOptions options = roles({{R"({"name":"worker"})", "true"}});
  options.launcher.groups.front().argv = {"no-such-program"};
  const LaunchReport report = launch(std::move(options));
  EXPECT_EQ(report.code, 127);
  EXPECT_NE(told_.find("no-such-program"), std::string::npos) << told_;
}

}  // namespace
}  // namespace falaj::launch
