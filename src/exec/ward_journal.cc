#include "exec/internal/ward_journal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/hash.h"
#include "base/json.h"
#include "exec/internal/ward_message.h"

namespace falaj::exec::internal {
namespace {

constexpr std::int64_t kStep = std::int64_t{1} << 20;
// No record is longer; a ward has two to come once it is accepted
// (JSON makes six bytes of an odd one: see shortened()).
constexpr std::size_t kRecordBytesMax = 8192;
constexpr std::int64_t kPromised = 2 * (kRecordBytesMax + 12);
constexpr std::size_t kHeader = 12;
constexpr std::uint64_t kSeed = 0x77617264656e;

Error failed(const std::string& what, const std::string& path) {
  return Error(Code::kUnavailable, what + " " + path + ": " + std::strerror(errno));
}

std::vector<std::string> all_shortened(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts) {
    if (out.size() < 12) out.push_back(shortened(text, 100));
  }
  return out;
}

void put(std::string& out, std::uint64_t number, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) out.push_back(static_cast<char>(number >> (8 * i) & 0xff));
}

std::uint64_t get(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

std::string record_of(const Value& value) {
  const std::string body = to_json(value);
  std::string out;
  put(out, body.size(), 4);
  put(out, hash64(body, kSeed), 8);
  return out + body;
}

Status write_at(int file, std::string_view bytes, std::int64_t at, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::pwrite(file, bytes.data(), bytes.size(), at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return failed("write the wards' journal", path);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
    at += wrote;
  }
  return {};
}

Result<std::string> read_all(int file, const std::string& path) {
  std::string out;
  std::array<char, 64 * 1024> part;
  while (true) {
    const ssize_t got = ::pread(file, part.data(), part.size(), static_cast<off_t>(out.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read the wards' journal", path);
    if (got == 0) return out;
    out.append(part.data(), static_cast<std::size_t>(got));
  }
}

Status sync_folder_of(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  const Descriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.valid() || ::fsync(file.get()) != 0) return failed("sync the folder", folder);
  return {};
}

Value intent_record(const Ward& ward, const std::string& log_path) {
  Value out;
  out["intent"] = ward.id;
  out["at"] = ward.started_at.nanos;
  // A path that is too long to be kept is only missed when an abandoned log is put together.
  if (log_path.size() <= 1024) out["log"] = log_path;
  return out;
}

Value begun_record(const Ward& ward, std::int64_t birth) {
  Value out;
  out["begun"] = ward.id;
  out["at"] = ward.started_at.nanos;
  out["pid"] = ward.pid;
  out["birth"] = birth;
  out["held"] = value_of(all_shortened(ward.protections));
  out["refused"] = value_of(all_shortened(ward.protections_refused));
  return out;
}

Value end_record(const Ward& ward) {
  WardEnd end = *ward.end;
  end.detail = shortened(end.detail, kDetailBytesMax);
  Value out;
  out["end"] = ward.id;
  out["how"] = value_of(end);
  return out;
}

std::vector<std::string> texts_of(const Value& value) {
  std::vector<std::string> out;
  if (!value.is_array()) return out;
  for (const Value& each : value.as_array()) {
    if (each.is_string()) out.push_back(each.as_string());
  }
  return out;
}

}  // namespace

Result<WardJournal> WardJournal::open(const std::string& path) {
  WardJournal journal;
  journal.path_ = path;
  journal.file_ =
      Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
  if (!journal.file_.valid()) return failed("open the wards' journal", path);
  FALAJ_TRY(journal.replay());
  FALAJ_TRY(journal.make_room(0));
  // What a dead warden wrote and did not sync is about to be relied upon.
  if (::fsync(journal.file_.get()) != 0) return failed("sync the wards' journal", path);
  FALAJ_TRY(sync_folder_of(path));
  return journal;
}

Status WardJournal::replay() {
  const std::string bytes = FALAJ_TRY(read_all(file_.get(), path_));
  capacity_ = static_cast<std::int64_t>(bytes.size());
  std::string_view rest = bytes;
  while (rest.size() > kHeader) {
    const std::uint64_t size = get(rest.substr(0, 4));
    if (size == 0 || size > kRecordBytesMax || size > rest.size() - kHeader) break;
    const std::string_view body = rest.substr(kHeader, size);
    if (get(rest.substr(4, 8)) != hash64(body, kSeed)) break;
    const auto record = parse_json(body, {kRecordBytesMax, 8});
    if (!record.ok()) break;
    apply(*record);
    ++records_;
    rest.remove_prefix(kHeader + size);
  }
  used_ = static_cast<std::int64_t>(bytes.size() - rest.size());
  for (const auto& [id, each] : kept_) unended_ += each.ward.end ? 0 : 1;
  // Nothing old may be taken for the continuation of what will be written.
  return write_at(file_.get(), std::string(rest.size(), '\0'), used_, path_);
}

void WardJournal::apply(const Value& record) {
  if (record.has("intent")) {
    KeptWard& kept = kept_[record.text("intent")];
    kept.ward.id = record.text("intent");
    kept.ward.started_at.nanos = record.integer("at");
    kept.log_path = record.text("log");
    return;
  }
  if (record.has("forget")) {
    kept_.erase(record.text("forget"));
    return;
  }
  const auto at = kept_.find(record.text(record.has("begun") ? "begun" : "end"));
  if (at == kept_.end()) return;
  Ward& ward = at->second.ward;
  if (record.has("begun")) {
    ward.started_at.nanos = record.integer("at");
    ward.pid = record.integer("pid");
    at->second.birth = record.integer("birth");
    ward.protections = texts_of(record["held"]);
    ward.protections_refused = texts_of(record["refused"]);
    return;
  }
  auto end = parse_end(record["how"]);
  // An end that cannot be read is still an end; how it came is lost.
  ward.end = end.ok() ? *end : WardEnd{WardEndReason::kLost, 0, end.error().message};
  ward.pid = 0;
}

Status WardJournal::make_room(std::int64_t bytes) {
  const std::int64_t needed = used_ + bytes + unended_ * kPromised + kPromised;
  if (needed <= capacity_) return {};
  const std::int64_t wanted = (needed / kStep + 1) * kStep;
  errno = ::posix_fallocate(file_.get(), 0, wanted);
  if (errno != 0) {
    return Error(Code::kResourceExhausted, "no room for the wards' journal " + path_ + ": " +
                                               std::strerror(errno) + "; make room on its disk");
  }
  capacity_ = wanted;
  dirty_ = true;
  return {};
}

Status WardJournal::append(const Value& record) {
  const std::string bytes = record_of(record);
  FALAJ_TRY(write_at(file_.get(), bytes, used_, path_));
  used_ += static_cast<std::int64_t>(bytes.size());
  ++records_;
  return {};
}

Status WardJournal::intend(const Ward& ward, const std::string& log_path) {
  FALAJ_TRY(make_room(kPromised));
  FALAJ_TRY(append(intent_record(ward, log_path)));
  ++unended_;
  dirty_ = true;
  return {};
}

Status WardJournal::begun(const Ward& ward, std::int64_t birth) {
  return append(begun_record(ward, birth));
}

Status WardJournal::ended(const Ward& ward) {
  FALAJ_TRY(append(end_record(ward)));
  --unended_;
  dirty_ = true;
  return {};
}

// One that does not reach the disk does no harm: the ward is told and forgotten again.
Status WardJournal::forget(const std::string& id) {
  if (!make_room(kPromised).ok()) return {};
  Value record;
  record["forget"] = id;
  return append(record);
}

Status WardJournal::sync() {
  if (!dirty_) return {};
  if (::fdatasync(file_.get()) != 0) return failed("sync the wards' journal", path_);
  dirty_ = false;
  return {};
}

bool WardJournal::worth_rewriting(std::size_t known) const {
  return records_ > 16'384 && records_ > 8 * known;
}

Status WardJournal::rewrite(const std::vector<KeptWard>& known) {
  const std::string path = path_ + ".new";
  ::unlink(path.c_str());
  auto fresh = open(path);
  if (!fresh.ok()) return {};
  const auto fill = [&]() -> Status {
    for (const KeptWard& each : known) {
      FALAJ_TRY(fresh->intend(each.ward, each.log_path));
      if (each.ward.pid > 0 || each.birth > 0) FALAJ_TRY(fresh->begun(each.ward, each.birth));
      if (each.ward.end) FALAJ_TRY(fresh->ended(each.ward));
    }
    FALAJ_TRY(fresh->sync());
    if (::rename(path.c_str(), path_.c_str()) != 0) return failed("rename", path);
    return {};
  };
  if (!fill().ok()) {
    ::unlink(path.c_str());
    return {};
  }
  fresh->path_ = path_;
  *this = std::move(*fresh);
  return sync_folder_of(path_);
}

}  // namespace falaj::exec::internal
