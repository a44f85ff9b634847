// net/tls/record_stream.h — TLS 1.3 records over a non-blocking socket, after the handshake.
//
// Holds no buffer while nothing is under way: bytes as received and as sent lie in the thread's own
// (they are sealed), and what came in part waits here. One system call takes whatever has come, one
// sends a record: as much of the output as fits.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/tls/io.h"
#include "net/tls/records.h"

namespace falaj::net {

// Does not own the socket. One thread at a time, which may be another each time.
class RecordStream {
 public:
  struct Secrets {
    TrafficSecret read;   // The peer's.
    TrafficSecret write;  // This side's.
  };
  RecordStream(int socket, const Secrets& secrets);
  ~RecordStream();
  RecordStream(const RecordStream&) = delete;
  RecordStream& operator=(const RecordStream&) = delete;

  // kDone with at least one byte; what the peer sent before its end comes before the end.
  IoResult read(std::span<char> into);
  // Writes from the beginning of `first`, then of `second`; may write less than asked. After
  // kWantWrite the next call begins with the same bytes: they are sealed already, and counted once
  // the socket has all of them.
  IoResult write(std::string_view first, std::string_view second);
  // Says that nothing more will be written, unless something still waits for the socket.
  void finish();
  // True when the last read() left nothing in the socket and nothing here.
  bool has_drained() const;
  // Gives memory back.
  void rest();
  // Why the last call gave kFailed; after kClosed the peer's complaint, "" when it had none.
  const std::string& error_text() const { return error_text_; }

 private:
  std::optional<IoResult> fetch(std::span<const unsigned char>& sealed);
  std::size_t open_all(std::span<const unsigned char>& sealed, std::span<char> into);
  bool took(const RecordReader::Opened& opened);
  std::size_t take_kept(std::span<char> into);
  void keep_record(std::span<const unsigned char>& sealed);
  void break_off(Alert alert, std::string text);
  void end(IoOutcome outcome, std::string text);
  IoResult send_sealed(std::span<const unsigned char> sealed);
  void send_alert(Alert alert);

  const int socket_;
  RecordReader reader_;
  RecordWriter writer_;
  std::string held_;   // Received and not opened yet.
  std::string plain_;  // Opened and not taken yet: of a record larger than what was asked for.
  std::size_t plain_at_ = 0;
  std::string unsent_;  // Sealed, and the socket was full.
  std::size_t unsent_at_ = 0;
  std::size_t unsent_plain_ = 0;  // What it stands for.
  int silent_records_ = 0;        // In a row, without a byte of data.
  bool drained_ = false;
  bool owes_key_update_ = false;
  bool finished_ = false;
  std::optional<IoOutcome> ended_;
  std::string error_text_;
};

}  // namespace falaj::net
