#include "serving/prediction_sink.h"

#include <algorithm>

#include "base/mutex.h"

namespace falaj::serving {

// A ring of cells with a turn number each (after D. Vyukov's bounded queue). A writer claims a
// position by compare-and-swap, fills its cell and passes the turn to the reader; the reader passes
// it back one lap later. A writer that sleeps inside its cell delays only what comes after it.
struct PredictionSink::Impl {
  struct Cell {
    std::atomic<std::uint64_t> turn{0};
    Prediction prediction;
  };

  explicit Impl(std::size_t size) : capacity(size), cells(std::make_unique<Cell[]>(size)) {
    for (std::size_t i = 0; i < capacity; ++i) {
      cells[i].turn.store(i, std::memory_order_relaxed);
    }
  }

  const std::size_t capacity;
  const std::unique_ptr<Cell[]> cells;
  alignas(64) std::atomic<std::uint64_t> head{0};  // Next position to write.
  alignas(64) std::atomic<std::uint64_t> dropped{0};
  Mutex reader;
  std::uint64_t tail FALAJ_GUARDED_BY(reader) = 0;  // Next position to read.
};

// Two cells at least: with one, "just written" and "free again" would be the same turn.
PredictionSink::PredictionSink(std::size_t capacity)
    : impl_(std::make_unique<Impl>(std::max<std::size_t>(capacity, 2))) {}
PredictionSink::~PredictionSink() = default;

bool PredictionSink::offer(const Prediction& prediction) {
  std::uint64_t position = impl_->head.load(std::memory_order_relaxed);
  for (;;) {
    Impl::Cell& cell = impl_->cells[position % impl_->capacity];
    const std::uint64_t turn = cell.turn.load(std::memory_order_acquire);
    if (turn == position) {
      if (!impl_->head.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        continue;
      }
      cell.prediction = prediction;
      cell.turn.store(position + 1, std::memory_order_release);
      return true;
    }
    if (turn < position) {
      impl_->dropped.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    position = impl_->head.load(std::memory_order_relaxed);
  }
}

std::size_t PredictionSink::drain(const std::function<void(const Prediction&)>& each) {
  MutexLock lock(impl_->reader);
  // At most one lap: writers that keep up with the reader cannot hold it here.
  std::size_t taken = 0;
  for (; taken < impl_->capacity; ++taken) {
    Impl::Cell& cell = impl_->cells[impl_->tail % impl_->capacity];
    if (cell.turn.load(std::memory_order_acquire) != impl_->tail + 1) break;
    each(cell.prediction);
    cell.turn.store(impl_->tail + impl_->capacity, std::memory_order_release);
    ++impl_->tail;
  }
  return taken;
}

std::uint64_t PredictionSink::accepted() const {
  return impl_->head.load(std::memory_order_relaxed);
}

std::uint64_t PredictionSink::dropped() const {
  return impl_->dropped.load(std::memory_order_relaxed);
}

}  // namespace falaj::serving
