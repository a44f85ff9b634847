#include "features/internal/view_rows.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace falaj::features {
namespace {

using table::Column;

bool ascends(const VersionedRow& a, const VersionedRow& b) {
  if (const int order = a.key.compare(b.key); order != 0) return order < 0;
  return std::tie(a.event, a.created, a.sequence) < std::tie(b.event, b.created, b.sequence);
}

}  // namespace

Result<ViewRows> ViewRows::load(const storage::BlobStore& blobs, const ViewDefinition& definition,
                                const std::vector<Segment>& segments,
                                const std::vector<table::Field>& features) {
  ViewRows out;
  out.keys_ = definition.entity.keys.size();
  table::Schema schema = segment_schema({}, definition.entity);
  schema.fields.insert(schema.fields.end(), features.begin(), features.end());
  out.rows_ = table::Batch(schema);
  std::vector<std::uint32_t> run_ends;
  std::vector<std::uint64_t> commits;
  for (const Segment& segment : segments) {
    Result<table::Batch> rows =
        read_segment(blobs, {definition.project, definition.view.name}, segment, schema);
    if (!rows.ok()) return rows.error().within("FeatureView " + definition.view.name);
    if (out.rows_.rows() + rows->rows() >= Column::kNoRow) {
      return Error(Code::kResourceExhausted, "FeatureView " + definition.view.name +
                                                 " has over 2^32 rows: join a shorter period");
    }
    out.rows_.append(std::move(rows).value());
    run_ends.push_back(static_cast<std::uint32_t>(out.rows_.rows()));
    commits.push_back(segment.commit);
  }
  out.order(run_ends, commits);
  return out;
}

// Each segment is sorted; merging the runs pairwise costs far less than sorting all rows.
void ViewRows::order(const std::vector<std::uint32_t>& run_ends,
                     const std::vector<std::uint64_t>& commits) {
  std::vector<const Column*> key_columns;
  for (std::size_t i = 0; i < keys_; ++i) key_columns.push_back(&rows_.columns[i]);
  key_column_.emplace_back(key_columns);
  const auto& events = rows_.columns[keys_].ints();
  const Column& created = rows_.columns[keys_ + 1];
  const auto& positions = rows_.columns[keys_ + 2].ints();
  std::vector<VersionedRow> versions(rows_.rows());
  for (std::size_t run = 0, row = 0; run < run_ends.size(); ++run) {
    for (; row < run_ends[run]; ++row) {
      versions[row] = {key_column_[0][row], Timestamp{events[row]},
                       created.is_null(row) ? Timestamp::min() : Timestamp{created.ints()[row]},
                       sequence_of(commits[run], positions[row])};
    }
  }
  origins_.resize(versions.size());
  std::iota(origins_.begin(), origins_.end(), 0u);
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return ascends(versions[a], versions[b]);
  };
  for (std::size_t width = 1; width < run_ends.size(); width *= 2) {
    for (std::size_t left = 0; left + width < run_ends.size(); left += 2 * width) {
      const auto begin = left == 0 ? 0 : run_ends[left - 1];
      const auto middle = run_ends[left + width - 1];
      const auto end = run_ends[std::min(left + 2 * width, run_ends.size()) - 1];
      std::inplace_merge(origins_.begin() + begin, origins_.begin() + middle,
                         origins_.begin() + end, before);
    }
  }
  versions_.reserve(versions.size());
  for (const std::uint32_t origin : origins_) versions_.push_back(versions[origin]);
}

}  // namespace falaj::features
