#include "features/internal/segment_writer.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace falaj::features {
namespace {

using table::Batch;

Batch joined(std::vector<Batch> pieces) {
  Batch out = std::move(pieces.front());
  std::size_t rows = out.rows();
  for (std::size_t i = 1; i < pieces.size(); ++i) rows += pieces[i].rows();
  if (pieces.size() > 1) {
    for (table::Column& column : out.columns) column.reserve(rows);
  }
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    out.append(std::move(pieces[i]));
    pieces[i] = Batch();
  }
  return out;
}

}  // namespace

SegmentWriter::SegmentWriter(storage::BlobStore& blobs, storage::Owner owner, std::size_t keys,
                             OnlineUse online)
    : blobs_(blobs),
      owner_(std::move(owner)),
      keys_(keys),
      online_(online),
      pool_({"segments", kThreads, kThreads}) {}

SegmentWriter::~SegmentWriter() { pool_.drain(); }

Status SegmentWriter::add(Batch rows) {
  if (rows.rows() == 0) return {};
  waiting_rows_ += rows.rows();
  waiting_.push_back(std::move(rows));
  return waiting_rows_ < kSegmentRows ? Status() : start();
}

Status SegmentWriter::start() {
  FALAJ_TRY(wait(kThreads - 1));
  Job& job = *jobs_.emplace_back(std::make_unique<Job>());
  job.pieces = std::move(waiting_);
  waiting_.clear();
  waiting_rows_ = 0;
  {
    const MutexLock lock(mutex_);
    ++running_;
  }
  const auto finished = [this](Status status) {
    const MutexLock lock(mutex_);
    --running_;
    if (first_error_.ok()) first_error_ = std::move(status);
    changed_.notify_all();
  };
  Status submitted = pool_.submit([this, &job, finished] { finished(write(job)); });
  if (!submitted.ok()) finished(submitted);
  return submitted;
}

Status SegmentWriter::wait(std::size_t most) {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [this, most]() FALAJ_REQUIRES(mutex_) { return running_ <= most; });
  return first_error_;
}

Status SegmentWriter::write(Job& job) {
  const Batch rows = sorted_rows(joined(std::move(job.pieces)), keys_);
  if (online_ == OnlineUse::kOnline) job.newest = newest_rows(rows, keys_);
  const auto& events = rows.columns[keys_].ints();
  const auto [least, most] = std::minmax_element(events.begin(), events.end());
  job.rows = rows.rows();
  job.event_min = Timestamp{*least};
  job.event_max = Timestamp{*most};
  job.blob = FALAJ_TRY(blobs_.create(owner_));
  return write_segment_file(*job.blob, rows, keys_);
}

Status SegmentWriter::finish() {
  if (waiting_rows_ > 0) FALAJ_TRY(start());
  return wait(0);
}

Batch SegmentWriter::newest() const {
  Batch out;
  for (const auto& job : jobs_) out.append(job->newest);
  return out;
}

Result<std::vector<Segment>> SegmentWriter::commit() {
  std::vector<Segment> out;
  for (const auto& job : jobs_) {
    const storage::StoredBlob stored = FALAJ_TRY(job->blob->commit());
    job->blob.reset();
    out.push_back({0, stored.id, stored.content_sha256, job->rows, job->event_min, job->event_max,
                   owner_.zone});
  }
  return out;
}

}  // namespace falaj::features
