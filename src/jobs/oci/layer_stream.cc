#include "jobs/oci/layer_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"
#include "base/hash.h"

namespace falaj::jobs::oci {
namespace {

Error refused(const std::string& what) { return Error(ErrorId::kImageRefused, what); }

class FileStream final : public LayerStream {
 public:
  FileStream(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  ~FileStream() override {
    if (gzip_) ::inflateEnd(&zlib_);
  }

  Status begin() {
    FALAJ_TRY(load());
    const auto byte = [this](std::size_t i) {
      return have_ > i ? static_cast<unsigned char>(in_[i]) : 0u;
    };
    if (byte(0) == 0x28 && byte(1) == 0xb5 && byte(2) == 0x2f && byte(3) == 0xfd) {
      return refused(path_ +
                     " is compressed by zstd: copy the image with gzip layers "
                     "(skopeo copy --dest-compress-format gzip)");
    }
    if (byte(0) != 0x1f || byte(1) != 0x8b) return {};
    gzip_ = ::inflateInit2(&zlib_, 15 + 16) == Z_OK;
    return gzip_ ? Status() : refused("zlib cannot begin");
  }

  Result<std::size_t> read(char* to, std::size_t count) override {
    const std::size_t got = gzip_ ? FALAJ_TRY(inflate_some(to, count)) : FALAJ_TRY(copy(to, count));
    content_.update(std::string_view(to, got));
    return got;
  }

  Status finish(const Blob& blob, const std::string& diff_id) override {
    std::array<char, 64 * 1024> rest;
    while (FALAJ_TRY(read(rest.data(), rest.size())) > 0) {
    }
    while (have_ > at_ || FALAJ_TRY(load_more())) at_ = have_;
    if (total_ != blob.size || raw_.finish().hex() != blob.digest) {
      return refused(path_ + " is not what its name says: copy the image again");
    }
    if (content_.finish().hex() != diff_id) {
      return refused(path_ + " unpacked is not what the image's configuration says");
    }
    return {};
  }

 private:
  Status load() {
    at_ = have_ = 0;
    while (true) {
      const ssize_t got = ::read(file_.get(), in_.data(), in_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return refused("cannot read " + path_ + ": " + std::strerror(errno));
      have_ = static_cast<std::size_t>(got);
      total_ += got;
      raw_.update(std::string_view(in_.data(), have_));
      return {};
    }
  }
  Result<bool> load_more() {
    FALAJ_TRY(load());
    return have_ > 0;
  }

  Result<std::size_t> copy(char* to, std::size_t count) {
    if (at_ == have_) FALAJ_TRY(load());
    const std::size_t part = std::min(count, have_ - at_);
    std::memcpy(to, in_.data() + at_, part);
    at_ += part;
    return part;
  }

  // Members may follow each other, as some compressors write them.
  Result<std::size_t> inflate_some(char* to, std::size_t count) {
    zlib_.next_out = reinterpret_cast<Bytef*>(to);
    zlib_.avail_out = static_cast<uInt>(std::min<std::size_t>(count, 1u << 30));
    const uInt room = zlib_.avail_out;
    while (zlib_.avail_out == room && !over_) {
      if (at_ == have_) FALAJ_TRY(load());
      if (have_ == 0) return refused(path_ + " ends in the middle");
      zlib_.next_in = reinterpret_cast<Bytef*>(in_.data() + at_);
      zlib_.avail_in = static_cast<uInt>(have_ - at_);
      const int said = ::inflate(&zlib_, Z_NO_FLUSH);
      at_ = have_ - zlib_.avail_in;
      if (said != Z_OK && said != Z_STREAM_END && said != Z_BUF_ERROR) {
        return refused(path_ + " is no sound gzip file");
      }
      if (said != Z_STREAM_END) continue;
      if (at_ == have_) FALAJ_TRY(load());
      over_ = have_ == 0 || static_cast<unsigned char>(in_[at_]) != 0x1f;
      if (!over_ && ::inflateReset(&zlib_) != Z_OK) return refused("zlib cannot begin again");
    }
    return static_cast<std::size_t>(room - zlib_.avail_out);
  }

  const std::string path_;
  const Descriptor file_;
  std::array<char, 256 * 1024> in_;
  std::size_t at_ = 0;
  std::size_t have_ = 0;
  std::int64_t total_ = 0;
  Sha256Hasher raw_;
  Sha256Hasher content_;
  z_stream zlib_{};
  bool gzip_ = false;
  bool over_ = false;
};

}  // namespace

Result<std::unique_ptr<LayerStream>> LayerStream::open(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about {};
  if (!file.valid() || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) {
    return refused("cannot read the layer " + path + ": " + std::strerror(errno));
  }
  auto stream = std::make_unique<FileStream>(path, std::move(file));
  FALAJ_TRY(stream->begin());
  return std::unique_ptr<LayerStream>(std::move(stream));
}

}  // namespace falaj::jobs::oci
