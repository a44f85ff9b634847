#include "serving/explain/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

namespace falaj::serving::explain {
namespace {

// What one row has so far.
struct Progress {
  std::mt19937_64 random;
  std::vector<std::uint32_t> order;  // Of the background, shuffled anew when it was gone through.
  std::size_t next = 0;
  std::size_t pairs = 0;
  double value = 0;
  double base = 0;
  std::vector<double> mean;
  std::vector<double> spread;  // Sum of squared differences from the mean.
};

// The order is ours: std::shuffle may differ between libraries.
void shuffle(std::vector<std::uint32_t>& items, std::mt19937_64& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random() % i]);
}

class Sampler {
 public:
  Sampler(const SamplingOptions& options, const Score& score)
      : options_(options), score_(score), asked_(1 + 2 * (options.features - 1)) {}

  Result<std::vector<Sampled>> run() {
    FALAJ_TRY(begin());
    for (std::size_t done = 0; done < options_.pairs_max;) {
      // A quarter of what was done takes a quarter of that time: so much may it be late at most.
      const std::size_t most = std::min(options_.call_rows_max / asked_, done / 4);
      const std::size_t pairs = std::min(std::max<std::size_t>(1, most), options_.pairs_max - done);
      for (std::size_t row = 0; row < progress_.size(); ++row) {
        if (options_.late && options_.late()) return finish();
        FALAJ_TRY(draw(row, pairs));
      }
      done += pairs;
    }
    return finish();
  }

 private:
  // Scores each row as it is.
  Status begin() {
    std::vector<std::uint32_t> every(options_.background);
    std::iota(every.begin(), every.end(), 0U);
    const std::vector<std::uint8_t> all(options_.features, 1);
    for (std::size_t row = 0; row < options_.rows; ++row) {
      Progress& progress = progress_.emplace_back();
      progress.random.seed(options_.seed + row * 0x9E3779B97F4A7C15ULL);
      progress.order = every;
      progress.next = every.size();
      progress.mean.assign(options_.features, 0);
      progress.spread.assign(options_.features, 0);
      if (options_.late && options_.late()) return too_late();
      progress.value = FALAJ_TRY(ask({row, std::span(every).first(1), all})).front();
    }
    return {};
  }

  static Error too_late() {
    return Error(ErrorId::kDeadlineExceeded,
                 "the explanation's budget was spent before every row had two samples");
  }

  Result<std::vector<double>> ask(const Mixed& mixed) {
    std::vector<double> scores = FALAJ_TRY(score_(mixed));
    if (scores.size() != mixed.background.size()) {
      return Error(ErrorId::kTensorMismatch, "the model answered " + std::to_string(scores.size()) +
                                                 " rows of " +
                                                 std::to_string(mixed.background.size()));
    }
    if (!std::all_of(scores.begin(), scores.end(), [](double s) { return std::isfinite(s); })) {
      return Error(ErrorId::kFailedPrecondition,
                   "row " + std::to_string(mixed.row) +
                       " cannot be explained: mixed with the background, its score is not finite");
    }
    return scores;
  }

  std::uint32_t next_background(Progress& progress) const {
    if (progress.next == progress.order.size()) {
      shuffle(progress.order, progress.random);
      progress.next = 0;
    }
    return progress.order[progress.next++];
  }

  // Draws `pairs` pairs for a row and asks for all their rows at once. Of a pair: the background
  // row itself, then what lies between it and the explained row, forth and back.
  Status draw(std::size_t row, std::size_t pairs) {
    Progress& progress = progress_[row];
    const std::size_t features = options_.features;
    std::vector<std::vector<std::uint32_t>> orders(pairs);
    std::vector<std::uint32_t> background;
    std::vector<std::uint8_t> taken;
    background.reserve(pairs * asked_);
    taken.reserve(pairs * asked_ * features);
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      background.insert(background.end(), asked_, next_background(progress));
      orders[pair].resize(features);
      std::iota(orders[pair].begin(), orders[pair].end(), 0U);
      shuffle(orders[pair], progress.random);
      taken.insert(taken.end(), features, 0);
      append_inner(orders[pair], taken);
      std::vector<std::uint32_t> back(orders[pair].rbegin(), orders[pair].rend());
      append_inner(back, taken);
    }
    const std::vector<double> scores = FALAJ_TRY(ask({row, background, taken}));
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      add(progress, orders[pair], std::span(scores).subspan(pair * asked_, asked_));
    }
    return {};
  }

  // After the first feature of the order was taken, after the second, … but not after the last.
  void append_inner(std::span<const std::uint32_t> order, std::vector<std::uint8_t>& taken) const {
    std::vector<std::uint8_t> row(options_.features, 0);
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      row[order[i]] = 1;
      taken.insert(taken.end(), row.begin(), row.end());
    }
  }

  // One pair: the mean of its two orders, by Welford's way of keeping mean and spread.
  void add(Progress& progress, std::span<const std::uint32_t> order,
           std::span<const double> scores) const {
    const std::size_t features = options_.features;
    const double base = scores[0];
    std::vector<double> parts(features, 0.0);
    const auto walk = [&](std::span<const double> inner, auto feature_at) {
      double before = base;
      for (std::size_t i = 0; i < features; ++i) {
        const double after = i + 1 < features ? inner[i] : progress.value;
        parts[feature_at(i)] += (after - before) / 2;
        before = after;
      }
    };
    walk(scores.subspan(1, features - 1), [&](std::size_t i) { return order[i]; });
    walk(scores.last(features - 1), [&](std::size_t i) { return order[features - 1 - i]; });
    ++progress.pairs;
    const auto count = static_cast<double>(progress.pairs);
    progress.base += (base - progress.base) / count;
    for (std::size_t i = 0; i < features; ++i) {
      const double off = parts[i] - progress.mean[i];
      progress.mean[i] += off / count;
      progress.spread[i] += off * (parts[i] - progress.mean[i]);
    }
  }

  Result<std::vector<Sampled>> finish() const {
    std::vector<Sampled> out;
    for (const Progress& progress : progress_) {
      if (progress.pairs < 2) return too_late();
      const auto count = static_cast<double>(progress.pairs);
      Sampled& sampled = out.emplace_back();
      sampled.base = progress.base;
      sampled.value = progress.value;
      sampled.contributions = progress.mean;
      for (const double spread : progress.spread) {
        sampled.errors.push_back(std::sqrt(spread / (count - 1) / count));
      }
      sampled.pairs = progress.pairs;
    }
    return out;
  }

  const SamplingOptions& options_;
  const Score& score_;
  const std::size_t asked_;  // Rows of a pair.
  std::vector<Progress> progress_;
};

}  // namespace

Result<std::vector<Sampled>> sample(const SamplingOptions& options, const Score& score) {
  if (options.features == 0 || options.background == 0 || options.pairs_max < 2) {
    return Error(ErrorId::kInvalidArgument, "nothing to explain, or nothing to explain it against");
  }
  return Sampler(options, score).run();
}

}  // namespace falaj::serving::explain
