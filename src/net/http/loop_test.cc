#include "net/http/loop.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <future>
#include <string>

namespace falaj::net {
namespace {

// Both ends of a stream; the loop owns the first.
struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    watched = ends[0];
    other = ends[1];
  }
  ~Pair() { hang_up(); }
  void send(std::string_view text) const {
    EXPECT_EQ(::send(other, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void hang_up() {
    if (other >= 0) ::close(other);
    other = -1;
  }
  int watched = -1;
  int other = -1;
};

// Reads one byte at a time, or all, and counts its calls.
class Reader final : public Pollable {
 public:
  void on_readable() override {
    ++readable;
    if (on_read) on_read();
  }
  void on_writable() override {
    ++writable;
    if (on_write) on_write();
  }
  std::string take_all() const {
    std::string text;
    std::array<char, 64> bytes{};
    for (;;) {
      const ssize_t count = ::recv(watch->descriptor(), bytes.data(), bytes.size(), 0);
      if (count <= 0) return text;
      text.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }
  std::unique_ptr<Watch> watch;
  std::function<void()> on_read;
  std::function<void()> on_write;
  std::atomic<int> readable{0};
  std::atomic<int> writable{0};
};

class LoopTest : public ::testing::Test {
 protected:
  ~LoopTest() override {
    run([this] { reader->watch.reset(); });
    loop->stop();
  }
  // Runs on the loop's thread, and waits for it.
  void run(const std::function<void()>& task) {
    std::promise<void> done;
    loop->post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  void watch(int descriptor) {
    run([&] { reader->watch = loop->watch(descriptor, reader); });
  }
  std::shared_ptr<Loop> loop = Loop::start();
  std::shared_ptr<Reader> reader = std::make_shared<Reader>();
  Pair pair;
};

TEST_F(LoopTest, calls_once_for_each_time_it_was_asked) {
  watch(pair.watched);
  std::promise<std::string> got;
  reader->on_read = [&] { got.set_value(reader->take_all()); };
  pair.send("before");  // Nobody waits yet.
  run([&] {
    reader->watch->wait_readable();
    reader->watch->wait_readable();
  });
  EXPECT_EQ(got.get_future().get(), "before");
  pair.send("nobody asked");
  run([] {});
  EXPECT_EQ(reader->readable, 1);
  got = {};
  run([&] { reader->watch->wait_readable(); });
  EXPECT_EQ(got.get_future().get(), "nobody asked");
  EXPECT_EQ(reader->readable, 2);
}

TEST_F(LoopTest, what_is_put_off_comes_after_the_others_of_its_round) {
  const auto second = std::make_shared<Reader>();
  Pair other_pair;
  std::string order;
  std::promise<void> done;
  const auto note = [&](std::string_view what) {
    order += what;
    if (order.size() == 4) done.set_value();
  };
  reader->on_read = [&] { note(reader->watch->yield_round() ? "a" : "A"); };
  reader->on_write = [&] { note("x"); };
  second->on_read = [&] { note(second->watch->yield_round() ? "b" : "B"); };
  second->on_write = [&] { note("y"); };
  run([&] {
    reader->watch = loop->watch(pair.watched, reader);
    second->watch = loop->watch(other_pair.watched, second);
    reader->watch->wait_readable();
    second->watch->wait_readable();
    pair.send("1");  // On the loop's thread: it sees both at once.
    other_pair.send("2");
  });
  done.get_future().wait();
  EXPECT_EQ(order, "abxy");
  run([&] {
    EXPECT_FALSE(reader->watch->yield_round()) << "nobody else waits";
    second->watch.reset();
  });
}

// A reader that takes all there is and then waits must hear of an end that came with the bytes.
TEST_F(LoopTest, tells_of_an_end_that_came_with_the_last_bytes) {
  watch(pair.watched);
  std::promise<void> ended;
  reader->on_read = [&] {
    std::array<char, 64> bytes{};
    const ssize_t count = ::recv(reader->watch->descriptor(), bytes.data(), bytes.size(), 0);
    if (count == 0) return ended.set_value();
    reader->watch->wait_readable();
  };
  pair.send("last");
  pair.hang_up();
  run([&] { reader->watch->wait_readable(); });
  ended.get_future().wait();
  EXPECT_EQ(reader->readable, 2);
}

TEST_F(LoopTest, tells_when_a_full_socket_has_room_again) {
  watch(pair.watched);
  std::promise<void> room;
  int calls = 0;
  const std::string part(4096, 'x');
  const auto fill = [&] {
    while (::send(reader->watch->descriptor(), part.data(), part.size(), MSG_NOSIGNAL) > 0) {
    }
  };
  // The first call may be about the room there was at the start.
  reader->on_write = [&] {
    if (++calls == 2) return room.set_value();
    fill();
    reader->watch->wait_writable();
  };
  run([&] {
    fill();
    reader->watch->wait_writable();
  });
  std::array<char, 65536> bytes{};
  auto told = room.get_future();
  while (told.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    static_cast<void>(::recv(pair.other, bytes.data(), bytes.size(), 0));
  }
  EXPECT_GE(reader->writable, 2);
}

TEST_F(LoopTest, never_calls_after_a_watch_has_gone) {
  watch(pair.watched);
  Pair second;
  const auto heir = std::make_shared<Reader>();
  run([&] {
    reader->watch->wait_readable();
    pair.send("late");                                // The event is there,
    reader->watch.reset();                            // but its watch has gone,
    heir->watch = loop->watch(second.watched, heir);  // and another has its place.
    heir->watch->wait_readable();
  });
  run([] {});
  EXPECT_EQ(reader->readable, 0);
  EXPECT_EQ(heir->readable, 0);
  run([&] { heir->watch.reset(); });
}

TEST_F(LoopTest, runs_tasks_in_order_and_ticks_until_it_stops) {
  std::string order;
  for (const char c : {'a', 'b', 'c'}) {
    loop->post([&order, c, this] {
      order += c;
      loop->post([&order, c] { order += static_cast<char>(c - 'a' + 'A'); });
    });
  }
  std::promise<void> ticked;
  int ticks = 0;
  loop->every(Duration::milliseconds(1), [&] {
    if (++ticks == 3) ticked.set_value();
  });
  ticked.get_future().wait();
  run([] {});
  EXPECT_EQ(order, "abcABC");
}

TEST_F(LoopTest, drops_what_is_posted_after_the_stop) {
  const auto held = std::make_shared<int>(1);
  run([this] { reader->watch.reset(); });
  loop->stop();
  loop->post([held] { *held = 2; });
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(*held, 1);
  loop = Loop::start();
}

}  // namespace
}  // namespace falaj::net
