// How quickly the audit log grows with group commit on sealed pages, and how quickly it is
// verified. Prints one JSON object. usage: audit_bench FOLDER [ENTRIES] [BATCH]
#include <cstdio>
#include <cstdlib>

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

int run(const std::string& folder, std::int64_t entries, std::int64_t batch) {
  const SystemClock clock;
  const auto store = storage::open_sqlite(
      folder + "/audit_bench.db", storage::Durability::kSync,
      sealed::make_page_cipher(crypto::SecretBytes(std::string(32, 'b')), "audit_bench.db"));
  if (!store.ok() || !(*store)->migrate({kAuditMigration}).ok()) return 1;
  Audit audit(**store, clock);
  const auto context = system_context("service:bench", ProjectName("payments"), Zone("ae"));
  const std::int64_t begin = monotonic_nanos();
  for (std::int64_t i = 0; i < entries; i += batch) {
    std::vector<AuditEvent> events;
    for (std::int64_t j = i; j < std::min(i + batch, entries); ++j) events.push_back(event_of(j));
    if (!audit.record_all(context, events).ok()) return 1;
  }
  const std::int64_t appended = monotonic_nanos();
  if (!audit.advance().ok()) return 1;
  const std::int64_t grown = monotonic_nanos();
  const auto verified = audit.verify();
  const std::int64_t end = monotonic_nanos();
  if (!verified.ok() || verified->sequence < entries) return 1;
  std::printf(
      "{\"entries\": %lld, \"batch\": %lld, \"append_per_s\": %.0f, \"tree_per_s\": %.0f, "
      "\"verify_per_s\": %.0f}\n",
      static_cast<long long>(entries), static_cast<long long>(batch),
      per_second(entries, appended - begin), per_second(entries, grown - appended),
      per_second(entries, end - grown));
  return 0;
}

}  // namespace
}  // namespace falaj::security

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto number = [&](int i, std::int64_t otherwise) {
    return argc > i ? std::int64_t{std::atoll(argv[i])} : otherwise;
  };
  return falaj::security::run(argv[1], number(2, 200'000), number(3, 256));
}
