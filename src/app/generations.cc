#include "app/generations.h"

#include <charconv>
#include <filesystem>

#include "crypto/aead.h"
#include "storage/small_file.h"

namespace falaj::app {
namespace {

constexpr const char* kKeys = "keys.db";
constexpr const char* kOnline = "online";
constexpr const char* kRedis = "redis";
constexpr const char* kBlobs = "blobs";
constexpr const char* kPending = "pending";
constexpr const char* kDone = "done";
constexpr const char* kRow = "number";

storage::Owner mark_owner() { return {ProjectName(), Zone(), "falaj/generation"}; }

std::string mark_file(const std::string& blobs) { return blobs + "/generation"; }

// Nothing where the table is not there: of a version that did not number.
Result<std::optional<std::int64_t>> number_in(storage::SqlStore& sql, const std::string& name) {
  const auto tables = FALAJ_TRY(storage::query(
      sql, "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'store_generations'"));
  if (tables.empty()) return std::optional<std::int64_t>();
  const auto rows =
      FALAJ_TRY(storage::query(sql, "SELECT number FROM store_generations WHERE name = ?", {name}));
  if (rows.empty()) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>(rows.front().integer(0));
}

Status put_number(storage::SqlStore& sql, const std::string& name, std::int64_t number) {
  return sql.write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("INSERT OR REPLACE INTO store_generations (name, number) VALUES (?, ?)",
                         {name, number}));
    return {};
  });
}

Result<Generation> generation_in(storage::SqlStore& metadata) {
  Generation now;
  now.pending = FALAJ_TRY(number_in(metadata, kPending)).value_or(0);
  now.done = FALAJ_TRY(number_in(metadata, kDone)).value_or(0);
  return now;
}

bool holds_nothing(const std::string& blobs) {
  std::error_code error;
  return std::filesystem::is_empty(blobs + "/blobs", error) || error;
}

std::string remedy(const std::string& store, bool old) {
  const std::string whole = "Bring back the newest data folder as a whole";
  if (old && store == kRedis) {
    return "Bring back its newest rows, or delete the keys under storage.redis.prefix: the rows "
           "are "
           "made again from the segments";
  }
  if (!old || store != kOnline) return whole;
  return whole + "; online/ may be removed, it is made again from the segments";
}

std::string text_of(const std::optional<std::int64_t>& number) {
  return number ? std::to_string(*number) : "none";
}

}  // namespace

Status check_generation(const Generation& expected, const std::vector<StoreMark>& marks) {
  for (const StoreMark& mark : marks) {
    if (!mark.number && (expected.done == 0 || mark.empty || mark.first)) continue;
    const bool old = !mark.number || *mark.number < expected.done;
    if (!old && (*mark.number <= expected.pending || mark.store == kRedis)) continue;
    const std::string whose = old ? mark.store : "metadata.db";
    return Error{ErrorId::kRolledBack, whose + " is an old copy: metadata.db expects generation " +
                                           std::to_string(expected.done) + " of " + mark.store +
                                           ", which has " + text_of(mark.number) + ". " +
                                           remedy(mark.store, old)};
  }
  return {};
}

Result<std::unique_ptr<Generations>> Generations::open(const NumberedStores& stores) {
  // First the keys: an old copy of them may lack the one below.
  FALAJ_TRY(check_keys_generation(stores.metadata, stores.keys));
  crypto::SecretBytes key = FALAJ_TRY(stores.tree.store_key("generations"));
  std::unique_ptr<Generations> made(new Generations(stores, std::move(key)));
  const Generation now = FALAJ_TRY(generation_in(stores.metadata));
  FALAJ_TRY(check_generation(now, FALAJ_TRY(made->marks())));
  MutexLock lock(made->mutex_);
  made->now_ = now;
  return made;
}

Result<std::optional<std::int64_t>> Generations::opened(
    const std::string& store, const std::optional<std::string>& sealed) const {
  if (!sealed) return std::optional<std::int64_t>();
  const std::string text = FALAJ_TRY(crypto::open(key_, *sealed, "falaj/v1/generation/" + store));
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ptr != text.data() + text.size()) return crypto::decrypt_failed();
  return std::optional<std::int64_t>(number);
}

std::string Generations::sealed(const std::string& store, std::int64_t number) const {
  return crypto::seal(key_, std::to_string(number), "falaj/v1/generation/" + store);
}

const char* Generations::online_name() const {
  return stores_.rows == NumberedStores::Rows::kInRedis ? kRedis : kOnline;
}

Result<StoreMark> Generations::online_mark() const {
  StoreMark mark;
  mark.store = online_name();
  const auto row = FALAJ_TRY(stores_.online.get(mark_owner(), kRow));
  mark.number = FALAJ_TRY(opened(mark.store, row));
  if (mark.number) return mark;
  mark.empty = FALAJ_TRY(stores_.online_is_empty());
  mark.first = mark.store == kRedis && !FALAJ_TRY(number_in(stores_.metadata, kRedis));
  return mark;
}

Result<std::vector<StoreMark>> Generations::marks() const {
  std::vector<StoreMark> marks;
  marks.push_back({kKeys, FALAJ_TRY(number_in(stores_.keys, kKeys)), false});
  marks.push_back(FALAJ_TRY(online_mark()));
  const auto file = storage::read_small_file(mark_file(stores_.blobs));
  if (!file.ok() && file.error().code != Code::kNotFound) return file.error();
  const auto number = FALAJ_TRY(
      opened(kBlobs, file.ok() ? std::optional<std::string>(file->content) : std::nullopt));
  marks.push_back({kBlobs, number, holds_nothing(stores_.blobs)});
  return marks;
}

Status Generations::advance() {
  MutexLock lock(mutex_);
  const std::int64_t next = now_.pending + 1;
  FALAJ_TRY(put_number(stores_.metadata, kPending, next));
  now_.pending = next;
  FALAJ_TRY(put_number(stores_.keys, kKeys, next));
  FALAJ_TRY(stores_.online.write(mark_owner(), {{kRow, sealed(online_name(), next)}}));
  FALAJ_TRY(storage::write_small_file(mark_file(stores_.blobs), sealed(kBlobs, next)));
  // Behind its mark: killed in between, Redis has one that counts.
  if (stores_.rows == NumberedStores::Rows::kInRedis) {
    FALAJ_TRY(put_number(stores_.metadata, kRedis, next));
  }
  FALAJ_TRY(put_number(stores_.metadata, kDone, next));
  now_.done = next;
  return {};
}

Status check_keys_generation(storage::SqlStore& metadata, storage::SqlStore& keys) {
  const Generation now = FALAJ_TRY(generation_in(metadata));
  return check_generation(now, {{kKeys, FALAJ_TRY(number_in(keys, kKeys)), false}});
}

}  // namespace falaj::app
