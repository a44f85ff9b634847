#include "crypto/password.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "crypto/testing/compared_passwords.h"

namespace falaj::crypto {
namespace {

// The cheapest that libsodium takes: these tests are about behaviour, not about cost.
constexpr PasswordOptions kCheap{.passes = 1, .memory = 8192};

TEST(Passwords, accept_the_right_one_only) {
  Passwords passwords(kCheap);
  const std::string stored = passwords.hash("correct horse battery").value();
  EXPECT_TRUE(stored.starts_with("$argon2id$v=19$m=8,t=1,p=1$")) << stored;
  EXPECT_EQ(passwords.verify("correct horse battery", stored).value(), PasswordMatch::kYes);
  for (const std::string wrong :
       {"", "correct horse batter", "correct horse battery ", "Correct horse battery"}) {
    EXPECT_EQ(passwords.verify(wrong, stored).value(), PasswordMatch::kNo) << wrong;
  }
  EXPECT_NE(passwords.hash("correct horse battery").value(), stored);  // Another salt.
}

TEST(Passwords, nobody_has_no_password) {
  Passwords passwords(kCheap);
  for (const std::string stored : {"", "x", "$argon2id$", "$argon2i$v=19$m=8,t=1,p=1$AAAA$AAAA"}) {
    EXPECT_EQ(passwords.verify("anything at all", stored).value(), PasswordMatch::kNo) << stored;
  }
  EXPECT_EQ(passwords.verify(std::string(5000, 'a'), "").value(), PasswordMatch::kNo);
}

TEST(Passwords, nobody_costs_one_hash_like_everybody) {
  Passwords passwords(kCheap);
  const std::string stored = passwords.hash("correct horse battery").value();
  const std::string cost = "$argon2id$v=19$m=8,t=1,p=1$";
  std::vector<std::string>& compared = testing::compared_passwords();
  // Somebody, nobody, and a text that no hash has.
  for (const std::string& encoded : {stored, std::string(), std::string(500, 'x')}) {
    compared.clear();
    EXPECT_EQ(passwords.verify("wrong horse battery", encoded).value(), PasswordMatch::kNo);
    ASSERT_EQ(compared.size(), 1U) << encoded;
    // A whole hash of the same cost: a text that is none is refused before any work.
    EXPECT_TRUE(compared[0].starts_with(cost)) << compared[0];
    EXPECT_EQ(compared[0].size(), stored.size()) << compared[0];
  }
}

TEST(Passwords, say_when_the_cost_has_risen) {
  Passwords old(kCheap);
  const std::string stored = old.hash("correct horse battery").value();
  Passwords now({.passes = 2, .memory = 16384});
  EXPECT_EQ(now.verify("correct horse battery", stored).value(), PasswordMatch::kYesButOutdated);
  EXPECT_EQ(now.verify("wrong horse battery", stored).value(), PasswordMatch::kNo);
}

TEST(Passwords, the_default_cost_is_at_least_19_mebibytes_and_two_passes) {
  Passwords passwords(PasswordOptions{});
  EXPECT_TRUE(passwords.hash("correct horse battery")->starts_with("$argon2id$v=19$m=19456,t=2,"));
}

TEST(Passwords, turn_away_what_does_not_fit_in_the_queue) {
  Passwords passwords({.passes = 1, .memory = 8192, .concurrent = 1, .waiting_max = 0});
  // Somebody must meet a busy place; without the bound nobody ever does.
  std::atomic<int> refused{0};
  std::atomic<int> served{0};
  while (refused == 0 && served < 100'000) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 50; ++k) {
          const auto answer = passwords.verify("some password", "");
          if (answer.ok()) ++served;
          if (!answer.ok() && answer.error().id == ErrorId::kRateLimited) ++refused;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(served, 0);
}

TEST(Passwords, a_new_one_must_be_long_enough) {
  EXPECT_TRUE(check_new_password("correct horse").ok());
  EXPECT_TRUE(check_new_password("كلمة سر طويلة").ok());
  for (const std::string& bad :
       {std::string(), std::string("short"), std::string(11, 'x'), std::string(40, 'a'),
        std::string(1025, 'b'), std::string("twelve bytes\xff")}) {
    EXPECT_FALSE(check_new_password(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace falaj::crypto
