// storage/page_cipher.h — how the pages of a database are sealed: the port that open_sqlite takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace falaj::storage {

// Where a page lies. A page that was moved, or put back from another time of the log, does not
// open.
struct PagePlace {
  enum class File : std::uint8_t { kDatabase, kLog };
  File file = File::kDatabase;
  std::uint64_t offset = 0;   // In the file.
  std::uint32_t page = 0;     // Its number in the database.
  std::uint64_t log_run = 0;  // Of the log only: the salt that changes whenever it begins anew.
};

// Thread-safe.
class PageCipher {
 public:
  // What a page gives up of its bytes, at its end.
  static constexpr std::size_t kOverhead = 40;
  // Of the header of a page in the log.
  static constexpr std::size_t kFrameHeader = 24;

  virtual ~PageCipher() = default;
  // `page` is a whole page: all but its last kOverhead bytes are sealed, into `out` of the same
  // size.
  virtual void seal_page(const PagePlace& place, std::span<const unsigned char> page,
                         std::span<unsigned char> out) const = 0;
  // The reverse; the last kOverhead bytes come back as zeros. FJ-7043 when it was not sealed with
  // this key for this place; `out` is then zeros.
  virtual Status open_page(const PagePlace& place, std::span<const unsigned char> sealed,
                           std::span<unsigned char> out) const = 0;
  // A frame header holds a checksum of the page as it reads in clear, and has no room for a tag:
  // it is permuted, in its own length, under a key and its offset. SQLite's own checksum finds
  // what does not belong.
  virtual void hide_header(std::uint64_t offset,
                           std::span<unsigned char, kFrameHeader> header) const = 0;
  virtual void show_header(std::uint64_t offset,
                           std::span<unsigned char, kFrameHeader> header) const = 0;
};

}  // namespace falaj::storage
