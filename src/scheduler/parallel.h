// scheduler/parallel.h — a loop over independent pieces, on a few threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace falaj::scheduler {

// Calls body(begin, end) for contiguous parts of [0, count), on up to `threads` threads, and
// returns when all are done. The body writes only to slots of its own part, so the result does not
// depend on `threads`.
template <class Body>
void in_parallel(std::uint32_t threads, std::size_t count, Body body) {
  if (threads <= 1 || count < 2) {
    body(std::size_t{0}, count);
    return;
  }
  const std::size_t parts = threads < count ? threads : count;
  std::vector<std::thread> others;
  others.reserve(parts - 1);
  for (std::size_t part = 1; part < parts; ++part) {
    others.emplace_back([&, part] { body(count * part / parts, count * (part + 1) / parts); });
  }
  body(std::size_t{0}, count / parts);
  for (std::thread& other : others) other.join();
}

}  // namespace falaj::scheduler
