#include "jobs/capture.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "storage/testing/temp_folder.h"

namespace falaj::jobs {
namespace {

Value json(const std::string& text) { return *parse_json(text); }

Value payload() {
  return json(R"({"command": ["python3", "train.py", "--rounds=3"], "env": {"A": "1"},
    "runtime": {"digest": "d1"},
    "capture": {"seed": 7, "code": {"commit": "c1", "diff_sha256": "", "files": {"b.py": "f1"}},
                "lock": {"file": "uv.lock", "sha256": "l1"},
                "data": {"training_set": "t", "fingerprint": "p1"},
                "machine": {"cpu": "x", "flags": "avx2 sse", "kernel": "6"}}})");
}

TEST(Capture, the_first_thing_that_differs_is_named) {
  EXPECT_FALSE(first_difference(payload(), payload()));
  const Value bare = json(R"({"command": ["true"], "env": {}})");
  Value seen = bare;
  seen["capture"]["machine"]["cpu"] = "x";
  EXPECT_FALSE(first_difference(bare, seen)) << "nothing was captured then";
  const auto changed = [](const std::function<void(Value&)>& change) {
    Value after = payload();
    change(after);
    const auto found = first_difference(payload(), after);
    return found ? found->input + " " + found->before + " " + found->after : "nothing";
  };
  EXPECT_EQ(changed([](Value& p) { p["command"].as_array()[2] = "--rounds=4"; }),
            "command: word 3 --rounds=3 --rounds=4");
  EXPECT_EQ(changed([](Value& p) { p["env"]["B"] = "2"; }), "env: B nothing 2");
  EXPECT_EQ(changed([](Value& p) { p["array"]["index"] = 1; }), "array: index nothing 1");
  EXPECT_EQ(changed([](Value& p) { p["capture"]["seed"] = 8; }), "seed 7 8");
  EXPECT_EQ(changed([](Value& p) { p["runtime"]["digest"] = "d2"; }), "runtime d1 d2");
  EXPECT_EQ(changed([](Value& p) { p["capture"]["code"]["commit"] = "c2"; }), "code: commit c1 c2");
  EXPECT_EQ(changed([](Value& p) { p["capture"]["code"]["files"]["b.py"] = "f2"; }),
            "code: b.py f1 f2");
  EXPECT_EQ(changed([](Value& p) { p["capture"]["code"]["files"]["a.py"] = "f0"; }),
            "code: a.py nothing f0");
  EXPECT_EQ(changed([](Value& p) { p["capture"]["code"]["diff_sha256"] = "x"; }),
            "code: diff nothing x");
  EXPECT_EQ(changed([](Value& p) { p["capture"]["lock"]["sha256"] = "l2"; }), "lock l1 l2");
  EXPECT_EQ(changed([](Value& p) { p["capture"]["data"]["fingerprint"] = "p2"; }),
            "data: fingerprint p1 p2");
  EXPECT_EQ(changed([](Value& p) { p["capture"]["machine"]["flags"] = "sse"; }),
            "machine: flags avx2 sse sse");
  EXPECT_EQ(changed([](Value& p) {
              p["capture"]["machine"]["flags"] = "sse";
              p["capture"]["seed"] = 8;
            }),
            "seed 7 8")
      << "in the order in which a person would look";
}

TEST(Capture, is_strict_and_bounded) {
  EXPECT_TRUE(decode_capture({})->is_null());
  const Value good = json(R"({"seed": 4294967295, "lock": {"file": "a", "sha256": "00"},
      "data": {"training_set": "t"},
      "code": {"commit": "ab", "files": {"x": "cd"}, "diff": "+", "diff_sha256": "ef"}})");
  EXPECT_EQ(*decode_capture(good), good);
  EXPECT_EQ(*decode_capture(json(R"({"seed": 7})")), json(R"({"seed": 7})"));
  for (const char* bad :
       {R"({"seed": -1})", R"({"seed": 4294967296})", R"({"seed": "7"})", R"({"other": 1})",
        R"({"code": {"commit": "not hex"}})", R"({"code": {"files": {"": "ab"}}})",
        R"({"code": {"files": {"x": 1}}})", R"({"lock": {"sha256": "00"}})",
        R"({"data": {"training_set": "t", "fingerprint": "mine"}})", R"({"machine": {}})"}) {
    EXPECT_FALSE(decode_capture(json(bad)).ok()) << bad;
  }
  Value large;
  large["code"]["diff"] = std::string(65 * 1024, '+');
  EXPECT_FALSE(decode_capture(large).ok());
  Value many;
  for (int i = 0; i < 1001; ++i) many["code"]["files"]["f" + std::to_string(i)] = "ab";
  EXPECT_FALSE(decode_capture(many).ok());
}

TEST(Capture, output_is_hashed_by_name_and_content_and_the_log_stands_in_for_none) {
  const storage::TempFolder folder;
  const std::string output = folder / "output";
  EXPECT_EQ(output_of(output, "printed", 0).text("of"), "log");
  std::filesystem::create_directories(output + "/sub");
  const Value log = output_of(output, "printed", 0);
  EXPECT_EQ(log.text("of"), "log");
  EXPECT_NE(log["sha256"], output_of(output, "other", 0)["sha256"]);
  std::ofstream(output + "/sub/model") << "one";
  const Value one = output_of(output, "printed", 0);
  EXPECT_EQ(one.text("of"), "files");
  EXPECT_EQ(one.integer("bytes"), 3);
  EXPECT_EQ(one["sha256"], output_of(output, "other", 0)["sha256"]) << "the log does not count";
  std::filesystem::rename(output + "/sub/model", output + "/sub/renamed");
  EXPECT_NE(output_of(output, "", 0)["sha256"], one["sha256"]);
  std::filesystem::rename(output + "/sub/renamed", output + "/sub/model");
  EXPECT_EQ(output_of(output, "", 0)["sha256"], one["sha256"]);
  std::ofstream(output + "/sub/model") << "two";
  EXPECT_NE(output_of(output, "", 0)["sha256"], one["sha256"]);
  ASSERT_EQ(::mkfifo((output + "/pipe").c_str(), 0600), 0);
  EXPECT_TRUE(output_of(output, "", 0)["sha256"].is_null()) << "a pipe cannot be read to its end";
}

TEST(Capture, what_is_hashed_is_bounded_by_what_would_be_read) {
  const storage::TempFolder folder;
  const std::string output = folder / "output";
  std::filesystem::create_directories(output);
  std::ofstream(output + "/hole").put('x');
  std::filesystem::resize_file(output + "/hole", std::uintmax_t{1} << 20);
  EXPECT_TRUE(output_of(output, "", 1 << 20)["sha256"].is_string());
  EXPECT_TRUE(output_of(output, "", 1 << 20)["not_hashed"].is_null());
  const Value past = output_of(output, "", (1 << 20) - 1);
  EXPECT_TRUE(past["sha256"].is_null()) << "a hole takes no disk, but is read like anything else";
  EXPECT_NE(past.text("not_hashed").find("at most 1.0 MiB"), std::string::npos)
      << past.text("not_hashed");
  std::filesystem::resize_file(output + "/hole", std::uintmax_t{kOutputBytesMax} + 1);
  EXPECT_TRUE(output_of(output, "", 0)["sha256"].is_null()) << "whatever the disk's limit is";
}

TEST(Capture, a_link_in_the_place_of_the_output_is_not_followed) {
  const storage::TempFolder folder;
  std::filesystem::create_directories(folder / "elsewhere");
  std::ofstream(folder / "elsewhere/secret") << "secret";
  std::filesystem::create_directory_symlink(folder / "elsewhere", folder / "output");
  EXPECT_EQ(output_of(folder / "output", "", 0).text("of"), "log");
  std::filesystem::remove(folder / "output");
  std::filesystem::create_directories(folder / "output");
  std::filesystem::create_symlink(folder / "elsewhere/secret", folder / "output/link");
  const Value one = output_of(folder / "output", "", 0);
  std::ofstream(folder / "elsewhere/secret") << "another";
  EXPECT_EQ(output_of(folder / "output", "", 0)["sha256"], one["sha256"]);
}

TEST(Capture, this_machine_says_what_it_is) {
  EXPECT_FALSE(machine_facts().text("kernel").empty());
  EXPECT_FALSE(machine_facts().text("flags").empty());
}

}  // namespace
}  // namespace falaj::jobs
