// features/internal/segment_writer.h — sorts accepted rows and writes them as segments, on threads
// of its own, while the next rows are being read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "exec/pool.h"
#include "features/internal/segments.h"
#include "storage/blob.h"

namespace falaj::features {

// One per ingest. Called from one thread. Segments that were not committed leave nothing behind.
class SegmentWriter {
 public:
  // Rows that are sorted at once; more make more segments.
  static constexpr std::size_t kSegmentRows = 400'000;
  // Segments under way at once; each needs about three times its rows in memory.
  static constexpr std::size_t kThreads = 2;

  SegmentWriter(storage::BlobStore& blobs, storage::Owner owner, std::size_t keys,
                OnlineUse online);
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  // Takes rows of a segment schema. Waits while every thread has a segment; an error is that of an
  // earlier segment.
  Status add(table::Batch rows);
  // Waits for the last segment.
  Status finish();
  // After finish(): the newest row of each key of each segment; none for an offline view.
  table::Batch newest() const;
  // After finish(): the segments become blobs, durable when it returns. Call once.
  Result<std::vector<Segment>> commit();

 private:
  // One segment. Its thread writes it, and nobody else looks before finish().
  struct Job {
    std::vector<table::Batch> pieces;
    std::unique_ptr<storage::BlobWriter> blob;
    std::uint64_t rows = 0;
    Timestamp event_min{};
    Timestamp event_max{};
    table::Batch newest;
  };
  Status start();
  // Waits until at most `most` segments are under way, then gives the first error so far.
  Status wait(std::size_t most);
  Status write(Job& job);

  storage::BlobStore& blobs_;
  const storage::Owner owner_;
  std::size_t keys_;
  OnlineUse online_;
  std::vector<table::Batch> waiting_;
  std::size_t waiting_rows_ = 0;
  std::vector<std::unique_ptr<Job>> jobs_;  // In the order of the rows.

  Mutex mutex_;
  CondVar changed_;
  std::size_t running_ FALAJ_GUARDED_BY(mutex_) = 0;
  Status first_error_ FALAJ_GUARDED_BY(mutex_);
  exec::Pool pool_;  // Last: its threads end before the members above.
};

}  // namespace falaj::features
