#include "net/tls/record_stream.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace falaj::net {
namespace {

constexpr std::size_t kReceivedMax = 64 << 10;
// A key update may go before the data.
constexpr std::size_t kSentMax = 5 + kRecordOverhead + kRecordContentMax + kRecordOverhead;
constexpr int kSilentRecordsMax = 32;  // As OpenSSL bears.

// Sealed bytes only: what they hold is no secret, and no connection needs a buffer of its own. On
// the heap, for the threads that speak TLS alone: what lies in the thread's own memory every thread
// has.
template <std::size_t kSize>
std::span<unsigned char> thread_buffer() {
  thread_local const auto buffer = std::make_unique<std::array<unsigned char, kSize>>();
  return *buffer;
}

std::span<const unsigned char> bytes_of(const std::string& text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

RecordStream::RecordStream(int socket, const Secrets& secrets)
    : socket_(socket), reader_(secrets.read), writer_(secrets.write) {}

RecordStream::~RecordStream() { OPENSSL_cleanse(plain_.data(), plain_.size()); }

void RecordStream::end(IoOutcome outcome, std::string text) {
  ended_ = outcome;
  error_text_ = std::move(text);
}

void RecordStream::break_off(Alert alert, std::string text) {
  send_alert(alert);
  end(IoOutcome::kFailed, std::move(text));
}

bool RecordStream::has_drained() const {
  return drained_ && !ended_ && plain_.empty() && !RecordReader::is_whole(bytes_of(held_));
}

void RecordStream::rest() {
  for (std::string* each : {&held_, &plain_, &unsent_}) {
    if (each->empty()) std::string().swap(*each);
  }
}

// ---- Reading ------------------------------------------------------------------------------------

IoResult RecordStream::read(std::span<char> into) {
  if (into.empty()) return {};
  if (!plain_.empty()) return {IoOutcome::kDone, take_kept(into)};
  while (!ended_) {
    std::span<const unsigned char> sealed = bytes_of(held_);
    if (!RecordReader::is_whole(sealed)) {
      if (const auto blocked = fetch(sealed)) return *blocked;
    }
    std::size_t bytes = open_all(sealed, into);
    if (bytes == 0 && !ended_ && RecordReader::is_whole(sealed)) {  // Larger than `into`.
      keep_record(sealed);
      bytes = take_kept(into);
    }
    // `sealed` may look into held_: moved within it, or copied from the thread's buffer.
    std::string rest(reinterpret_cast<const char*>(sealed.data()), sealed.size());
    held_.swap(rest);
    if (bytes > 0) return {IoOutcome::kDone, bytes};
    if (has_drained()) return {IoOutcome::kWantRead, 0};
  }
  return {*ended_, 0};
}

// Receives behind what waits. Nullopt: `sealed` is all that is here.
std::optional<IoResult> RecordStream::fetch(std::span<const unsigned char>& sealed) {
  const std::span<unsigned char> buffer = thread_buffer<kReceivedMax>();
  std::memcpy(buffer.data(), held_.data(), held_.size());
  const std::span<unsigned char> room = buffer.subspan(held_.size());
  ssize_t count = 0;
  do {
    count = ::recv(socket_, room.data(), room.size(), 0);
  } while (count < 0 && errno == EINTR);
  drained_ = count < static_cast<ssize_t>(room.size());
  if (count > 0) {
    sealed = buffer.first(held_.size() + static_cast<std::size_t>(count));
    return std::nullopt;
  }
  if (count < 0 && would_block()) return IoResult{IoOutcome::kWantRead, 0};
  end(IoOutcome::kFailed, count == 0 ? "the peer closed without ending TLS" : std::strerror(errno));
  return IoResult{*ended_, 0};
}

// Opens records as long as they are whole and fit; `sealed` is what is left.
std::size_t RecordStream::open_all(std::span<const unsigned char>& sealed, std::span<char> into) {
  auto* out = reinterpret_cast<unsigned char*>(into.data());
  std::size_t bytes = 0;
  while (!ended_) {
    const auto opened = reader_.open(sealed, {out + bytes, into.size() - bytes});
    if (!took(opened)) break;
    sealed = sealed.subspan(opened.used);
    if (opened.kind == RecordReader::Kind::kData) bytes += opened.bytes;
  }
  if (ended_) sealed = {};  // Nothing is looked at after the end.
  return bytes;
}

// False: nothing more can be opened now.
bool RecordStream::took(const RecordReader::Opened& opened) {
  using Kind = RecordReader::Kind;
  switch (opened.kind) {
    case Kind::kPartial:
    case Kind::kNoRoom:
      return false;
    case Kind::kBroken:
      break_off(opened.alert, opened.alert == Alert::kBadRecordMac
                                  ? "a TLS record is not what the peer sealed"
                                  : "a TLS record that has no place here");
      return false;
    case Kind::kAlert:
      end(IoOutcome::kClosed, opened.alert == Alert::kCloseNotify
                                  ? ""
                                  : SSL_alert_desc_string_long(static_cast<int>(opened.alert)));
      return true;
    case Kind::kKeyUpdateAsked:
      owes_key_update_ = true;
      break;
    case Kind::kKeyUpdate:
    case Kind::kData:
      break;
  }
  const bool silent = opened.kind != Kind::kData || opened.bytes == 0;
  silent_records_ = silent ? silent_records_ + 1 : 0;
  if (silent_records_ > kSilentRecordsMax) {
    break_off(Alert::kUnexpectedMessage, "too many TLS records without data");
  }
  return true;
}

void RecordStream::keep_record(std::span<const unsigned char>& sealed) {
  plain_.resize(RecordReader::needed(sealed));
  const auto opened =
      reader_.open(sealed, {reinterpret_cast<unsigned char*>(plain_.data()), plain_.size()});
  const bool is_data = opened.kind == RecordReader::Kind::kData;
  sealed = sealed.subspan(opened.used);
  plain_.resize(is_data ? opened.bytes : 0);
  plain_at_ = 0;
  took(opened);
  if (ended_) sealed = {};
}

std::size_t RecordStream::take_kept(std::span<char> into) {
  const std::size_t count = std::min(into.size(), plain_.size() - plain_at_);
  std::memcpy(into.data(), plain_.data() + plain_at_, count);
  plain_at_ += count;
  if (plain_at_ == plain_.size()) {
    OPENSSL_cleanse(plain_.data(), plain_.size());
    plain_.clear();
    plain_at_ = 0;
  }
  return count;
}

// ---- Writing ------------------------------------------------------------------------------------

IoResult RecordStream::write(std::string_view first, std::string_view second) {
  if (finished_) return {IoOutcome::kFailed, 0};
  if (!unsent_.empty()) return send_sealed(bytes_of(unsent_).subspan(unsent_at_));
  const std::string_view part = (first.empty() ? second : first).substr(0, kRecordContentMax);
  if (part.empty()) return {};
  const std::span<unsigned char> buffer = thread_buffer<kSentMax>();
  std::size_t size = 0;
  if (std::exchange(owes_key_update_, false) || writer_.is_worn()) {
    size = writer_.key_update(buffer.data());
  }
  size += writer_.data(part, buffer.data() + size);
  unsent_plain_ = part.size();
  return send_sealed(buffer.first(size));
}

// kDone once all of it was sent; what is left is kept.
IoResult RecordStream::send_sealed(std::span<const unsigned char> sealed) {
  const bool kept = !unsent_.empty();
  while (!sealed.empty()) {
    const ssize_t count = ::send(socket_, sealed.data(), sealed.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      sealed = sealed.subspan(static_cast<std::size_t>(count));
      if (kept) unsent_at_ += static_cast<std::size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    if (!would_block()) {
      end(IoOutcome::kFailed, std::strerror(errno));
      return {IoOutcome::kFailed, 0};
    }
    if (!kept) {
      unsent_.assign(reinterpret_cast<const char*>(sealed.data()), sealed.size());
      unsent_at_ = 0;
    }
    return {IoOutcome::kWantWrite, 0};
  }
  std::string().swap(unsent_);
  unsent_at_ = 0;
  return {IoOutcome::kDone, std::exchange(unsent_plain_, 0)};
}

// As far as the socket takes it: who breaks the rules may miss why it was cut.
void RecordStream::send_alert(Alert alert) {
  // Also when half a record is stuck and no alert can go: nothing may be written any more.
  if (std::exchange(finished_, true) || !unsent_.empty()) return;
  std::array<unsigned char, 2 + kRecordOverhead> record{};
  const std::size_t size = writer_.alert(alert, record.data());
  static_cast<void>(!::send(socket_, record.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT));
}

void RecordStream::finish() { send_alert(Alert::kCloseNotify); }

}  // namespace falaj::net
