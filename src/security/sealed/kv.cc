#include "security/sealed/kv.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "crypto/aead.h"
#include "crypto/kdf.h"

namespace falaj::security::sealed {
namespace {

using storage::KvWrite;
using storage::Owner;

constexpr std::size_t kTokenBytes = 16;
constexpr std::size_t kLengthBytes = 4;
// Rows of one write from which a second thread is worth its start.
constexpr std::size_t kSharedRows = 2'000;
// Rows with keys of their own that a scan opens together.
constexpr std::size_t kRowsAtOnce = 1'000;

// In front of every sealed row: whose key opens it.
constexpr char kOwnersKey = 1;
constexpr char kRowsOwnKey = 2;

keys::KeyScope scope_of(const Owner& owner, std::string_view purpose) {
  return {owner.project.str(), owner.zone, owner.object, "", std::string(purpose)};
}

// What one call needs of an owner's keys.
struct OwnerKeys {
  keys::SharedKey values;
  std::unique_ptr<crypto::HmacSha256> tokens;
  std::string aad;  // Without the token.

  // What a row is filed under.
  std::string token_of(std::string_view key) const {
    const Sha256 hash = tokens->of(key);
    return {reinterpret_cast<const char*>(hash.bytes.data()), kTokenBytes};
  }
  void aad_for(char kind, std::string_view token, std::string& out) const {
    out.assign(aad).append(1, kind).append(token);
  }

  struct Opened {
    std::string plain;
    std::string_view key() const { return std::string_view(plain).substr(kLengthBytes, length); }
    std::string_view value() const { return std::string_view(plain).substr(kLengthBytes + length); }
    std::size_t length = 0;
  };
  // `own` is needed for a row that has a key of its own: see has_own_key().
  Result<Opened> open(std::string_view token, std::string_view sealed,
                      const keys::SharedKey& own) const {
    if (sealed.empty()) return crypto::decrypt_failed();
    Opened out;
    std::string bound_to;
    aad_for(sealed.front(), token, bound_to);
    out.plain =
        FALAJ_TRY(crypto::open(own == nullptr ? *values : *own, sealed.substr(1), bound_to));
    if (out.plain.size() < kLengthBytes) return crypto::decrypt_failed();
    for (std::size_t i = 0; i < kLengthBytes; ++i) {
      out.length = out.length << 8 | static_cast<unsigned char>(out.plain[i]);
    }
    if (out.length > out.plain.size() - kLengthBytes) return crypto::decrypt_failed();
    return out;
  }
};

// Seals the rows of one write, or of a thread's share of it.
class RowSealer {
 public:
  explicit RowSealer(const OwnerKeys& keys) : keys_(keys), owners_(*keys.values) {}
  ~RowSealer() { crypto::wipe(plain_); }
  RowSealer(const RowSealer&) = delete;
  RowSealer& operator=(const RowSealer&) = delete;

  // `own` is the row's key, or null for the owner's.
  std::string seal(std::string_view token, std::string_view key, std::string_view value,
                   const keys::SharedKey& own) {
    put_together(key, value);
    const char kind = own == nullptr ? kOwnersKey : kRowsOwnKey;
    keys_.aad_for(kind, token, aad_);
    std::string sealed;
    sealed.reserve(1 + crypto::kSealOverhead + plain_.size());
    sealed.push_back(kind);
    if (own == nullptr) {
      owners_.seal(plain_, aad_, sealed);
    } else {
      sealed += crypto::seal(*own, plain_, aad_);
    }
    return sealed;
  }

 private:
  void put_together(std::string_view key, std::string_view value) {
    const std::size_t size = kLengthBytes + key.size() + value.size();
    if (plain_.capacity() < size) {
      crypto::wipe(plain_);  // Growing would leave the row before in freed memory.
      plain_.reserve(size);
    }
    plain_.clear();
    for (int shift = 24; shift >= 0; shift -= 8) {
      plain_.push_back(static_cast<char>(key.size() >> shift));
    }
    plain_.append(key).append(value);
  }

  const OwnerKeys& keys_;
  crypto::ManySealer owners_;
  std::string plain_;
  std::string aad_;
};

bool has_own_key(std::string_view sealed) {
  return !sealed.empty() && sealed.front() == kRowsOwnKey;
}

Result<OwnerKeys> keys_of(keys::KeyTree& tree, const Owner& owner) {
  OwnerKeys out;
  out.values = FALAJ_TRY(tree.stable_key(scope_of(owner, "kv")));
  const keys::SharedKey tokens = FALAJ_TRY(tree.stable_key(scope_of(owner, "token")));
  out.tokens = std::make_unique<crypto::HmacSha256>(tokens->view());
  out.aad = crypto::Tlv("falaj/v1/kv")
                .add(owner.project.str())
                .add(owner.zone.name())
                .add(owner.object)
                .str();
  return out;
}

class SealedKvStore final : public storage::KvStore {
 public:
  SealedKvStore(std::unique_ptr<storage::KvStore> inner, keys::KeyTree& keys)
      : inner_(std::move(inner)), keys_(keys) {}

  Result<std::optional<std::string>> get(const Owner& owner, std::string_view key) const override {
    auto rows = FALAJ_TRY(get_many(owner, {std::string(key)}));
    return std::move(rows.front());
  }

  Result<std::vector<std::optional<std::string>>> get_many(
      const Owner& owner, const std::vector<std::string>& keys) const override {
    const OwnerKeys mine = FALAJ_TRY(keys_of(keys_, owner));
    std::vector<std::string> tokens;
    for (const std::string& key : keys) tokens.push_back(mine.token_of(key));
    const auto sealed = FALAJ_TRY(inner_->get_many(owner, tokens));
    std::vector<Row> rows;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (sealed[i]) rows.push_back({tokens[i], *sealed[i], i});
    }
    std::vector<std::optional<std::string>> out(keys.size());
    FALAJ_TRY(open_rows(mine, owner, rows, [&](const Row& row, const OwnerKeys::Opened& opened) {
      if (opened.key() != keys[row.place]) return Status(crypto::decrypt_failed());
      out[row.place] = std::string(opened.value());
      return Status();
    }));
    return out;
  }

  Status write(const Owner& owner, const std::vector<KvWrite>& batch) override {
    const OwnerKeys mine = FALAJ_TRY(keys_of(keys_, owner));
    const std::vector<Named> named = name(mine, batch);
    const std::vector<keys::SharedKey> own = FALAJ_TRY(own_keys(owner, batch, named));
    std::vector<KvWrite> sealed(batch.size());
    in_two(batch.size(), [&](std::size_t begin, std::size_t end) {
      RowSealer sealer(mine);
      for (std::size_t i = begin; i < end; ++i) {
        const KvWrite& row = batch[named[i].place];
        sealed[i].key = named[i].token;
        if (!row.value) continue;
        sealed[i].value =
            sealer.seal(named[i].token, row.key, *row.value, own.empty() ? nullptr : own[i]);
      }
    });
    return inner_->write(owner, sealed);
  }

  Status clear(const Owner& owner) override { return inner_->clear(owner); }

  Status scan(const Owner& owner,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    const OwnerKeys mine = FALAJ_TRY(keys_of(keys_, owner));
    Status status;
    bool more = true;
    std::vector<Row> waiting;  // Rows with keys of their own: opened many at a time.
    const auto open_waiting = [&] {
      status = open_rows(mine, owner, waiting, [&](const Row&, const OwnerKeys::Opened& opened) {
        more = more && visit(opened.key(), opened.value());
        return Status();
      });
      waiting.clear();
      return status.ok() && more;
    };
    FALAJ_TRY(inner_->scan(owner, [&](std::string_view token, std::string_view sealed) {
      if (has_own_key(sealed)) {
        waiting.push_back({std::string(token), std::string(sealed), 0});
        return waiting.size() < kRowsAtOnce || open_waiting();
      }
      const Result<OwnerKeys::Opened> row = mine.open(token, sealed, nullptr);
      if (row.ok()) return more = visit(row->key(), row->value());
      status = row.error();
      return false;
    }));
    if (status.ok() && more && !waiting.empty()) open_waiting();
    return status;
  }
  Status purge(const Owner& owner) override { return inner_->purge(owner); }
  Status copy_to(const std::string& folder) const override { return inner_->copy_to(folder); }

 private:
  struct Row {
    std::string token;
    std::string sealed;
    std::size_t place = 0;  // Of the caller's.
  };

  // A row of a batch under the name that the store below sees.
  struct Named {
    std::string token;
    std::size_t place = 0;  // In the batch.
    auto operator<=>(const Named&) const = default;
  };

  // In the order of the tokens, in which the store below takes many rows twice as fast; rows of one
  // key stay in theirs.
  static std::vector<Named> name(const OwnerKeys& mine, const std::vector<KvWrite>& batch) {
    std::vector<Named> out(batch.size());
    in_two(batch.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) out[i] = {mine.token_of(batch[i].key), i};
    });
    std::sort(out.begin(), out.end());
    return out;
  }

  // An ingest writes many thousand rows at once, while its other threads have nothing to do.
  template <class Part>
  static void in_two(std::size_t count, const Part& part) {
    const std::size_t apart = count >= kSharedRows ? count / 2 : 0;
    std::thread second;
    if (apart > 0) second = std::thread(part, 0, apart);
    part(apart, count);
    if (second.joinable()) second.join();
  }

  // In the order of `named`: the keys of rows that get one of their own; null for the others, empty
  // when there is none.
  Result<std::vector<keys::SharedKey>> own_keys(const Owner& owner,
                                                const std::vector<KvWrite>& batch,
                                                const std::vector<Named>& named) const {
    std::vector<std::string> subjects;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < named.size(); ++i) {
      const KvWrite& row = batch[named[i].place];
      if (!row.value || row.sealed_by != storage::RowKey::kItsOwn) continue;
      subjects.push_back(named[i].token);
      places.push_back(i);
    }
    if (subjects.empty()) return std::vector<keys::SharedKey>();
    const auto made = FALAJ_TRY(
        keys_.subject_keys(scope_of(owner, "kv"), subjects, keys::KeyTree::Missing::kMake));
    std::vector<keys::SharedKey> out(batch.size());
    for (std::size_t i = 0; i < places.size(); ++i) out[places[i]] = made[i];
    return out;
  }

  // Calls use(row, opened) for each; a row whose own key was destroyed is left out.
  template <class Use>
  Status open_rows(const OwnerKeys& mine, const Owner& owner, const std::vector<Row>& rows,
                   const Use& use) const {
    std::vector<std::string> subjects;
    for (const Row& row : rows) {
      if (has_own_key(row.sealed)) subjects.push_back(row.token);
    }
    std::vector<keys::SharedKey> own;
    if (!subjects.empty()) {
      own = FALAJ_TRY(
          keys_.subject_keys(scope_of(owner, "kv"), subjects, keys::KeyTree::Missing::kNull));
    }
    std::size_t next = 0;
    for (const Row& row : rows) {
      keys::SharedKey key;
      if (has_own_key(row.sealed)) {
        key = own[next++];
        if (key == nullptr) continue;
      }
      const OwnerKeys::Opened opened = FALAJ_TRY(mine.open(row.token, row.sealed, key));
      FALAJ_TRY(use(row, opened));
    }
    return {};
  }

  const std::unique_ptr<storage::KvStore> inner_;
  keys::KeyTree& keys_;
};

}  // namespace

std::unique_ptr<storage::KvStore> seal_kv(std::unique_ptr<storage::KvStore> inner,
                                          keys::KeyTree& keys) {
  return std::make_unique<SealedKvStore>(std::move(inner), keys);
}

Result<keys::KeyScope> row_scope(keys::KeyTree& keys, const storage::Owner& owner,
                                 std::string_view key) {
  const OwnerKeys mine = FALAJ_TRY(keys_of(keys, owner));
  keys::KeyScope scope = scope_of(owner, "kv");
  scope.subject = mine.token_of(key);
  return scope;
}

}  // namespace falaj::security::sealed
