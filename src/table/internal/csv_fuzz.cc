// Any bytes as a CSV file: reading ends, and says something about every row. Build with clang and
// -fsanitize=fuzzer,address.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "table/internal/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj::table;  // NOLINT: one function, one file.
  std::string_view left(reinterpret_cast<const char*>(data), size);
  const ByteSource source = [&left](char* to, std::size_t room) -> falaj::Result<std::size_t> {
    const std::size_t count = left.size() < room ? left.size() : room;
    left.copy(to, count);
    left.remove_prefix(count);
    return count;
  };
  ReadOptions options;
  options.on_bad_row = [](BadRow row) { FALAJ_CHECK(row.line > 0 && !row.reason.empty()); };
  const auto status = read_csv(
      source, options, [](Batch batch, const std::vector<std::uint64_t>& lines) -> falaj::Status {
        FALAJ_CHECK(batch.rows() == lines.size());
        return {};
      });
  static_cast<void>(status);
  return 0;
}
