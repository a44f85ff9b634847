#include "storage/sqlite/sealed_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

namespace falaj::storage {
namespace {

constexpr std::int64_t kPage = SealedVfs::kPageBytes;
constexpr std::int64_t kLogHeader = 32;
constexpr std::int64_t kFrameHeader = PageCipher::kFrameHeader;
constexpr std::int64_t kFrame = kFrameHeader + kPage;
constexpr std::int64_t kFileHeader = 100;  // What SQLite reads before it knows anything.

using Page = std::array<unsigned char, kPage>;
using Frame = std::array<unsigned char, kFrame>;
using FrameHeader = std::span<unsigned char, PageCipher::kFrameHeader>;

std::uint32_t big_endian(const unsigned char* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | bytes[3];
}

// The salts stand at 16 of the log's header.
std::uint64_t salts_at(const unsigned char* bytes) {
  return static_cast<std::uint64_t>(big_endian(bytes)) << 32 | big_endian(bytes + 4);
}

// What the files of one store share.
struct Shared {
  std::shared_ptr<const PageCipher> cipher;
  sqlite3_vfs* below = nullptr;
  std::atomic<std::uint64_t> log_run{0};  // Of the newest log header that was read or written.
};

enum class Kind : std::uint8_t { kDatabase, kLog, kJournal };

// As SQLite allocates it: the file below lies behind it in the same block.
struct SealedFile {
  sqlite3_file base;
  Kind kind;
  Shared* shared;
  // The frame header that was written last: its page follows at once.
  std::int64_t header_at;
  std::array<unsigned char, kFrameHeader> header;

  sqlite3_file* below() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

SealedFile& sealed(sqlite3_file* file) { return *reinterpret_cast<SealedFile*>(file); }
sqlite3_file* below(sqlite3_file* file) { return sealed(file).below(); }

int read_below(sqlite3_file* file, void* out, std::int64_t count, std::int64_t offset) {
  sqlite3_file* inner = below(file);
  return inner->pMethods->xRead(inner, out, static_cast<int>(count), offset);
}

int write_below(sqlite3_file* file, const void* from, std::int64_t count, std::int64_t offset) {
  sqlite3_file* inner = below(file);
  return inner->pMethods->xWrite(inner, from, static_cast<int>(count), offset);
}

PagePlace database_place(std::int64_t offset) {
  return {PagePlace::File::kDatabase, static_cast<std::uint64_t>(offset),
          static_cast<std::uint32_t>(offset / kPage + 1), 0};
}

// The run is that of the log's header: a frame's own salts are zeros for a while when a page was
// written again inside one transaction, until SQLite has put the checksums right.
PagePlace log_place(std::int64_t frame_at, const unsigned char* header, const Shared& shared) {
  return {PagePlace::File::kLog, static_cast<std::uint64_t>(frame_at), big_endian(header),
          shared.log_run.load()};
}

// ---- The database file ----

// A crash while page 1 was being copied from the log may have left half of it; the whole one is in
// the log. SQLite looks at these bytes first only to learn the layout, which never varies.
void standard_header(unsigned char* out) {
  std::memset(out, 0, kFileHeader);
  std::memcpy(out, "SQLite format 3", 16);
  out[16] = kPage >> 8;
  out[18] = out[19] = 2;  // WAL.
  out[20] = PageCipher::kOverhead;
  out[21] = 64;
  out[22] = out[23] = 32;
}

// One page, opened. SQLITE_IOERR_SHORT_READ when the file ends before it.
int read_page(sqlite3_file* file, std::int64_t offset, Page& out) {
  Page raw;
  const int code = read_below(file, raw.data(), kPage, offset);
  if (code == SQLITE_IOERR_SHORT_READ) {
    sqlite3_int64 size = 0;
    sqlite3_file* inner = below(file);
    if (inner->pMethods->xFileSize(inner, &size) != SQLITE_OK) return SQLITE_IOERR_FSTAT;
    if (size > offset) return SQLITE_IOERR_DATA;  // A part of a page opens as nothing.
    out.fill(0);
    return SQLITE_IOERR_SHORT_READ;
  }
  if (code != SQLITE_OK) return code;
  const Status opened = sealed(file).shared->cipher->open_page(database_place(offset), raw, out);
  return opened.ok() ? SQLITE_OK : SQLITE_IOERR_DATA;
}

int read_database(sqlite3_file* file, unsigned char* out, std::int64_t count, std::int64_t offset) {
  const bool only_layout = offset == 0 && count == kFileHeader;
  while (count > 0) {
    const std::int64_t begin = offset / kPage * kPage;
    const std::int64_t part = std::min(count, begin + kPage - offset);
    Page page;
    const int code = read_page(file, begin, page);
    if (code == SQLITE_IOERR_SHORT_READ) {
      std::memset(out, 0, static_cast<std::size_t>(count));
      return code;
    }
    if (code == SQLITE_IOERR_DATA && only_layout) {
      standard_header(out);
      return SQLITE_OK;
    }
    if (code != SQLITE_OK) return code;
    std::memcpy(out, page.data() + (offset - begin), static_cast<std::size_t>(part));
    out += part;
    offset += part;
    count -= part;
  }
  return SQLITE_OK;
}

int write_database(sqlite3_file* file, const unsigned char* from, std::int64_t count,
                   std::int64_t offset) {
  if (count != kPage || offset % kPage != 0) return SQLITE_IOERR_WRITE;
  Page raw;
  sealed(file).shared->cipher->seal_page(database_place(offset), std::span(from, kPage), raw);
  return write_below(file, raw.data(), kPage, offset);
}

// ---- The log ----

int read_log_header(sqlite3_file* file, unsigned char* out) {
  const int code = read_below(file, out, kLogHeader, 0);
  if (code == SQLITE_OK) sealed(file).shared->log_run.store(salts_at(out + 16));
  return code;
}

// A frame as recovery reads it, header and page. What does not open is what a power cut tore:
// handed on as zeros, it fails SQLite's checks, and the log ends before it.
int read_frame(sqlite3_file* file, unsigned char* out, std::int64_t at) {
  Frame raw;
  const int code = read_below(file, raw.data(), kFrame, at);
  if (code != SQLITE_OK) {
    std::memset(out, 0, kFrame);
    return code;
  }
  const PageCipher& cipher = *sealed(file).shared->cipher;
  cipher.show_header(static_cast<std::uint64_t>(at), FrameHeader(raw.data(), kFrameHeader));
  const auto opened =
      cipher.open_page(log_place(at, raw.data(), *sealed(file).shared),
                       std::span(raw).subspan(kFrameHeader), std::span(out + kFrameHeader, kPage));
  if (opened.ok()) {
    std::memcpy(out, raw.data(), kFrameHeader);
  } else {
    std::memset(out, 0, kFrame);
  }
  return SQLITE_OK;
}

// A page as readers and the checkpoint want it. It must belong to the log as it is now.
int read_log_page(sqlite3_file* file, unsigned char* out, std::int64_t count, std::int64_t at) {
  Frame raw;
  const int code = read_below(file, raw.data(), kFrame, at);
  if (code != SQLITE_OK) return code == SQLITE_IOERR_SHORT_READ ? SQLITE_IOERR_DATA : code;
  const Shared& shared = *sealed(file).shared;
  shared.cipher->show_header(static_cast<std::uint64_t>(at), FrameHeader(raw.data(), kFrameHeader));
  const PagePlace place = log_place(at, raw.data(), shared);
  Page page;
  const Status opened = shared.cipher->open_page(place, std::span(raw).subspan(kFrameHeader), page);
  if (!opened.ok()) return SQLITE_IOERR_DATA;
  std::memcpy(out, page.data(), static_cast<std::size_t>(count));
  return SQLITE_OK;
}

// A part of a frame's header: its checksum, when a page is written again inside one transaction.
int read_frame_header(sqlite3_file* file, unsigned char* out, std::int64_t count,
                      std::int64_t offset) {
  const std::int64_t inside = (offset - kLogHeader) % kFrame;
  const std::int64_t at = offset - inside;
  std::array<unsigned char, kFrameHeader> header;
  const int code = read_below(file, header.data(), kFrameHeader, at);
  if (code != SQLITE_OK) return code;
  sealed(file).shared->cipher->show_header(static_cast<std::uint64_t>(at), header);
  std::memcpy(out, header.data() + inside, static_cast<std::size_t>(count));
  return SQLITE_OK;
}

int read_log(sqlite3_file* file, unsigned char* out, std::int64_t count, std::int64_t offset) {
  if (offset == 0 && count == kLogHeader) return read_log_header(file, out);
  if (offset + count <= kLogHeader) return read_below(file, out, count, offset);
  if (offset < kLogHeader) return SQLITE_IOERR_READ;
  const std::int64_t inside = (offset - kLogHeader) % kFrame;
  if (inside == 0 && count == kFrame) return read_frame(file, out, offset);
  if (inside == kFrameHeader && count <= kPage) {
    return read_log_page(file, out, count, offset - kFrameHeader);
  }
  if (inside + count <= kFrameHeader) return read_frame_header(file, out, count, offset);
  return SQLITE_IOERR_READ;
}

int write_frame_header(sqlite3_file* file, const unsigned char* from, std::int64_t at) {
  SealedFile& self = sealed(file);
  std::memcpy(self.header.data(), from, kFrameHeader);
  self.header_at = at;
  std::array<unsigned char, kFrameHeader> hidden = self.header;
  self.shared->cipher->hide_header(static_cast<std::uint64_t>(at), hidden);
  return write_below(file, hidden.data(), kFrameHeader, at);
}

// The page's place needs its header: the one just written or, when a page is written again inside
// one transaction, the one in the file.
int write_log_page(sqlite3_file* file, const unsigned char* from, std::int64_t at) {
  SealedFile& self = sealed(file);
  std::array<unsigned char, kFrameHeader> header = self.header;
  if (self.header_at != at) {
    const int code = read_below(file, header.data(), kFrameHeader, at);
    if (code != SQLITE_OK) return code;
    self.shared->cipher->show_header(static_cast<std::uint64_t>(at), header);
  }
  // SQLite's checksum in the header is over these bytes too, and they come back as zeros.
  const unsigned char* reserved = from + kPage - PageCipher::kOverhead;
  if (std::any_of(reserved, from + kPage, [](unsigned char byte) { return byte != 0; })) {
    return SQLITE_IOERR_WRITE;
  }
  Page raw;
  self.shared->cipher->seal_page(log_place(at, header.data(), *self.shared), std::span(from, kPage),
                                 raw);
  return write_below(file, raw.data(), kPage, at + kFrameHeader);
}

int write_log(sqlite3_file* file, const unsigned char* from, std::int64_t count,
              std::int64_t offset) {
  if (offset == 0 && count == kLogHeader) {
    sealed(file).shared->log_run.store(salts_at(from + 16));
    return write_below(file, from, count, offset);
  }
  if (offset < kLogHeader) return SQLITE_IOERR_WRITE;
  const std::int64_t inside = (offset - kLogHeader) % kFrame;
  if (inside == 0 && count == kFrameHeader) return write_frame_header(file, from, offset);
  if (inside == kFrameHeader && count == kPage) {
    return write_log_page(file, from, offset - kFrameHeader);
  }
  return SQLITE_IOERR_WRITE;
}

// ---- SQLite's table of functions ----

int x_read(sqlite3_file* file, void* out, int count, sqlite3_int64 offset) {
  auto* bytes = static_cast<unsigned char*>(out);
  switch (sealed(file).kind) {
    case Kind::kDatabase:
      return read_database(file, bytes, count, offset);
    case Kind::kLog:
      return read_log(file, bytes, count, offset);
    case Kind::kJournal:
      break;
  }
  return read_below(file, out, count, offset);
}

int x_write(sqlite3_file* file, const void* from, int count, sqlite3_int64 offset) {
  const auto* bytes = static_cast<const unsigned char*>(from);
  switch (sealed(file).kind) {
    case Kind::kDatabase:
      return write_database(file, bytes, count, offset);
    case Kind::kLog:
      return write_log(file, bytes, count, offset);
    case Kind::kJournal:
      break;
  }
  // A new database is made under a journal that has only a header. A page would be in clear.
  if (count >= kPage) return SQLITE_IOERR_WRITE;
  return write_below(file, from, count, offset);
}

int x_close(sqlite3_file* file) { return below(file)->pMethods->xClose(below(file)); }
int x_truncate(sqlite3_file* file, sqlite3_int64 size) {
  return below(file)->pMethods->xTruncate(below(file), size);
}
int x_sync(sqlite3_file* file, int flags) {
  return below(file)->pMethods->xSync(below(file), flags);
}
int x_file_size(sqlite3_file* file, sqlite3_int64* size) {
  return below(file)->pMethods->xFileSize(below(file), size);
}
int x_lock(sqlite3_file* file, int level) {
  return below(file)->pMethods->xLock(below(file), level);
}
int x_unlock(sqlite3_file* file, int level) {
  return below(file)->pMethods->xUnlock(below(file), level);
}
int x_check_reserved_lock(sqlite3_file* file, int* held) {
  return below(file)->pMethods->xCheckReservedLock(below(file), held);
}
int x_file_control(sqlite3_file* file, int what, void* argument) {
  // Nothing of ours may be mapped: it would be seen as it lies on disk.
  if (what == SQLITE_FCNTL_MMAP_SIZE) return SQLITE_OK;
  return below(file)->pMethods->xFileControl(below(file), what, argument);
}
int x_sector_size(sqlite3_file* file) { return below(file)->pMethods->xSectorSize(below(file)); }
int x_device_characteristics(sqlite3_file* file) {
  // Without the promise, SQLite pads and splits what it writes to the log. A batch-atomic write
  // would go around the log.
  const int below_says = below(file)->pMethods->xDeviceCharacteristics(below(file));
  return (below_says | SQLITE_IOCAP_POWERSAFE_OVERWRITE) & ~SQLITE_IOCAP_BATCH_ATOMIC;
}
int x_shm_map(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
  return below(file)->pMethods->xShmMap(below(file), page, size, extend, out);
}
int x_shm_lock(sqlite3_file* file, int offset, int count, int flags) {
  return below(file)->pMethods->xShmLock(below(file), offset, count, flags);
}
void x_shm_barrier(sqlite3_file* file) { below(file)->pMethods->xShmBarrier(below(file)); }
int x_shm_unmap(sqlite3_file* file, int remove) {
  return below(file)->pMethods->xShmUnmap(below(file), remove);
}

// Version 2: with shared memory, without mapping.
const sqlite3_io_methods kMethods = {2,
                                     x_close,
                                     x_read,
                                     x_write,
                                     x_truncate,
                                     x_sync,
                                     x_file_size,
                                     x_lock,
                                     x_unlock,
                                     x_check_reserved_lock,
                                     x_file_control,
                                     x_sector_size,
                                     x_device_characteristics,
                                     x_shm_map,
                                     x_shm_lock,
                                     x_shm_barrier,
                                     x_shm_unmap,
                                     nullptr,
                                     nullptr};

Shared& shared_of(sqlite3_vfs* vfs) { return *static_cast<Shared*>(vfs->pAppData); }
sqlite3_vfs* below(sqlite3_vfs* vfs) { return shared_of(vfs).below; }

int x_open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  auto* self = new (file) SealedFile{};
  self->base.pMethods = nullptr;  // Until it is open: then there is nothing to close.
  self->shared = &shared_of(vfs);
  self->header_at = -1;
  if ((flags & SQLITE_OPEN_MAIN_DB) != 0) {
    self->kind = Kind::kDatabase;
  } else if ((flags & SQLITE_OPEN_WAL) != 0) {
    self->kind = Kind::kLog;
  } else if ((flags & SQLITE_OPEN_MAIN_JOURNAL) != 0) {
    self->kind = Kind::kJournal;
  } else {
    return SQLITE_CANTOPEN;  // Temporary files hold rows in clear.
  }
  sqlite3_vfs* inner = below(vfs);
  const int code = inner->xOpen(inner, name, self->below(), flags, out_flags);
  if (code == SQLITE_OK) self->base.pMethods = &kMethods;
  return code;
}

int x_delete(sqlite3_vfs* vfs, const char* name, int sync) {
  return below(vfs)->xDelete(below(vfs), name, sync);
}
int x_access(sqlite3_vfs* vfs, const char* name, int flags, int* out) {
  return below(vfs)->xAccess(below(vfs), name, flags, out);
}
int x_full_pathname(sqlite3_vfs* vfs, const char* name, int room, char* out) {
  return below(vfs)->xFullPathname(below(vfs), name, room, out);
}
int x_randomness(sqlite3_vfs* vfs, int count, char* out) {
  return below(vfs)->xRandomness(below(vfs), count, out);
}
int x_sleep(sqlite3_vfs* vfs, int micros) { return below(vfs)->xSleep(below(vfs), micros); }
int x_current_time(sqlite3_vfs* vfs, double* out) {
  return below(vfs)->xCurrentTime(below(vfs), out);
}
int x_get_last_error(sqlite3_vfs* vfs, int room, char* out) {
  return below(vfs)->xGetLastError(below(vfs), room, out);
}
int x_current_time_int64(sqlite3_vfs* vfs, sqlite3_int64* out) {
  return below(vfs)->xCurrentTimeInt64(below(vfs), out);
}

class RegisteredVfs final : public SealedVfs {
 public:
  RegisteredVfs(std::shared_ptr<const PageCipher> cipher, sqlite3_vfs* inner, std::string name)
      : name_(std::move(name)) {
    shared_.cipher = std::move(cipher);
    shared_.below = inner;
    vfs_.iVersion = 2;
    vfs_.szOsFile = static_cast<int>(sizeof(SealedFile)) + inner->szOsFile;
    vfs_.mxPathname = inner->mxPathname;
    vfs_.zName = name_.c_str();
    vfs_.pAppData = &shared_;
    vfs_.xOpen = x_open;
    vfs_.xDelete = x_delete;
    vfs_.xAccess = x_access;
    vfs_.xFullPathname = x_full_pathname;
    vfs_.xRandomness = x_randomness;
    vfs_.xSleep = x_sleep;
    vfs_.xCurrentTime = x_current_time;
    vfs_.xGetLastError = x_get_last_error;
    vfs_.xCurrentTimeInt64 = x_current_time_int64;
  }
  ~RegisteredVfs() override { sqlite3_vfs_unregister(&vfs_); }
  RegisteredVfs(const RegisteredVfs&) = delete;
  RegisteredVfs& operator=(const RegisteredVfs&) = delete;

  int enroll() { return sqlite3_vfs_register(&vfs_, 0); }
  const std::string& name() const override { return name_; }

 private:
  const std::string name_;
  Shared shared_;
  sqlite3_vfs vfs_{};
};

}  // namespace

Result<std::unique_ptr<SealedVfs>> SealedVfs::create(std::shared_ptr<const PageCipher> cipher) {
  static std::atomic<std::uint64_t> next{1};
  if (sqlite3_initialize() != SQLITE_OK) return Error(Code::kInternal, "SQLite does not start");
  sqlite3_vfs* inner = sqlite3_vfs_find(nullptr);
  if (inner == nullptr) return Error(Code::kInternal, "SQLite has no file system layer");
  auto vfs = std::make_unique<RegisteredVfs>(std::move(cipher), inner,
                                             "falaj-sealed-" + std::to_string(next.fetch_add(1)));
  if (vfs->enroll() != SQLITE_OK) return Error(Code::kInternal, "SQLite takes no further layer");
  return std::unique_ptr<SealedVfs>(std::move(vfs));
}

}  // namespace falaj::storage
