// app/zoned_log.h — the log exit: lines about a project go only where its data may be.
#pragma once

#include <atomic>
#include <memory>

#include "base/log.h"
#include "security/residency/exits.h"

namespace falaj::app {

// Passes lines on to `inner`. A line with a field "project" passes the log exit first, towards the
// zone where this machine stands; refused, only its level and event remain (events are constants of
// the program). Thread-safe.
class ZonedLog final : public log::Sink {
 public:
  explicit ZonedLog(std::unique_ptr<log::Sink> inner) : inner_(std::move(inner)) {}

  // From then on lines are judged; nullptr before `exits` goes away.
  void judge_by(security::residency::Exits* exits) { exits_.store(exits); }
  void write(log::Level level, std::string_view event,
             const std::vector<log::Field>& fields) override;

 private:
  std::unique_ptr<log::Sink> inner_;
  std::atomic<security::residency::Exits*> exits_{nullptr};
};

}  // namespace falaj::app
