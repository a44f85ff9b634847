#include <algorithm>
#include <set>

#include "parts.h"

namespace falaj_verify {
namespace {

struct Sum {
  std::uint64_t flows = 0;
  std::uint64_t bytes = 0;
};
using Sums = std::map<std::string, Sum>;

// By transfer, exit and zones, which rows and entries name alike; no name holds a blank.
void add(Sums& sums, std::string_view transfer, const Json& counts) {
  std::string way(transfer);
  for (const char* const part : {"exit", "from", "to"}) {
    way += " " + std::string(counts.text_at(part));
  }
  Sum& sum = sums[way];
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;  // No count reaches it.
  sum.flows = std::min(sum.flows + counts.count_at("flows").value_or(0), kMost);
  sum.bytes = std::min(sum.bytes + counts.count_at("bytes").value_or(0), kMost);
}

}  // namespace

std::string check_crossings(const Json& ledger, const std::vector<std::string_view>& entries,
                            std::uint64_t known) {
  std::set<std::string, std::less<>> approved;
  Sums logged;
  for (const std::string_view line : entries) {
    const auto entry = parse_json(line);
    const std::string_view transfer = entry ? entry->text_at("object") : "";
    if (!entry || entry->count_at("sequence") > known) break;
    if (entry->text_at("action") == "transfer.approve") {
      approved.emplace(transfer);
    } else {
      if (!approved.contains(transfer)) return "nobody had approved " + std::string(transfer);
      add(logged, transfer, (*entry)["detail"]);
    }
  }
  Sums counted;
  for (const Json& row : ledger["rows"].items) {
    const std::string transfer = "Transfer/" + std::string(row.text_at("project")) + "/" +
                                 std::string(row.text_at("transfer"));
    const bool crossed = !row.text_at("transfer").empty();
    if (row.count_at("flows") != 0 && (row.text_at("from").empty() || row.text_at("to").empty())) {
      return "something went from or to a place without a zone";
    }
    if (crossed && !approved.contains(transfer)) return "nobody had approved " + transfer;
    if (crossed) add(counted, transfer, row);
  }
  for (const auto& [way, sum] : logged) {
    if (counted[way].flows >= sum.flows && counted[way].bytes >= sum.bytes) continue;
    return "more crossed by " + way + " than it counts";
  }
  return "";
}

}  // namespace falaj_verify
