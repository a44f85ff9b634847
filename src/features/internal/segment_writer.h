// features/internal/segment_writer.h — sorts accepted rows and writes them as few segments, on
// threads of its own, while the next rows are being read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "exec/pool.h"
#include "features/internal/segments.h"
#include "storage/blob.h"

namespace falaj::features {

// How rows become segments. Sorted runs are kept in memory as the bytes that they have in a file;
// up to kRunsKept of them become a segment each, more are merged into one.
struct SegmentSizes {
  std::size_t run_rows = 400'000;         // Sorted at once.
  std::size_t runs_bytes = 384ull << 20;  // Runs that are kept until they are written.
};

// One per ingest. Called from one thread. Segments that were not committed leave nothing behind.
class SegmentWriter {
 public:
  // Runs that are sorted at once; each needs about three times its rows in memory.
  static constexpr std::size_t kThreads = 2;
  static constexpr std::size_t kRunsKept = 4;

  SegmentWriter(storage::BlobStore& blobs, storage::Owner owner, std::size_t keys, OnlineUse online,
                SegmentSizes sizes = {});
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  // Takes rows of a segment schema. Waits while every thread has a run; an error is that of an
  // earlier one.
  Status add(table::Batch rows);
  // Waits for the last segment.
  Status finish();
  // After finish(): the newest row of each key of each run; none for an offline view.
  table::Batch newest() const;
  // After finish(): the segments become blobs, durable when it returns. Call once.
  Result<std::vector<Segment>> commit();

 private:
  // Rows that were sorted together. Its thread makes it, and nobody else looks before it is done.
  struct Run {
    std::vector<table::Batch> pieces;
    std::string bytes;
    std::uint64_t rows = 0;
    Timestamp event_min = Timestamp::max();
    Timestamp event_max = Timestamp::min();
    table::Batch newest;
  };
  // A segment on its way into the store.
  struct Written {
    std::unique_ptr<storage::BlobWriter> blob;
    std::uint64_t rows = 0;
    Timestamp event_min = Timestamp::max();
    Timestamp event_max = Timestamp::min();
    void count(const Run& run);
  };
  Status start();
  // Runs `work` on a thread of the pool; its error is given by the next wait().
  Status submit(std::function<Status()> work);
  // Waits until at most `most` are under way, then gives the first error so far.
  Status wait(std::size_t most);
  Status sort(Run& run);
  // The runs become segments.
  Status write_runs();
  Status write_one(const Run& run, Written& into);
  Status merge(std::vector<std::unique_ptr<Run>> runs, Written& into);

  storage::BlobStore& blobs_;
  const storage::Owner owner_;
  const std::size_t keys_;
  const OnlineUse online_;
  const SegmentSizes sizes_;
  std::vector<table::Batch> waiting_;
  std::size_t waiting_rows_ = 0;
  std::vector<std::unique_ptr<Run>> runs_;  // In the order of the rows.
  std::vector<std::unique_ptr<Written>> written_;
  std::vector<table::Batch> newest_;

  Mutex mutex_;
  CondVar changed_;
  std::size_t running_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::size_t runs_bytes_ FALAJ_GUARDED_BY(mutex_) = 0;
  Status first_error_ FALAJ_GUARDED_BY(mutex_);
  exec::Pool pool_;  // Last: its threads end before the members above.
};

}  // namespace falaj::features
