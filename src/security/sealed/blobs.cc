#include "security/sealed/blobs.h"

#include <array>
#include <optional>
#include <utility>

#include "base/two_hashes.h"
#include "crypto/stream.h"
#include "storage/paired_writer.h"

namespace falaj::security::sealed {
namespace {

using crypto::SecretBytes;
using storage::BlobGrant;
using storage::BlobWriter;
using storage::Owner;
using storage::StoredBlob;

constexpr std::string_view kMagic = "FJB1";
constexpr std::size_t kHeaderBytes = 4 + keys::kDataKeyHeaderBytes;
constexpr std::size_t kPieceBytes = 4 * crypto::kSegmentPlain;

keys::KeyScope scope_of(const Owner& owner) {
  return {owner.project.str(), owner.zone, owner.object, "", "blob"};
}

std::string aad_of(const Owner& owner) {
  return crypto::Tlv("falaj/v1/blob")
      .add(owner.project.str())
      .add(owner.zone.name())
      .add(owner.object)
      .str();
}

// The content behind `skip` bytes of a sealed file.
class SealedReader final : public ByteReader {
 public:
  static Result<std::unique_ptr<ByteReader>> open(std::shared_ptr<const ByteReader> file,
                                                  std::size_t skip, const SecretBytes& key,
                                                  std::string_view aad) {
    const auto begin = static_cast<std::int64_t>(skip);
    if (file->size() < begin) return crypto::decrypt_failed();
    const auto read = [file, begin](std::uint64_t offset, std::span<unsigned char> out) -> Status {
      const std::size_t got =
          FALAJ_TRY(file->read_at(begin + static_cast<std::int64_t>(offset),
                                  std::span(reinterpret_cast<char*>(out.data()), out.size())));
      return got == out.size() ? Status() : Status(crypto::decrypt_failed());
    };
    auto opener = FALAJ_TRY(crypto::StreamOpener::open(
        key, aad, static_cast<std::uint64_t>(file->size() - begin), read));
    return std::unique_ptr<ByteReader>(new SealedReader(std::move(opener)));
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(opener_->size()); }

  Result<std::size_t> read_at(std::int64_t offset, std::span<char> out) const override {
    if (offset < 0) return Error(Code::kInvalidArgument, "an offset is never negative");
    if (offset >= size() || out.empty()) return std::size_t{0};
    const auto count = static_cast<std::size_t>(
        std::min<std::int64_t>(size() - offset, static_cast<std::int64_t>(out.size())));
    FALAJ_TRY(opener_->read_at(static_cast<std::uint64_t>(offset),
                               std::span(reinterpret_cast<unsigned char*>(out.data()), count)));
    return count;
  }

 private:
  explicit SealedReader(std::unique_ptr<crypto::StreamOpener> opener)
      : opener_(std::move(opener)) {}
  const std::unique_ptr<crypto::StreamOpener> opener_;
};

// What every sealed file begins with.
Result<std::string> header_of(const ByteReader& file) {
  std::string header(kHeaderBytes, '\0');
  const std::size_t got = FALAJ_TRY(file.read_at(0, header));
  if (got != kHeaderBytes || !header.starts_with(kMagic)) return crypto::decrypt_failed();
  return header.substr(kMagic.size());
}

class SealedWriter final : public BlobWriter {
 public:
  SealedWriter(keys::KeyTree& keys, Owner owner, keys::DataKey key,
               std::unique_ptr<BlobWriter> inner)
      : keys_(keys),
        owner_(std::move(owner)),
        wrapped_(key.wrapped),
        inner_(std::move(inner)),
        paired_(dynamic_cast<storage::PairedBlobWriter*>(inner_.get())),
        sealer_(key.key, aad_of(owner_)) {}
  ~SealedWriter() override {
    // A key without a file is of no use, but does no harm either.
    if (!committed_) (void)keys_.remove_data_key(scope_of(owner_), wrapped_);
  }

  Status begin() { return inner_->append(std::string(kMagic) + wrapped_); }

  // In pieces that stay in the processor's cache from the hashes to the disk.
  Status append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, kPieceBytes);
      bytes_ += static_cast<std::int64_t>(piece.size());
      ready_.clear();
      FALAJ_TRY(sealer_.append(piece, ready_));
      FALAJ_TRY(hash_and_pass(piece));
      bytes.remove_prefix(piece.size());
    }
    return {};
  }

  Result<StoredBlob> commit() override {
    if (committed_) return Error(Code::kInternal, "a blob writer commits once");
    ready_.clear();
    sealer_.finish(ready_);
    FALAJ_TRY(inner_->append(ready_));
    const StoredBlob stored = FALAJ_TRY(inner_->commit());
    committed_ = true;
    return StoredBlob{stored.id, hasher_.finish().hex(), bytes_};
  }

 private:
  // The content's hash, and what is sealed by now to the store, which hashes that.
  Status hash_and_pass(std::string_view piece) {
    if (paired_ != nullptr && !ready_.empty()) {
      return paired_->append_beside(ready_, {hasher_, piece});
    }
    hasher_.update(piece);
    return ready_.empty() ? Status() : inner_->append(ready_);
  }

  keys::KeyTree& keys_;
  const Owner owner_;
  const std::string wrapped_;
  const std::unique_ptr<BlobWriter> inner_;
  storage::PairedBlobWriter* const paired_;  // inner_, if it is one.
  crypto::StreamSealer sealer_;
  PairedHasher hasher_;
  std::string ready_;
  std::int64_t bytes_ = 0;
  bool committed_ = false;
};

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

std::optional<std::string> from_hex(std::string_view text) {
  const auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() % 2 != 0) return std::nullopt;
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = value(text[i]);
    const int low = value(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high << 4 | low));
  }
  return out;
}

class SealedBlobStore final : public storage::BlobStore {
 public:
  SealedBlobStore(std::unique_ptr<storage::BlobStore> inner, keys::KeyTree& keys)
      : inner_(std::move(inner)), keys_(keys) {}

  Result<std::unique_ptr<BlobWriter>> create(const Owner& owner) override {
    keys::DataKey key = FALAJ_TRY(keys_.new_data_key(scope_of(owner)));
    auto inner = FALAJ_TRY(inner_->create(owner));
    auto writer = std::make_unique<SealedWriter>(keys_, owner, std::move(key), std::move(inner));
    FALAJ_TRY(writer->begin());
    return std::unique_ptr<BlobWriter>(std::move(writer));
  }

  Result<std::unique_ptr<ByteReader>> open(const Owner& owner, const BlobId& id) const override {
    std::shared_ptr<const ByteReader> file = FALAJ_TRY(inner_->open(owner, id));
    const SecretBytes key = FALAJ_TRY(key_of(owner, id, *file));
    auto reader = SealedReader::open(std::move(file), kHeaderBytes, key, aad_of(owner));
    if (!reader.ok()) return reader.error().within("blob " + id.str());
    return reader;
  }

  Result<BlobGrant> grant(const Owner& owner, const BlobId& id) const override {
    const std::unique_ptr<ByteReader> file = FALAJ_TRY(inner_->open(owner, id));
    const SecretBytes key = FALAJ_TRY(key_of(owner, id, *file));
    BlobGrant grant = FALAJ_TRY(inner_->grant(owner, id));
    grant.ticket = to_hex(key.view()) + ":" + to_hex(aad_of(owner));
    return grant;
  }

  // The file first: a key without a file is of no use, a file without a key is a loss.
  Status remove(const Owner& owner, const BlobId& id) override {
    std::string wrapped;
    {
      const auto file = inner_->open(owner, id);
      if (file.ok()) wrapped = header_of(**file).value_or("");
    }
    FALAJ_TRY(inner_->remove(owner, id));
    return wrapped.empty() ? Status() : keys_.remove_data_key(scope_of(owner), wrapped);
  }

  Result<std::vector<BlobId>> list(const Owner& owner) const override {
    return inner_->list(owner);
  }

 private:
  Result<SecretBytes> key_of(const Owner& owner, const BlobId& id, const ByteReader& file) const {
    const std::string header = FALAJ_TRY(header_of(file));
    Result<SecretBytes> key = keys_.open_data_key(scope_of(owner), header);
    if (!key.ok()) return key.error().within("blob " + id.str());
    return key;
  }

  const std::unique_ptr<storage::BlobStore> inner_;
  keys::KeyTree& keys_;
};

constexpr std::string_view kSpoolLabel = "falaj/v1/spool";

class SealedSpool final : public Spool {
 public:
  explicit SealedSpool(std::unique_ptr<Spool> inner)
      : inner_(std::move(inner)), key_(crypto::system_random().key()), sealer_(key_, kSpoolLabel) {}

  Status append(std::string_view bytes) override {
    ready_.clear();
    FALAJ_TRY(sealer_.append(bytes, ready_));
    return ready_.empty() ? Status() : inner_->append(ready_);
  }

  Result<std::shared_ptr<const ByteReader>> finish() override {
    ready_.clear();
    sealer_.finish(ready_);
    FALAJ_TRY(inner_->append(ready_));
    std::shared_ptr<const ByteReader> file = FALAJ_TRY(inner_->finish());
    auto reader = FALAJ_TRY(SealedReader::open(std::move(file), 0, key_, kSpoolLabel));
    return std::shared_ptr<const ByteReader>(std::move(reader));
  }

 private:
  const std::unique_ptr<Spool> inner_;
  const SecretBytes key_;
  crypto::StreamSealer sealer_;
  std::string ready_;
};

}  // namespace

std::unique_ptr<storage::BlobStore> seal_blobs(std::unique_ptr<storage::BlobStore> inner,
                                               keys::KeyTree& keys) {
  return std::make_unique<SealedBlobStore>(std::move(inner), keys);
}

Result<std::unique_ptr<ByteReader>> open_granted(Descriptor file, const std::string& ticket) {
  std::unique_ptr<ByteReader> opened = FALAJ_TRY(open_descriptor(std::move(file)));
  if (ticket.empty()) return opened;
  const std::size_t colon = ticket.find(':');
  const auto key = from_hex(std::string_view(ticket).substr(0, colon));
  const auto aad = colon == std::string::npos ? std::nullopt : from_hex(ticket.substr(colon + 1));
  if (!key || !aad || key->size() != crypto::kKeyBytes) return crypto::decrypt_failed();
  return SealedReader::open(std::move(opened), kHeaderBytes, SecretBytes(*key), *aad);
}

Result<std::unique_ptr<Spool>> seal_spool(std::unique_ptr<Spool> inner) {
  return std::unique_ptr<Spool>(std::make_unique<SealedSpool>(std::move(inner)));
}

}  // namespace falaj::security::sealed
