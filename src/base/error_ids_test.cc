#include "base/error_ids.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "base/result.h"

namespace falaj {
namespace {

// The enumerators as they stand in the header: the language has no list of them.
std::set<int> declared_numbers() {
  std::ifstream file(FALAJ_SOURCE_DIR "/src/base/error_ids.h");
  std::stringstream text;
  text << file.rdbuf();
  const std::string header = text.str();
  const std::string body = header.substr(header.find("enum class ErrorId"));
  const std::regex enumerator("k[A-Za-z0-9]+ = ([0-9]+),");
  std::set<int> numbers;
  for (std::sregex_iterator it(body.begin(), body.end(), enumerator), end; it != end; ++it) {
    numbers.insert(std::stoi((*it)[1]));
  }
  return numbers;
}

TEST(ErrorIds, every_enumerator_has_a_row) {
  const std::set<int> numbers = declared_numbers();
  ASSERT_GT(numbers.size(), 60u);
  std::set<int> rows;
  for (const ErrorInfo& info : all_errors()) rows.insert(static_cast<int>(info.id));
  EXPECT_EQ(rows, numbers);
}

TEST(ErrorIds, every_row_says_what_failed_and_what_to_do) {
  std::set<std::string_view> titles;
  for (const ErrorInfo& info : all_errors()) {
    SCOPED_TRACE(to_string(info.id));
    EXPECT_GE(info.title.size(), 10u);
    EXPECT_GE(info.next_step.size(), 20u);
    EXPECT_FALSE(info.title.ends_with('.'));
    EXPECT_TRUE(info.next_step.ends_with('.'));
    EXPECT_TRUE(titles.insert(info.title).second) << "the title stands twice";
    EXPECT_EQ(&error_info(info.id), &info);
    EXPECT_EQ(find_error(to_string(info.id)), &info);
  }
}

TEST(ErrorIds, the_generic_rows_mirror_the_classes) {
  for (int code = 1; code <= static_cast<int>(Code::kDeadlineExceeded); ++code) {
    const auto c = static_cast<Code>(code);
    EXPECT_EQ(error_info(generic_error_id(c)).code, c);
    EXPECT_FALSE(code_name(c).empty());
  }
}

TEST(ErrorIds, finds_a_row_by_what_people_type) {
  EXPECT_EQ(find_error("fj-1003")->id, ErrorId::kUnknownField);
  EXPECT_EQ(find_error("1003")->id, ErrorId::kUnknownField);
  EXPECT_EQ(find_error("FJ-0004")->id, ErrorId::kNotFound);
  for (const char* wrong : {"", "FJ-", "FJ-9999", "FJ-1003x", "XX-1003", "-1", "99999999"}) {
    EXPECT_EQ(find_error(wrong), nullptr) << wrong;
  }
}

}  // namespace
}  // namespace falaj
