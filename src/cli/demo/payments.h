// cli/demo/payments.h — a small world of card payments in which the fraud changes half-way.
//
// Deterministic: the same seed and last day give the same rows on every machine. Customers have
// habits (amount, distance, night hours), merchants have risk. At first fraud is a large amount far
// from home at night; from day `kShiftDay` on most of it is card testing: small amounts, quick
// repetition, online merchants, and everybody's amounts and distances move as well. A model of the
// first world is therefore weak in the second, and can see in its inputs that something moved.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/time.h"
#include "table/batch.h"

namespace falaj::cli::demo {

inline constexpr int kTrainDays = 60;  // Learned from.
inline constexpr int kShiftDay = 70;   // Ten days of the same world, then the other one.
inline constexpr int kDays = 94;
inline constexpr int kPaymentsPerDay = 1000;
inline constexpr int kCustomers = 4000;
inline constexpr int kMerchants = 200;

struct Payment {
  Timestamp at{};
  std::int64_t customer_id = 0;
  std::int64_t merchant_id = 0;
  double amount = 0;
  double amount_ratio = 0;  // To the customer's usual amount.
  std::int64_t count_7d = 0;
  double hours_since_last = 0;
  double distance_km = 0;
  std::int64_t night = 0;
  std::int64_t is_fraud = 0;
};

struct MerchantWeek {
  Timestamp at{};
  std::int64_t merchant_id = 0;
  double risk_score = 0;
  double ticket_mean = 0;
  double online_share = 0;
};

// A generator of random numbers that is the same everywhere (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  double uniform();  // [0, 1)
  double normal();   // Mean 0, deviation 1.
  std::int64_t below(std::int64_t n);

 private:
  std::uint64_t state_;
};

// The world, a day at a time; days must be asked for in order, from 0.
class World {
 public:
  World(std::uint64_t seed, Timestamp end_of_last_day);

  std::vector<Payment> day(int index);
  // One row per merchant and week, for the whole time.
  std::vector<MerchantWeek> merchants() const;
  Timestamp start_of(int day) const;

 private:
  struct Customer {
    double usual_amount = 0;  // Log of it.
    double distance = 0;
    double night = 0;
    double mean = 0;  // Running mean of amounts.
    Timestamp last{};
    std::deque<Timestamp> recent;  // Of the last seven days.
  };
  struct Merchant {
    double risk = 0;
    double ticket = 0;
    double online = 0;
  };
  Payment pay(Timestamp at, bool shifted);
  void remember(Customer& customer, Payment& payment) const;

  Random random_;
  Timestamp start_;
  std::vector<Customer> customers_;
  std::vector<Merchant> merchants_;
};

// As the files of the demo: customer_activity, payment_labels.
table::Batch activity_batch(const std::vector<Payment>& payments);
table::Batch label_batch(const std::vector<Payment>& payments);
// As CSV text, with `bad_rows` lines that a careful reader refuses.
std::string merchant_csv(const std::vector<MerchantWeek>& weeks, int bad_rows);

}  // namespace falaj::cli::demo
