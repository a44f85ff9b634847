// Any bytes as an Arrow IPC file or stream: an error or rows, never a crash. Build with clang and
// -fsanitize=fuzzer,address.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "table/io.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj::table;  // NOLINT: one function, one file.
  static const int file = ::memfd_create("arrow", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  FALAJ_CHECK(::ftruncate(file, 0) == 0);
  FALAJ_CHECK(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  const auto schema = read_schema(path, Format::kArrowIpc);
  ReadOptions options;
  options.on_bad_row = [](BadRow row) { FALAJ_CHECK(row.line > 0 && !row.reason.empty()); };
  const auto status =
      read_file(path, Format::kArrowIpc, options,
                [&](Batch batch, const std::vector<std::uint64_t>& lines) -> falaj::Status {
                  // What has rows has a schema that could be read, and as many columns.
                  FALAJ_CHECK(schema.ok() && batch.schema == schema.value());
                  FALAJ_CHECK(batch.rows() == lines.size());
                  return {};
                });
  static_cast<void>(status);
  return 0;
}
