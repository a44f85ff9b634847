// Whatever the bytes: no crash, and what is accepted prints back to the same bytes.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "crypto/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fc = falaj::crypto;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto note = fc::parse_note(text); note.ok()) {
    FALAJ_CHECK(fc::to_text(*note) == text);
    const auto checkpoint = fc::parse_body(note->body);
    FALAJ_CHECK(!checkpoint.ok() || fc::to_body(*checkpoint) == note->body);
  }
  if (const auto key = fc::parse_note_key(text); key.ok()) {
    FALAJ_CHECK(fc::to_text(*key) == text);
  }
  return 0;
}
