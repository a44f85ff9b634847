#include "features/point_in_time_join.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>

namespace falaj::features {
namespace {

using table::Column;

bool ascends(const VersionedRow& a, const VersionedRow& b) {
  if (const int order = a.key.compare(b.key); order != 0) return order < 0;
  return std::tie(a.event, a.created, a.sequence) < std::tie(b.event, b.created, b.sequence);
}

// The first eight bytes behind the type tag of a key: enough to order most keys without following
// a pointer. Equal prefixes say nothing.
std::uint64_t prefix_of(std::string_view key) {
  std::uint64_t prefix = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t at = i + 1;
    prefix = prefix << 8 | (at < key.size() ? static_cast<unsigned char>(key[at]) : 0u);
  }
  return prefix;
}

struct Probe {
  std::uint64_t prefix;
  std::int64_t at;
  std::uint32_t row;
};

// Prefixes order keys only among keys of one type; all keys of a real view are.
bool one_type(std::span<const SpineRow> spine) {
  const char tag = spine.empty() || spine[0].key.empty() ? '\x01' : spine[0].key[0];
  return std::all_of(spine.begin(), spine.end(),
                     [tag](const SpineRow& row) { return row.key.empty() || row.key[0] == tag; });
}

// Spine rows in the order of the feature rows. Rows with a null key are left out.
std::vector<Probe> sorted_probes(std::span<const SpineRow> spine) {
  const bool use_prefix = one_type(spine);
  std::vector<Probe> probes;
  probes.reserve(spine.size());
  for (std::size_t i = 0; i < spine.size(); ++i) {
    if (spine[i].key.empty()) continue;
    probes.push_back({use_prefix ? prefix_of(spine[i].key) : 0, spine[i].at.nanos,
                      static_cast<std::uint32_t>(i)});
  }
  std::sort(probes.begin(), probes.end(), [&](const Probe& a, const Probe& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    if (const int order = spine[a.row].key.compare(spine[b.row].key); order != 0) return order < 0;
    return a.at < b.at;
  });
  return probes;
}

// Moves `row` to the first feature row that is behind (key, at), that is, younger or of a later
// key.
std::size_t advance(std::span<const VersionedRow> rows, std::size_t row, const SpineRow& spine) {
  while (row < rows.size()) {
    const int order = rows[row].key.compare(spine.key);
    if (order > 0 || (order == 0 && rows[row].event > spine.at)) break;
    ++row;
  }
  return row;
}

}  // namespace

Result<std::vector<std::uint32_t>> point_in_time_join(std::span<const SpineRow> spine,
                                                      std::span<const VersionedRow> rows,
                                                      Duration ttl) {
  if (rows.size() >= Column::kNoRow || spine.size() >= Column::kNoRow) {
    return Error(Code::kResourceExhausted,
                 "point-in-time join: over 2^32 rows; join a shorter period");
  }
  if (!std::is_sorted(rows.begin(), rows.end(), ascends)) {
    return Error(Code::kInvalidArgument,
                 "point-in-time join: rows must ascend by key, event, created, sequence");
  }
  std::vector<std::uint32_t> winners(spine.size(), Column::kNoRow);
  std::size_t next = 0;
  for (const Probe& probe : sorted_probes(spine)) {
    const SpineRow& wanted = spine[probe.row];
    next = advance(rows, next, wanted);
    if (next == 0) continue;
    // The newest that is not younger; of equal event times the last created and arrived.
    const VersionedRow& newest = rows[next - 1];
    if (newest.key != wanted.key) continue;
    if (ttl > Duration{} && newest.event < wanted.at - ttl) continue;
    winners[probe.row] = static_cast<std::uint32_t>(next - 1);
  }
  return winners;
}

}  // namespace falaj::features
