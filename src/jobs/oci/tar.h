// jobs/oci/tar.h — tar archives as the layers of images are: ustar with pax and GNU long names.
// Made by strangers: everything is bounded, and what is not understood is refused.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::jobs::oci {

enum class TarKind : std::uint8_t { kFile, kFolder, kSymlink, kHardLink, kOther };

struct TarEntry {
  TarKind kind = TarKind::kFile;
  std::string name;  // As it stands there: it may begin with '/' and hold "..".
  std::string link;  // Of a link: where to.
  std::uint32_t mode = 0;
  std::int64_t size = 0;  // Of a file; 0 for others.
};

// Not thread-safe. Every error is FJ-4040.
class TarReader {
 public:
  // The next bytes, at most `count`; 0 at the end.
  using Source = std::function<Result<std::size_t>(char* to, std::size_t count)>;
  explicit TarReader(Source source) : source_(std::move(source)) {}

  // The next entry, behind what is left of the one before; nothing at the end.
  Result<std::optional<TarEntry>> next();
  // Of the entry's content; 0 at its end.
  Result<std::size_t> read(char* to, std::size_t count);

  static constexpr std::size_t kNameMax = 4096;

 private:
  Status fill(char* to, std::size_t count);
  Status skip_rest();
  Result<std::string> text(std::int64_t size, const char* what);
  Status take_pax(std::string_view records);

  Source source_;
  std::int64_t left_ = 0;     // Of the entry's content.
  std::int64_t padding_ = 0;  // Behind it.
  // What extended headers said about the next entry.
  std::string name_;
  std::string link_;
  std::optional<std::int64_t> size_;
};

}  // namespace falaj::jobs::oci
