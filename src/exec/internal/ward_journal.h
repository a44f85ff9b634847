// exec/internal/ward_journal.h — what a warden must still know after it was killed: which wards it
// meant to start, and how each ended. One file, written behind its end: a length, a checksum and a
// JSON object each; a torn record at the end is none.
//
// Its space is taken from the disk beforehand: once an intent is accepted, the ward's end can be
// written however full the disk has become since (a ward may be what fills it).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "base/value.h"
#include "exec/wards.h"

namespace falaj::exec::internal {

// A ward as the journal knows it.
struct KeptWard {
  Ward ward;  // Without usage; a pid only while there is no end.
  std::string log_path;
  std::int64_t birth = 0;  // See birth_of().
};

// Not thread-safe. A failed write or sync is final: the caller ends the process, for the journal
// may not say what it has told.
class WardJournal {
 public:
  // Opens or makes `path`. kUnavailable with errno's text.
  static Result<WardJournal> open(const std::string& path);
  // What the file said when it was opened.
  std::map<std::string, KeptWard> take_kept() { return std::move(kept_); }

  // kResourceExhausted when the disk has no room; nothing was written then.
  Status intend(const Ward& ward, const std::string& log_path);
  // Needs no sync: a process only outlives the warden while the machine runs.
  Status begun(const Ward& ward, std::int64_t birth);
  Status ended(const Ward& ward);
  Status forget(const std::string& id);
  // Everything so far is on the disk. One fdatasync; none when there is nothing new.
  Status sync();

  // Whether most records are of forgotten wards, `known` being those that are not.
  bool worth_rewriting(std::size_t known) const;
  // Puts a new file with only these in the place of the old one; ok also when the disk has no room
  // for it and the old one stays.
  Status rewrite(const std::vector<KeptWard>& known);

 private:
  Status replay();
  void apply(const Value& record);
  Status make_room(std::int64_t bytes);
  Status append(const Value& record);

  std::string path_;
  Descriptor file_;
  std::map<std::string, KeptWard> kept_;
  std::int64_t used_ = 0;
  std::int64_t capacity_ = 0;
  std::int64_t unended_ = 0;  // Intents whose ends are still to come.
  std::size_t records_ = 0;
  bool dirty_ = false;
};

}  // namespace falaj::exec::internal
