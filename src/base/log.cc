#include "base/log.h"

#include <atomic>

namespace falaj::log {
namespace {

std::atomic<Sink*> active_sink{nullptr};
std::atomic<Level> least_level{Level::kInfo};

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  Sink* sink = active_sink.load(std::memory_order_acquire);
  if (sink == nullptr || !enabled(level)) return;
  sink->write(level, event, std::vector<Field>(fields));
}

}  // namespace

void set_sink(Sink* sink, Level least) {
  least_level.store(least, std::memory_order_relaxed);
  active_sink.store(sink, std::memory_order_release);
}

bool enabled(Level level) {
  return active_sink.load(std::memory_order_relaxed) != nullptr &&
         level >= least_level.load(std::memory_order_relaxed);
}

void debug(std::string_view event, std::initializer_list<Field> fields) {
  write(Level::kDebug, event, fields);
}
void info(std::string_view event, std::initializer_list<Field> fields) {
  write(Level::kInfo, event, fields);
}
void warn(std::string_view event, std::initializer_list<Field> fields) {
  write(Level::kWarn, event, fields);
}
void error(std::string_view event, std::initializer_list<Field> fields) {
  write(Level::kError, event, fields);
}

}  // namespace falaj::log
