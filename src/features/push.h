// features/push.h — a few rows at a time, as they happen: acknowledged is durable and visible.
//
// Pushes of one view that wait at the same moment become one segment and one commit, so that many
// small ones cost little more than one. A push is taken whole or not at all: a row that breaks the
// view's declaration refuses it. Late rows are kept, and never overwrite newer ones online.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/value.h"
#include "features/ingest.h"
#include "features/reach.h"

namespace falaj::features {

// Rows in JSON: times are RFC 3339 texts; an absent or null member is a null.
struct PushedRows {
  enum class Form : std::uint8_t {
    kRows,     // [{"customer_id": 1, "at": "…", "amount": 5}, …]: no other members.
    kColumns,  // {"customer_id": [1, 2], "at": "…"}: one value stands for all rows; other columns
               // are left out.
  };
  Form form = Form::kRows;
  Value rows;
  static constexpr std::size_t kRowsMax = 10'000;
  // As a table, 8 bytes a value and each text: one value for all rows, or rows that leave most of
  // them out, come to far more than what was sent.
  static constexpr std::size_t kBytesMax = 64u << 20;
};

struct PushReport {
  std::string view;
  std::uint64_t rows = 0;
  std::uint64_t commit = 0;     // It may hold other pushes' rows too.
  std::uint64_t first_row = 0;  // Of this push among them.
  Reach reach = Reach::kBoth;
};
Value to_value(const PushReport& report);

// Thread-safe.
class Pushes {
 public:
  // Shares the turns of `ingest`, which outlives it.
  Pushes(Ingest& ingest, storage::BlobStore& blobs, security::Audit& audit,
         telemetry::Metrics& metrics, const Clock& clock);
  // Ends what was accepted.
  ~Pushes();

  // Checks the rows at once, and calls `done` once: at once with an error, or on another thread
  // when the rows are durable and visible. Blocks for a read of the definition, not for the disk.
  // FJ-2001 unknown view; FJ-3040 naming the row that does not fit; FJ-0007 when too many rows of
  // the view wait, or too large ones.
  using Done = std::function<void(Result<PushReport>)>;
  void push(const security::RequestContext& context, const std::string& view,
            const PushedRows& rows, Reach reach, Done done);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace falaj::features
