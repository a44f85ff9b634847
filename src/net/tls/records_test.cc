#include "net/tls/records.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace falaj::net {
namespace {

using Kind = RecordReader::Kind;
using Bytes = std::vector<unsigned char>;

TrafficSecret secret_of(unsigned char seed) {
  TrafficSecret secret;
  for (std::size_t i = 0; i < secret.bytes.size(); ++i) {
    secret.bytes[i] = static_cast<unsigned char>(seed + 7 * i);
  }
  return secret;
}

struct Pair {
  RecordWriter writer{secret_of(1)};
  RecordReader reader{secret_of(1)};

  Bytes data(std::string_view content) {
    Bytes record(content.size() + kRecordOverhead);
    EXPECT_EQ(writer.data(content, record.data()), record.size());
    return record;
  }
  Bytes key_update() {
    Bytes record(5 + kRecordOverhead);
    EXPECT_EQ(writer.key_update(record.data()), record.size());
    return record;
  }
  RecordReader::Opened open(const Bytes& sealed, std::string* content = nullptr) {
    Bytes out(kRecordBytesMax);
    const auto opened = reader.open(sealed, out);
    if (content != nullptr) content->assign(out.begin(), out.begin() + opened.bytes);
    if (opened.kind == Kind::kBroken) {
      EXPECT_EQ(out, Bytes(kRecordBytesMax));
    }
    return opened;
  }
};

// A record as no RecordWriter makes it: any inner bytes, any head.
Bytes sealed_by_hand(RecordKey& key, std::string_view inner) {
  Bytes record(kRecordHeadBytes + inner.size() + kRecordTagBytes);
  const std::size_t length = inner.size() + kRecordTagBytes;
  const unsigned char head[] = {23, 3, 3, static_cast<unsigned char>(length >> 8),
                                static_cast<unsigned char>(length)};
  std::copy(std::begin(head), std::end(head), record.begin());
  const std::string_view content = inner.substr(0, inner.size() - 1);
  key.seal(head, content, static_cast<unsigned char>(inner.back()),
           record.data() + kRecordHeadBytes);
  return record;
}

TEST(Records, give_back_what_was_sealed) {
  Pair pair;
  for (const std::size_t size : {0, 1, 15, 16, 17, 300, 16'383, 16'384}) {
    std::string content(size, 'x');
    for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 31);
    std::string seen;
    const Bytes record = pair.data(content);
    const auto opened = pair.open(record, &seen);
    EXPECT_EQ(opened.kind, Kind::kData);
    EXPECT_EQ(opened.used, record.size());
    EXPECT_EQ(seen, content);
  }
}

TEST(Records, take_one_at_a_time_and_wait_for_the_rest) {
  Pair pair;
  Bytes both = pair.data("first");
  const std::size_t first = both.size();
  const Bytes second = pair.data("second");
  both.insert(both.end(), second.begin(), second.end());
  for (std::size_t cut = 0; cut < first; ++cut) {
    const Bytes part(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(cut));
    EXPECT_EQ(pair.open(part).kind, Kind::kPartial) << cut;
    EXPECT_FALSE(RecordReader::is_whole(part));
  }
  std::string seen;
  EXPECT_EQ(pair.open(both, &seen).used, first);
  EXPECT_EQ(seen, "first");
  EXPECT_EQ(pair.open(second, &seen).kind, Kind::kData);
  EXPECT_EQ(seen, "second");
}

TEST(Records, say_how_much_room_they_need_and_can_be_opened_then) {
  Pair pair;
  const Bytes record = pair.data("hello");
  Bytes small(5);
  EXPECT_EQ(pair.reader.open(record, small).kind, Kind::kNoRoom);
  Bytes enough(RecordReader::needed(record));
  EXPECT_EQ(pair.reader.open(record, enough).kind, Kind::kData);
}

TEST(Records, a_changed_bit_anywhere_is_noticed) {
  const Bytes good = Pair().data("a content of some bytes");
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] = static_cast<unsigned char>(bad[bit / 8] ^ (1u << (bit % 8)));
    bad.resize(kRecordBytesMax + 1);  // A longer length finds the bytes that it asks for.
    const auto opened = Pair().open(bad);
    EXPECT_EQ(opened.kind, Kind::kBroken) << bit;
  }
}

TEST(Records, are_opened_once_and_in_order_and_by_whom_they_are_for) {
  Pair pair;
  const Bytes first = pair.data("1");
  const Bytes second = pair.data("2");
  EXPECT_EQ(Pair().open(second).alert, Alert::kBadRecordMac);  // One is missing.
  EXPECT_EQ(pair.open(first).kind, Kind::kData);
  EXPECT_EQ(pair.open(first).kind, Kind::kBroken);  // Again.
  RecordReader other(secret_of(2));
  Bytes out(kRecordBytesMax);
  EXPECT_EQ(other.open(first, out).kind, Kind::kBroken);
}

TEST(Records, equal_contents_look_different) {
  Pair pair;
  EXPECT_NE(pair.data("same"), pair.data("same"));
}

TEST(Records, padding_is_taken_off) {
  RecordKey key(secret_of(1), RecordKey::Use::kSeal);
  Pair pair;
  std::string seen;
  using std::string_literals::operator""s;
  EXPECT_EQ(pair.open(sealed_by_hand(key, "hi\x17\0\0\0"s), &seen).kind, Kind::kData);
  EXPECT_EQ(seen, "hi");
  EXPECT_EQ(pair.open(sealed_by_hand(key, "\0\x17"s), &seen).kind, Kind::kData);
  EXPECT_EQ(seen, "\0"s);
}

TEST(Records, what_has_no_place_after_a_handshake_ends_it) {
  using std::string_literals::operator""s;
  const std::pair<std::string, Alert> cases[] = {
      {"\0\0\0"s, Alert::kUnexpectedMessage},                // No kind.
      {"\x14"s, Alert::kUnexpectedMessage},                  // A change of cipher.
      {"\x01\x18"s, Alert::kUnexpectedMessage},              // A kind that there is not.
      {"\x01\x00\x00\x00\x16"s, Alert::kUnexpectedMessage},  // Another hello.
      {"\x18\0\0\x01\x02\x16"s, Alert::kIllegalParameter},   // A key update that asks for more.
      {"\x18\0\0\x01\x16"s, Alert::kUnexpectedMessage},      // One that was cut.
      {"\x18\0\0\x01\0\x18\0\0\x01\0\x16"s, Alert::kUnexpectedMessage},
      {"\x02\x15"s, Alert::kDecodeError},  // Half an alert.
  };
  for (const auto& [inner, alert] : cases) {
    RecordKey key(secret_of(1), RecordKey::Use::kSeal);
    const auto opened = Pair().open(sealed_by_hand(key, inner));
    EXPECT_EQ(opened.kind, Kind::kBroken);
    EXPECT_EQ(opened.alert, alert);
  }
  RecordKey key(secret_of(1), RecordKey::Use::kSeal);
  const std::string too_long(kRecordContentMax + 2, '\x17');
  EXPECT_EQ(Pair().open(sealed_by_hand(key, too_long)).alert, Alert::kRecordOverflow);
  // Padding counts: what is short may not be blown up beyond what a content may have.
  RecordKey padding(secret_of(1), RecordKey::Use::kSeal);
  std::string padded(kRecordContentMax + 2, '\0');
  padded.front() = '\x17';
  EXPECT_EQ(Pair().open(sealed_by_hand(padding, padded)).alert, Alert::kRecordOverflow);
  RecordKey largest(secret_of(1), RecordKey::Use::kSeal);
  padded.pop_back();
  EXPECT_EQ(Pair().open(sealed_by_hand(largest, padded)).kind, Kind::kData);
  const Bytes plain = {21, 3, 3, 0, 2, 1, 0};  // Unsealed.
  EXPECT_EQ(Pair().open(plain).alert, Alert::kUnexpectedMessage);
  EXPECT_EQ(Pair().open({22}).alert, Alert::kUnexpectedMessage);
  EXPECT_EQ(Pair().open({23, 3, 3, 0x41, 1}).alert, Alert::kRecordOverflow);
  EXPECT_EQ(Pair().open(Bytes{23, 3, 3, 0, 3, 1, 2, 3}).alert, Alert::kBadRecordMac);
}

TEST(Records, alerts_say_what_they_say) {
  Pair pair;
  Bytes record(2 + kRecordOverhead);
  for (const Alert alert : {Alert::kBadRecordMac, Alert::kCloseNotify}) {
    ASSERT_EQ(pair.writer.alert(alert, record.data()), record.size());
    const auto opened = pair.open(record);
    EXPECT_EQ(opened.kind, Kind::kAlert);
    EXPECT_EQ(opened.alert, alert);
  }
}

TEST(Records, a_key_update_changes_the_key_on_both_sides) {
  Pair pair;
  RecordReader late(secret_of(1));
  const Bytes before = pair.data("before");
  const Bytes update = pair.key_update();
  const Bytes after = pair.data("after");
  EXPECT_EQ(pair.open(before).kind, Kind::kData);
  EXPECT_EQ(pair.open(update).kind, Kind::kKeyUpdate);
  std::string seen;
  EXPECT_EQ(pair.open(after, &seen).kind, Kind::kData);
  EXPECT_EQ(seen, "after");
  // Who did not hear of it cannot read on, nor can who hears of it twice.
  Bytes out(kRecordBytesMax);
  EXPECT_EQ(late.open(before, out).kind, Kind::kData);
  EXPECT_EQ(late.open(after, out).kind, Kind::kBroken);
  EXPECT_EQ(pair.open(update).kind, Kind::kBroken);
}

TEST(Records, a_key_wears_out_and_a_new_one_is_fresh) {
  RecordWriter writer(secret_of(1));
  Bytes record(5 + kRecordOverhead);
  EXPECT_FALSE(writer.is_worn());
  for (std::uint64_t i = 0; i < RecordWriter::kRecordsOfKeyMax; ++i) writer.data("", record.data());
  EXPECT_TRUE(writer.is_worn());
  writer.key_update(record.data());
  EXPECT_FALSE(writer.is_worn());
}

}  // namespace
}  // namespace falaj::net
