#include "exec/internal/ward_book.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace falaj::exec::internal {
namespace {

// A book without a warden: the test does the turns.
class WardBookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "falaj_book_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    auto opened = WardBook::open(folder_ + "/journal", "wbooktest", watch_.get());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    book_ = std::move(*opened);
  }
  void TearDown() override {
    book_.reset();
    std::filesystem::remove_all(folder_);
  }
  // How many files were ready within so many milliseconds, after they were served.
  int turn(int wait) {
    std::array<epoll_event, 16> events;
    const int ready = ::epoll_wait(watch_.get(), events.data(), 16, wait);
    for (int i = 0; i < ready; ++i) book_->serve(events[static_cast<std::size_t>(i)].data.u64);
    book_->work(monotonic_nanos());
    EXPECT_TRUE(book_->commit().ok());
    return ready;
  }
  template <class Holds>
  bool turns_until(Holds holds) {
    for (int i = 0; i < 6000 && !holds(); ++i) turn(10);
    return holds();
  }

  std::string folder_;
  Fd watch_{::epoll_create1(EPOLL_CLOEXEC)};
  std::unique_ptr<WardBook> book_;
};

// A process that was made while a ward ran and is not another program yet has copies of all that
// the book had open for it.
TEST_F(WardBookTest, is_not_woken_for_what_has_ended_by_copies_of_its_files) {
  ASSERT_EQ(::mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  WardSpec spec;
  spec.argv = {"/bin/cat", folder_ + "/fifo"};
  spec.work_dir = folder_;
  spec.log_path = folder_ + "/log";
  ASSERT_TRUE(book_->start("a", spec).ok());
  turn(0);
  ASSERT_TRUE(turns_until([&] { return book_->find("a")->pid != 0; }));
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  const pid_t half_made = ::fork();
  if (half_made == 0) {
    char go = 0;
    ::close(gate[1]);
    [[maybe_unused]] const ssize_t got = ::read(gate[0], &go, 1);
    ::_exit(0);
  }
  std::ofstream(folder_ + "/fifo") << "the end\n";
  ASSERT_TRUE(turns_until([&] { return book_->find("a")->end.has_value(); }));
  turn(0);
  EXPECT_EQ(turn(0), 0) << "nothing is left that could be ready";
  ::close(gate[1]);
  ::close(gate[0]);
  EXPECT_EQ(::waitpid(half_made, nullptr, 0), half_made);
}

}  // namespace
}  // namespace falaj::exec::internal
