// How quickly the audit log grows with group commit on sealed pages, and how quickly it is
// verified. Prints one JSON object. usage: audit_bench FOLDER [ENTRIES] [BATCH] [WRITERS]
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/time.h"
#include "security/audit.h"
#include "security/sealed/pages.h"
#include "storage/open.h"

namespace falaj::security {
namespace {

constexpr std::int64_t kNanos = 1'000'000'000;

double per_second(std::int64_t count, std::int64_t nanos) {
  return static_cast<double>(count) * static_cast<double>(kNanos) / static_cast<double>(nanos);
}

AuditEvent event_of(std::int64_t i) {
  Value detail;
  detail["rows"] = i;
  detail["sha256"] = std::string(64, 'a');
  return {"feature_view.ingest", "FeatureView/payments/customer_activity", std::move(detail)};
}

struct Load {
  std::int64_t entries;
  std::int64_t batch;
  std::int64_t writers;  // Threads that each wait for their own batches to be durable.
};

bool append_all(Audit& audit, const Load& load) {
  std::atomic<std::int64_t> next = 0;
  std::atomic<bool> failed = false;
  const auto write = [&] {
    const auto context = system_context("service:bench", ProjectName("payments"), Zone("ae"));
    while (!failed) {
      const std::int64_t first = next.fetch_add(load.batch);
      if (first >= load.entries) return;
      std::vector<AuditRecord> records;
      const std::int64_t end = std::min(first + load.batch, load.entries);
      for (std::int64_t i = first; i < end; ++i) records.push_back({context, event_of(i)});
      if (!audit.record_all(records).ok()) failed = true;
    }
  };
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < load.writers; ++i) threads.emplace_back(write);
  for (std::thread& thread : threads) thread.join();
  return !failed;
}

int run(const std::string& folder, const Load& load) {
  const SystemClock clock;
  const auto store = storage::open_sqlite(
      folder + "/audit_bench.db", storage::Durability::kSync,
      sealed::make_page_cipher(crypto::SecretBytes(std::string(32, 'b')), "audit_bench.db"));
  if (!store.ok() || !(*store)->migrate({kAuditMigration}).ok()) return 1;
  Audit audit(**store, clock);
  const std::int64_t begin = monotonic_nanos();
  if (!append_all(audit, load)) return 1;
  const std::int64_t appended = monotonic_nanos();
  if (!audit.advance().ok()) return 1;
  const std::int64_t grown = monotonic_nanos();
  const auto verified = audit.verify();
  const std::int64_t end = monotonic_nanos();
  if (!verified.ok() || verified->sequence != load.entries) return 1;
  std::printf(
      "{\"entries\": %lld, \"batch\": %lld, \"writers\": %lld, \"append_per_s\": %.0f, "
      "\"tree_per_s\": %.0f, "
      "\"verify_per_s\": %.0f}\n",
      static_cast<long long>(load.entries), static_cast<long long>(load.batch),
      static_cast<long long>(load.writers), per_second(load.entries, appended - begin),
      per_second(load.entries, grown - appended), per_second(load.entries, end - grown));
  return 0;
}

}  // namespace
}  // namespace falaj::security

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto number = [&](int i, std::int64_t otherwise) {
    return argc > i ? std::int64_t{std::atoll(argv[i])} : otherwise;
  };
  return falaj::security::run(argv[1], {number(2, 200'000), number(3, 256), number(4, 4)});
}
