#include "serving/budget/memory_budget.h"

#include <gtest/gtest.h>

namespace falaj::serving::budget {
namespace {

constexpr std::int64_t kMi = 1 << 20;

std::shared_ptr<MemoryBudget> budget_of(std::int64_t bytes) {
  return std::make_shared<MemoryBudget>(BudgetOptions{bytes, nullptr, nullptr});
}

TEST(GuessedNeed, grows_with_the_file_and_does_not_overflow) {
  EXPECT_EQ(guessed_need(0), kMi);
  EXPECT_EQ(guessed_need(10 * kMi), 31 * kMi);
  EXPECT_GT(guessed_need(std::numeric_limits<std::int64_t>::max()), 0);
}

TEST(Room, is_the_less_of_the_budget_and_the_machine) {
  const std::int64_t unasked = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(free_bytes({100, 30, unasked, 0}), 70);
  EXPECT_EQ(free_bytes({100, 30, 50, 0}), 50);
  EXPECT_EQ(free_bytes({100, 30, 50, 15}), 65) << "the allocator has it still";
  EXPECT_EQ(free_bytes({0, 30, 50, 0}), 50) << "no budget";
  EXPECT_EQ(free_bytes({100, 130, 50, 0}), 0);
  EXPECT_EQ(free_bytes({0, 0, unasked, 7}), unasked);
  EXPECT_TRUE(check_room("m", 70, {100, 30, unasked, 0}).ok());
  const Status full = check_room("model 'm' version 2", 71, {100, 30, unasked, 0});
  EXPECT_EQ(full.error().id, ErrorId::kResourceExhausted);
  EXPECT_NE(full.error().message.find("model 'm' version 2 needs about 71"), std::string::npos)
      << full.error().message;
  EXPECT_NE(full.error().message.find("serving.memory"), std::string::npos);
  const Status machine = check_room("m", 60, {100, 30, 50, 0});
  EXPECT_NE(machine.error().message.find("control group"), std::string::npos)
      << machine.error().message;
}

TEST(MemoryBudget, counts_a_guess_then_what_was_measured_and_remembers_it) {
  const auto budget = budget_of(100 * kMi);
  auto share = budget->take("a", {"file-a", 10 * kMi}).value();
  EXPECT_EQ(budget->room().used, 31 * kMi);
  EXPECT_TRUE(share->measured(20 * kMi, &budget).ok());
  EXPECT_EQ(budget->bytes_of(&budget), 20 * kMi);
  EXPECT_EQ(budget->room().used, 20 * kMi);
  EXPECT_EQ(budget->room().gave_back, 11 * kMi);
  share.reset();
  EXPECT_EQ(budget->room().used, 0);
  EXPECT_EQ(budget->need_of({"file-a", 10 * kMi}), 20 * kMi);
  EXPECT_EQ(budget->need_of({"file-b", 10 * kMi}), 31 * kMi);
  share = budget->take("a", {"file-a", 10 * kMi}).value();
  EXPECT_TRUE(share->measured(1, &budget).ok());
  EXPECT_EQ(budget->room().used, 10 * kMi) << "never less than its file";
}

TEST(MemoryBudget, refuses_what_does_not_fit_until_something_is_let_go) {
  const auto budget = budget_of(40 * kMi);
  const auto first = budget->take("first", {"a", 10 * kMi}).value();
  EXPECT_EQ(budget->take("second", {"b", 10 * kMi}).error().id, ErrorId::kResourceExhausted);
  EXPECT_EQ(budget->room().used, 31 * kMi) << "what is refused is not counted";
  EXPECT_TRUE(first->measured(31 * kMi, &first).ok());
  budget->let_go(&budget);
  EXPECT_EQ(budget->room().used, 31 * kMi) << "nobody by that name";
  budget->let_go(&first);
  EXPECT_EQ(first->bytes(), 0);
  EXPECT_TRUE(budget->take("second", {"b", 10 * kMi}).ok());
  EXPECT_EQ(budget->room().used, 0) << "that share is gone again, and the first counts once";
}

TEST(MemoryBudget, refuses_a_model_that_took_more_than_was_guessed_and_knows_it_then) {
  const auto budget = budget_of(40 * kMi);
  auto share = budget->take("model 'm'", {"a", kMi}).value();
  const Status taken = share->measured(41 * kMi, &share);
  EXPECT_EQ(taken.error().id, ErrorId::kResourceExhausted);
  EXPECT_NE(taken.error().message.find("41"), std::string::npos) << taken.error().message;
  share.reset();
  EXPECT_EQ(budget->room().used, 0);
  EXPECT_FALSE(budget->take("model 'm'", {"a", kMi}).ok()) << "before it is loaded, this time";
}

TEST(MemoryBudget, asks_the_machine_too) {
  std::int64_t left = 30 * kMi;
  const auto budget =
      std::make_shared<MemoryBudget>(BudgetOptions{0, [&left] { return left; }, nullptr});
  EXPECT_FALSE(budget->take("a", {"a", 10 * kMi}).ok());
  left = 31 * kMi;
  auto share = budget->take("a", {"a", 10 * kMi}).value();
  left = 0;
  EXPECT_FALSE(budget->take("b", {"b", 10 * kMi}).ok());
  share.reset();
  EXPECT_TRUE(budget->take("b", {"b", 10 * kMi}).ok()) << "the allocator kept what was given back";
}

TEST(MemoryBudget, shares_outlive_their_owner) {
  auto budget = budget_of(0);
  const auto share = budget->take("a", {"a", 1}).value();
  budget.reset();
  EXPECT_TRUE(share->measured(5, &share).ok());
  EXPECT_EQ(share->bytes(), 5);
}

TEST(MemoryBudget, an_owner_in_the_place_of_another_keeps_its_own_count) {
  const auto budget = budget_of(0);
  const int place = 0;
  auto first = budget->take("a", {"a", 1}).value();
  EXPECT_TRUE(first->measured(5, &place).ok());
  const auto second = budget->take("b", {"b", 1}).value();
  EXPECT_TRUE(second->measured(7, &place).ok());
  first.reset();
  EXPECT_EQ(budget->bytes_of(&place), 7);
  EXPECT_EQ(budget->room().used, 7);
}

TEST(AllocatedBytes, grow_with_what_is_held) {
  const std::int64_t before = allocated_bytes();
  const std::string held(64 << 20, 'x');
  const std::int64_t grown = allocated_bytes() - before;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  EXPECT_GE(grown, 0) << "the sanitizer's allocator is another";
#else
  EXPECT_GE(grown, static_cast<std::int64_t>(held.size()));
  EXPECT_LT(grown, static_cast<std::int64_t>(held.size()) * 2);
#endif
}

}  // namespace
}  // namespace falaj::serving::budget
