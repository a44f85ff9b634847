#include "jobs/runtime.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::jobs {
namespace {

const std::string kHash = "--hash=sha256:" + std::string(64, 'a');

Result<RuntimeSpec> decode(const std::string& spec) {
  storage::Object object;
  object.kind = "Runtime";
  object.name = "r";
  object.spec = *parse_json(spec);
  return decode_runtime(object);
}

TEST(Runtime, a_lock_pins_every_package_with_its_hash) {
  EXPECT_TRUE(read_lock("r", "numpy==1.26.4 " + kHash).ok());
  EXPECT_TRUE(read_lock("r", "# by hand\n\nnumpy==1.26.4 \\\n    " + kHash + " \\\n    " + kHash +
                                 "  # both\r\nuvicorn[standard]==0.30+local " + kHash + "\n")
                  .ok());
  for (const std::string& bad : std::vector<std::string>{
           "numpy", "numpy==1.26.4", "numpy>=1 " + kHash, "numpy==1.* " + kHash,
           "numpy==1.26.4 --hash=md5:00", "numpy==1.26.4 " + kHash + " ; x",
           "-r other.txt " + kHash, "--index-url=http://x/ " + kHash, "https://x/n.whl==1 " + kHash,
           "numpy @ file:///n.whl " + kHash, "-rextra==1 " + kHash, "numpy==-1 " + kHash,
           "# nothing\n", "", "numpy==1 --hash=sha256:" + std::string(63, 'a'),
           "numpy==1 " + kHash + "\n-e ."}) {
    EXPECT_FALSE(read_lock("r", bad).ok()) << bad;
  }
  EXPECT_EQ(*read_lock("r", "# by hand\na==1 \\\n " + kHash + " # or so\n\n b==2\t" + kHash),
            "a==1 " + kHash + "\nb==2 " + kHash + "\n")
      << "pip sees no comment";
  EXPECT_FALSE(read_lock("r", std::string(300 * 1024, '\n')).ok()) << "too long";
}

TEST(Runtime, a_comment_hides_no_line_from_us_that_pip_would_read) {
  const std::string pinned = "a==1 " + kHash + "\n";
  EXPECT_TRUE(read_lock("r", pinned + "# caf\xC3\xA9 \xE2\x80\xA6\n").ok());
  for (const std::string& end : std::vector<std::string>{"\r", "\v", "\f", "\x1c", "\x1d", "\x1e",
                                                         "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9",
                                                         std::string(1, '\0'), "\x7f", " \\\n"}) {
    EXPECT_FALSE(read_lock("r", pinned + "# x" + end + "--index-url https://else/").ok()) << end;
  }
  EXPECT_FALSE(read_lock("r", "\xEF\xBB\xBF" + pinned).ok());
  EXPECT_FALSE(read_lock("r", pinned + "# \xFF").ok());
}

TEST(Runtime, an_index_is_safe_to_show_and_to_read_from) {
  const auto with = [](const std::string& index) {
    return decode(R"({"venv": {"python": "/p", "index": ")" + index + R"(", "lock": "a==1 )" +
                  kHash + R"("}})");
  };
  EXPECT_TRUE(with("https://wheels.example/simple").ok());
  EXPECT_TRUE(with("https://wheels.example:8443/a@b/simple").ok());
  for (const char* bad : {"http://wheels.example/", "https://", "https:///simple",
                          "https://user:secret@wheels.example/", "https://token@wheels.example",
                          "https://user:a?b@wheels.example/", "https://wheels.example\\\\@x/"}) {
    EXPECT_FALSE(with(bad).ok()) << bad;
  }
  EXPECT_EQ(with("https://user:secret@i/").error().message.find("secret"), std::string::npos);
}

TEST(Runtime, is_one_thing_or_the_other) {
  const std::string lock = R"("lock": "a==1 )" + kHash + R"(")";
  EXPECT_EQ(decode(R"({"host": {"python": "/usr/bin/python3"}})")->form, RuntimeForm::kHost);
  EXPECT_EQ(decode(R"({"venv": {"python": "/p", "wheels": "/w", )" + lock + "}}")->wheels, "/w");
  for (const std::string& bad : std::vector<std::string>{
           "{}", R"({"host": {"python": "python3"}})",
           R"({"host": {"python": "/p"}, "readable": ["/"]})",
           R"({"host": {"python": "/p"}, "readable": ["x"]})",
           R"({"host": {"python": "/p", "more": 1}})",
           R"({"host": {"python": "/p"}, "venv": {"python": "/p", "wheels": "/w", )" + lock + "}}",
           R"({"venv": {"python": "/p", )" + lock + "}}",
           R"({"venv": {"python": "/p", "wheels": "/w", "index": "https://i/", )" + lock + "}}",
           R"({"venv": {"python": "/p", "index": "ftp://i/", )" + lock + "}}",
           R"({"venv": {"python": "/p", "wheels": "w", )" + lock + "}}"}) {
    EXPECT_FALSE(decode(bad).ok()) << bad;
  }
}

TEST(Runtime, what_a_job_keeps_of_it_is_read_back) {
  RuntimeUse use;
  use.name = "r";
  use.form = RuntimeForm::kVenv;
  use.digest = "d";
  use.folder = "/f";
  use.path = "/f/bin";
  use.readable = {"/a"};
  Value payload;
  payload["runtime"] = to_value(use);
  EXPECT_EQ(to_value(runtime_of(payload)), payload["runtime"]);
  payload["runtime"] = "r";
  EXPECT_EQ(runtime_of(payload).name, "r");
  EXPECT_EQ(runtime_of(payload).digest, "") << "not resolved";
  EXPECT_EQ(runtime_of(Value::object()).name, "");
}

}  // namespace
}  // namespace falaj::jobs
