#include "cli/code_capture.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "storage/testing/temp_folder.h"

namespace falaj::cli {
namespace {

class CodeCaptureTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  void commit() {
    const std::string git = "cd " + folder_.path() + " && git ";
    const std::string by = "-c user.name=n -c user.email=e ";
    if (std::system((git + "init -q . 2>/dev/null").c_str()) != 0) GTEST_SKIP() << "no git here";
    ASSERT_EQ(std::system((git + "add -A").c_str()), 0);
    ASSERT_EQ(std::system((git + by + "commit -q -m first").c_str()), 0);
  }
  storage::TempFolder folder_;
};

TEST_F(CodeCaptureTest, a_clean_folder_is_its_commit) {
  write("train.py", "print(1)\n");
  commit();
  const Value code = capture_folder(folder_.path(), OutsideGit::kNothing)["code"];
  EXPECT_EQ(code.text("commit").size(), 40u);
  EXPECT_TRUE(code["files"].as_object().empty());
  EXPECT_EQ(code.text("diff_sha256"), "");
}

TEST_F(CodeCaptureTest, what_was_changed_and_added_since_is_kept) {
  write("train.py", "print(1)\n");
  commit();
  write("train.py", "print(2)\n");
  write("new.py", "x = 1\n");
  write("uv.lock", "locked\n");
  const Value captured = capture_folder(folder_.path(), OutsideGit::kNothing);
  const Value& code = captured["code"];
  EXPECT_EQ(code["files"].text("train.py").size(), 64u);
  EXPECT_EQ(code["files"].text("new.py").size(), 64u);
  EXPECT_NE(code.text("diff").find("+print(2)"), std::string::npos);
  EXPECT_EQ(code.text("diff_sha256").size(), 64u);
  EXPECT_EQ(captured["lock"].text("file"), "uv.lock");
  write("train.py", "print(3)\n");
  const Value after = capture_folder(folder_.path(), OutsideGit::kNothing)["code"];
  EXPECT_NE(after["files"]["train.py"], code["files"]["train.py"]);
  EXPECT_EQ(after["files"]["new.py"], code["files"]["new.py"]);
}

TEST_F(CodeCaptureTest, outside_of_git_files_are_hashed_only_when_asked_for) {
  write("train.py", "print(1)\n");
  std::filesystem::create_symlink("/etc/passwd", folder_ / "link");
  EXPECT_TRUE(capture_folder(folder_.path(), OutsideGit::kNothing).is_null());
  const Value code = capture_folder(folder_.path(), OutsideGit::kFiles)["code"];
  EXPECT_EQ(code["files"].as_object().size(), 1u);
  EXPECT_EQ(code["files"].text("train.py").size(), 64u);
}

TEST_F(CodeCaptureTest, the_current_folder_is_looked_at_by_default) {
  write("train.py", "print(1)\n");
  write("uv.lock", "locked\n");
  commit();
  write("train.py", "print(2)\n");
  const Value by_path = capture_folder(folder_.path(), OutsideGit::kNothing);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const Value by_default = capture_of({});
  CaptureChoice dot;
  dot.code = ".";
  const Value by_dot = capture_of(dot);
  std::filesystem::current_path(before);
  EXPECT_EQ(by_default["code"].text("commit").size(), 40u);
  EXPECT_NE(by_default["code"].text("diff").find("+print(2)"), std::string::npos);
  EXPECT_EQ(by_default["lock"].text("file"), "uv.lock");
  EXPECT_EQ(by_default, by_path);
  EXPECT_EQ(by_dot, by_path);
}

TEST_F(CodeCaptureTest, what_git_keeps_for_itself_is_no_code) {
  write("train.py", "print(1)\n");
  // Known to git, with no commit yet: its files are hashed.
  if (std::system(("git init -q " + folder_.path() + " 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "no git here";
  }
  std::filesystem::create_directory(folder_ / "module");
  write("module/.git", "gitdir: elsewhere\n");
  write("module/.gitignore", "*.o\n");
  const Value code = capture_folder(folder_.path(), OutsideGit::kFiles)["code"];
  EXPECT_EQ(code.text("commit"), "");
  EXPECT_EQ(code["files"].as_object().size(), 2u);
  EXPECT_EQ(code["files"].text("train.py").size(), 64u);
  EXPECT_EQ(code["files"].text("module/.gitignore").size(), 64u);
}

}  // namespace
}  // namespace falaj::cli
