// serving/testing/staged_runtime.h — models that spend the time of a stage: what happens while one
// of them runs is said by the test, on the same thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "serving/runtime.h"

namespace falaj::serving::testing {

// Time as the models spend it. While a run lasts, `meanwhile` happens once.
struct Stage {
  std::int64_t now = 1'000'000'000;
  std::function<void()> meanwhile{};

  void spend(std::int64_t nanos) {
    const std::int64_t end = now + nanos;
    if (auto happens = std::exchange(meanwhile, nullptr)) happens();
    now = std::max(now, end);
  }
};

class StagedSession final : public Session {
 public:
  StagedSession(std::unique_ptr<Session> inner, Stage& stage, std::int64_t nanos)
      : inner_(std::move(inner)), stage_(stage), nanos_(nanos) {}
  const registry::Signature& signature() const override { return inner_->signature(); }
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
    stage_.spend(nanos_);
    return inner_->run(inputs);
  }
  Status score(std::span<const float> matrix, std::size_t columns,
               std::vector<float>& scores) const override {
    return inner_->score(matrix, columns, scores);
  }

 private:
  std::unique_ptr<Session> inner_;
  Stage& stage_;
  std::int64_t nanos_;
};

class StagedRuntime final : public Runtime {
 public:
  StagedRuntime(Runtime& inner, Stage& stage) : inner_(inner), stage_(stage) {}
  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    std::unique_ptr<Session> session = FALAJ_TRY(inner_.load_bytes(model));
    return std::unique_ptr<Session>(
        std::make_unique<StagedSession>(std::move(session), stage_, cost.nanos));
  }
  std::string version() const override { return inner_.version(); }

  Duration cost{};  // Of a run of what is loaded from now on.

 private:
  Runtime& inner_;
  Stage& stage_;
};

}  // namespace falaj::serving::testing
