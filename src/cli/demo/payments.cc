#include "cli/demo/payments.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace falaj::cli::demo {
namespace {

constexpr double kPi = 3.14159265358979323846;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// How fraud looks before the shift: far, large, at night, at risky merchants.
double old_fraud(const Payment& p, double risk) {
  return -6.2 + 1.9 * std::log(p.amount_ratio) + 1.3 * static_cast<double>(p.night) +
         0.035 * p.distance_km + 3.0 * risk;
}

// And after: small amounts in quick repetition at online merchants. The old kind does not vanish.
double new_fraud(const Payment& p, double online) {
  return -7.0 - 0.5 * std::log(p.amount_ratio) + 4.0 * online +
         0.5 * static_cast<double>(std::min<std::int64_t>(p.count_7d, 8)) -
         0.02 * std::min(p.hours_since_last, 100.0);
}

double fraud_probability(const Payment& p, double risk, double online, bool shifted) {
  const double known = sigmoid(old_fraud(p, risk));
  if (!shifted) return known;
  return 1.0 - (1.0 - known) * (1.0 - sigmoid(new_fraud(p, online)));
}

void append_number(std::string& out, double number) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.6f", number);
  out += buffer;
}

}  // namespace

std::uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15ull;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double Random::normal() {
  const double u = std::max(uniform(), 1e-300);
  const double angle = 2.0 * kPi * uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(angle);
}

std::int64_t Random::below(std::int64_t n) {
  return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
}

World::World(std::uint64_t seed, Timestamp end_of_last_day)
    : random_(seed), start_(end_of_last_day - Duration::days(kDays)) {
  for (int i = 0; i < kCustomers; ++i) {
    Customer customer;
    customer.usual_amount = 4.0 + 0.7 * random_.normal();
    customer.distance = std::exp(1.6 + 0.5 * random_.normal());
    customer.night = 0.05 + 0.15 * random_.uniform();
    customer.mean = std::exp(customer.usual_amount);
    customer.last = start_ - Duration::hours(random_.below(96) + 1);
    customers_.push_back(std::move(customer));
  }
  for (int i = 0; i < kMerchants; ++i) {
    const double risk = random_.uniform() * random_.uniform();
    merchants_.push_back({risk, std::exp(3.5 + 0.8 * random_.normal()), random_.uniform()});
  }
}

Timestamp World::start_of(int day) const { return start_ + Duration::days(day); }

void World::remember(Customer& customer, Payment& payment) const {
  while (!customer.recent.empty() && payment.at - customer.recent.front() > Duration::days(7)) {
    customer.recent.pop_front();
  }
  customer.recent.push_back(payment.at);
  payment.count_7d = static_cast<std::int64_t>(customer.recent.size());
  payment.hours_since_last = (payment.at - customer.last).as_seconds() / 3600.0;
  payment.amount_ratio = payment.amount / customer.mean;
  customer.mean = 0.97 * customer.mean + 0.03 * payment.amount;
  customer.last = payment.at;
}

Payment World::pay(Timestamp at, bool shifted) {
  Payment payment;
  payment.at = at;
  payment.customer_id = 1 + random_.below(kCustomers);
  payment.merchant_id = 1 + random_.below(kMerchants);
  Customer& customer = customers_[static_cast<std::size_t>(payment.customer_id - 1)];
  const Merchant& merchant = merchants_[static_cast<std::size_t>(payment.merchant_id - 1)];
  const double scale = shifted ? -0.6 : 0.0;
  payment.amount = std::exp(customer.usual_amount + scale + 0.6 * random_.normal());
  const double travel = shifted ? 2.2 : 1.0;
  payment.distance_km = customer.distance * travel * std::exp(0.8 * random_.normal());
  payment.night = random_.uniform() < customer.night ? 1 : 0;
  remember(customer, payment);
  const double fraud = fraud_probability(payment, merchant.risk, merchant.online, shifted);
  payment.is_fraud = random_.uniform() < fraud ? 1 : 0;
  return payment;
}

std::vector<Payment> World::day(int index) {
  std::vector<Payment> payments;
  payments.reserve(kPaymentsPerDay);
  const std::int64_t step = Duration::days(1).nanos / kPaymentsPerDay;
  for (int i = 0; i < kPaymentsPerDay; ++i) {
    const std::int64_t jitter = random_.below(step / 1'000'000) * 1'000'000;
    const Timestamp at{start_of(index).nanos + i * step + jitter};
    payments.push_back(pay(at, index >= kShiftDay));
  }
  return payments;
}

std::vector<MerchantWeek> World::merchants() const {
  std::vector<MerchantWeek> rows;
  Random random(7);
  for (int week = -1; week * 7 < kDays; ++week) {
    for (int i = 0; i < kMerchants; ++i) {
      const Merchant& merchant = merchants_[static_cast<std::size_t>(i)];
      const double noise = 0.01 * random.normal();
      rows.push_back({start_of(week * 7), i + 1, std::clamp(merchant.risk + noise, 0.0, 1.0),
                      merchant.ticket, std::clamp(merchant.online + noise, 0.0, 1.0)});
    }
  }
  return rows;
}

table::Batch activity_batch(const std::vector<Payment>& payments) {
  using table::Type;
  table::Batch batch(table::Schema{{{"customer_id", Type::kInt64},
                                    {"at", Type::kTimestamp},
                                    {"amount", Type::kFloat64},
                                    {"amount_ratio", Type::kFloat64},
                                    {"count_7d", Type::kInt64},
                                    {"hours_since_last", Type::kFloat64},
                                    {"distance_km", Type::kFloat64},
                                    {"night", Type::kInt64}}});
  for (const Payment& p : payments) {
    batch.columns[0].push_int(p.customer_id);
    batch.columns[1].push_int(p.at.nanos);
    batch.columns[2].push_double(p.amount);
    batch.columns[3].push_double(p.amount_ratio);
    batch.columns[4].push_int(p.count_7d);
    batch.columns[5].push_double(p.hours_since_last);
    batch.columns[6].push_double(p.distance_km);
    batch.columns[7].push_int(p.night);
  }
  return batch;
}

table::Batch label_batch(const std::vector<Payment>& payments) {
  using table::Type;
  table::Batch batch(table::Schema{{{"customer_id", Type::kInt64},
                                    {"merchant_id", Type::kInt64},
                                    {"at", Type::kTimestamp},
                                    {"is_fraud", Type::kInt64}}});
  for (const Payment& p : payments) {
    batch.columns[0].push_int(p.customer_id);
    batch.columns[1].push_int(p.merchant_id);
    batch.columns[2].push_int(p.at.nanos);
    batch.columns[3].push_int(p.is_fraud);
  }
  return batch;
}

std::string merchant_csv(const std::vector<MerchantWeek>& weeks, int bad_rows) {
  std::string csv = "merchant_id,at,risk_score,ticket_mean,online_share\n";
  Random random(11);
  int left = bad_rows;
  for (const MerchantWeek& row : weeks) {
    csv += std::to_string(row.merchant_id) + "," + to_rfc3339(row.at) + ",";
    append_number(csv, row.risk_score);
    csv += ',';
    append_number(csv, row.ticket_mean);
    csv += ',';
    append_number(csv, row.online_share);
    csv += '\n';
    if (left == 0 || random.below(100) != 0) continue;
    switch (left-- % 4) {  // As real files have them.
      case 0:
        csv += "n/a," + to_rfc3339(row.at) + ",0.1,20,0.5\n";
        break;
      case 1:
        csv += std::to_string(row.merchant_id) + ",yesterday,0.1,20,0.5\n";
        break;
      case 2:
        csv += std::to_string(row.merchant_id) + "," + to_rfc3339(row.at) + ",7.5,20,0.5\n";
        break;
      default:
        csv += std::to_string(row.merchant_id) + "," + to_rfc3339(row.at) + ",0.1\n";
        break;
    }
  }
  return csv;
}

}  // namespace falaj::cli::demo
