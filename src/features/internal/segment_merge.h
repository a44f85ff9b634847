// features/internal/segment_merge.h — several segments become one.
#pragma once

#include <memory>
#include <vector>

#include "base/byte_stream.h"
#include "features/internal/segment_file.h"

namespace falaj::features {

// The rows of all `runs`, which have one schema, as one segment file. Deterministic. Holds a slice
// of the keys at a time: about `slice_rows` rows, more when one key has more. Cost: reads, sorts
// and writes every row once; one more thread prepares the next slice meanwhile.
Status merge_segments(const std::vector<std::shared_ptr<const SegmentFile>>& runs, ByteWriter& out,
                      std::size_t slice_rows = 131'072);

}  // namespace falaj::features
