#include "features/internal/segment_writer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "features/internal/segment_merge.h"

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

// The bytes of a run. They have room from the beginning: what grows is copied again and again.
class RunBytes final : public ByteWriter {
 public:
  explicit RunBytes(const Batch& rows) {
    std::size_t most = 0;
    for (const table::Column& column : rows.columns) {
      most += rows.rows() * (sizeof(std::int64_t) + 1);
      if (column.type() == table::Type::kString) most += column.strings().bytes().size();
    }
    bytes_.reserve(most);
  }
  Status append(std::string_view bytes) override {
    bytes_.append(bytes);
    return {};
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace

SegmentWriter::SegmentWriter(storage::BlobStore& blobs, storage::Owner owner, std::size_t keys,
                             OnlineUse online, SegmentSizes sizes)
    : blobs_(blobs),
      owner_(std::move(owner)),
      keys_(keys),
      online_(online),
      sizes_(sizes),
      pool_({"segments", kThreads, kRunsKept + kThreads}) {}

SegmentWriter::~SegmentWriter() { pool_.drain(); }

Status SegmentWriter::add(Batch rows) {
  if (rows.rows() == 0) return {};
  waiting_rows_ += rows.rows();
  waiting_.push_back(std::move(rows));
  return waiting_rows_ < sizes_.run_rows ? Status() : start();
}

Status SegmentWriter::submit(std::function<Status()> work) {
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
  Status submitted = pool_.submit([work = std::move(work), finished] { finished(work()); });
  if (!submitted.ok()) finished(submitted);
  return submitted;
}

Status SegmentWriter::start() {
  FALAJ_TRY(wait(kThreads - 1));
  std::size_t bytes = 0;
  {
    const MutexLock lock(mutex_);
    bytes = runs_bytes_;
  }
  if (bytes >= sizes_.runs_bytes) FALAJ_TRY(write_runs());
  Run& run = *runs_.emplace_back(std::make_unique<Run>());
  run.pieces = std::exchange(waiting_, {});
  waiting_rows_ = 0;
  return submit([this, &run] { return sort(run); });
}

Status SegmentWriter::wait(std::size_t most) {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [this, most]() FALAJ_REQUIRES(mutex_) { return running_ <= most; });
  return first_error_;
}

Status SegmentWriter::sort(Run& run) {
  const Batch rows = sorted_rows(joined(std::exchange(run.pieces, {})), keys_);
  if (online_ == OnlineUse::kOnline) run.newest = newest_rows(rows, keys_);
  const auto& events = rows.columns[keys_].ints();
  const auto [least, most] = std::minmax_element(events.begin(), events.end());
  run.rows = rows.rows();
  run.event_min = Timestamp{*least};
  run.event_max = Timestamp{*most};
  RunBytes bytes(rows);
  FALAJ_TRY(write_segment_file(bytes, rows, keys_));
  run.bytes = bytes.take();
  const MutexLock lock(mutex_);
  runs_bytes_ += run.bytes.size();
  return {};
}

void SegmentWriter::Written::count(const Run& run) {
  rows += run.rows;
  event_min = std::min(event_min, run.event_min);
  event_max = std::max(event_max, run.event_max);
}

Status SegmentWriter::write_one(const Run& run, Written& into) {
  into.blob = FALAJ_TRY(blobs_.create(owner_));
  into.count(run);
  return into.blob->append(run.bytes);
}

Status SegmentWriter::merge(std::vector<std::unique_ptr<Run>> runs, Written& into) {
  std::vector<std::shared_ptr<const SegmentFile>> files;
  for (const auto& run : runs) {
    into.count(*run);
    SegmentFile file =
        FALAJ_TRY(SegmentFile::open(std::make_shared<TextReader>(std::move(run->bytes))));
    files.push_back(std::make_shared<SegmentFile>(std::move(file)));
  }
  into.blob = FALAJ_TRY(blobs_.create(owner_));
  return merge_segments(files, *into.blob);
}

Status SegmentWriter::write_runs() {
  FALAJ_TRY(wait(0));
  {
    const MutexLock lock(mutex_);
    runs_bytes_ = 0;
  }
  std::vector<std::unique_ptr<Run>> runs = std::exchange(runs_, {});
  for (const auto& run : runs) newest_.push_back(std::move(run->newest));
  if (runs.size() > kRunsKept) {
    return merge(std::move(runs), *written_.emplace_back(std::make_unique<Written>()));
  }
  for (const auto& run : runs) {
    Written& into = *written_.emplace_back(std::make_unique<Written>());
    // One that could not begin is told by wait(), when nobody uses `runs` any more.
    if (!submit([this, &run, &into] { return write_one(*run, into); }).ok()) break;
  }
  return wait(0);
}

Status SegmentWriter::finish() {
  if (waiting_rows_ > 0) FALAJ_TRY(start());
  return write_runs();
}

Batch SegmentWriter::newest() const {
  Batch out;
  for (const Batch& rows : newest_) out.append(rows);
  return out;
}

Result<std::vector<Segment>> SegmentWriter::commit() {
  std::vector<Segment> out;
  for (const auto& written : written_) {
    const storage::StoredBlob stored = FALAJ_TRY(written->blob->commit());
    written->blob.reset();
    out.push_back({0, stored.id, stored.content_sha256, written->rows, written->event_min,
                   written->event_max, owner_.zone});
  }
  return out;
}

}  // namespace falaj::features
