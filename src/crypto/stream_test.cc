#include "crypto/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "crypto/testing/fake_random.h"

namespace falaj::crypto {
namespace {

using testing::FakeRandom;

SealedReadAt reader_of(const std::string& sealed) {
  return [&sealed](std::uint64_t offset, std::span<unsigned char> out) -> Status {
    if (offset + out.size() > sealed.size()) return Error{Code::kInternal, "read past the end"};
    std::memcpy(out.data(), sealed.data() + offset, out.size());
    return {};
  };
}

// Cheap to make, and different everywhere.
std::string content(std::size_t size) {
  std::mt19937_64 numbers(size);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(numbers());
  return text;
}

// Sizes on both sides of every edge.
const std::size_t kSizes[] = {0,
                              1,
                              4096,
                              kFirstSegmentPlain - 1,
                              kFirstSegmentPlain,
                              kFirstSegmentPlain + 1,
                              kFirstSegmentPlain + kSegmentPlain - 1,
                              kFirstSegmentPlain + kSegmentPlain,
                              kFirstSegmentPlain + kSegmentPlain + 1,
                              3 * kSegmentBytes + 777};

// Opens and reads all of it in pieces of a segment.
bool opens(const SecretBytes& key, const std::string& sealed, std::string_view aad) {
  return open_stream(key, sealed, aad).ok();
}

TEST(Stream, what_was_sealed_opens_at_every_edge) {
  FakeRandom random(1);
  const SecretBytes key = random.key();
  for (const std::size_t size : kSizes) {
    const std::string text = content(size);
    const std::string sealed = seal_stream(key, text, "aad", random);
    EXPECT_EQ(sealed.size(), sealed_stream_size(size)) << size;
    EXPECT_EQ(open_stream(key, sealed, "aad").value(), text) << size;
    EXPECT_FALSE(opens(key, sealed, "bad"));
    EXPECT_FALSE(opens(random.key(), sealed, "aad"));
  }
}

TEST(Stream, pieces_of_any_size_seal_to_the_same_bytes) {
  const std::string text = content(200'000);
  FakeRandom same(9);
  const SecretBytes key = same.key();
  FakeRandom first(5);
  const std::string whole = seal_stream(key, text, "aad", first);
  for (const std::size_t piece : {1U, 1000U, 65'495U, 65'536U, 150'000U}) {
    FakeRandom again(5);
    StreamSealer sealer(key, "aad", again);
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      ASSERT_TRUE(sealer.append(std::string_view(text).substr(at, piece), out).ok());
    }
    sealer.finish(out);
    EXPECT_EQ(out, whole) << piece;
  }
}

TEST(Stream, random_access_equals_the_whole) {
  FakeRandom random(2);
  const SecretBytes key = random.key();
  std::mt19937_64 numbers(20'261'116);
  for (const std::size_t size : kSizes) {
    const std::string text = content(size);
    const std::string sealed = seal_stream(key, text, "aad", random);
    const auto opener = StreamOpener::open(key, "aad", sealed.size(), reader_of(sealed)).value();
    ASSERT_EQ(opener->size(), size);
    for (int i = 0; i < 200; ++i) {
      const std::size_t offset = numbers() % (size + 1);
      const std::size_t limit =
          i % 2 == 0 ? size - offset : std::min<std::size_t>(64, size - offset);
      std::string out(numbers() % (limit + 1), '?');
      ASSERT_TRUE(
          opener->read_at(offset, {reinterpret_cast<unsigned char*>(out.data()), out.size()}).ok());
      ASSERT_EQ(out, text.substr(offset, out.size())) << size << " " << offset;
    }
    unsigned char byte = 0;
    EXPECT_EQ(opener->read_at(size, {&byte, 1}).error().code, Code::kInvalidArgument);
    EXPECT_EQ(opener->read_at(~std::uint64_t{0}, {&byte, 1}).error().code, Code::kInvalidArgument);
  }
}

TEST(Stream, every_flipped_byte_is_found) {
  FakeRandom random(3);
  const SecretBytes key = random.key();
  const std::string small = seal_stream(key, content(300), "aad", random);
  for (std::size_t at = 0; at < small.size(); ++at) {
    std::string bad = small;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    EXPECT_EQ(open_stream(key, bad, "aad").error(), decrypt_failed()) << at;
  }
  const std::string large = seal_stream(key, content(3 * kSegmentBytes + 777), "aad", random);
  std::mt19937_64 numbers(7);
  for (int i = 0; i < 300; ++i) {
    std::string bad = large;
    const std::size_t at = numbers() % bad.size();
    bad[at] = static_cast<char>(bad[at] ^ (1 << (numbers() % 8)));
    EXPECT_EQ(open_stream(key, bad, "aad").error(), decrypt_failed()) << at;
  }
}

TEST(Stream, every_cut_and_every_extension_is_found_when_opening) {
  FakeRandom random(4);
  const SecretBytes key = random.key();
  const std::string sealed = seal_stream(key, content(2 * kSegmentBytes + 100), "aad", random);
  std::vector<std::size_t> cuts = {0, 1, 39, 40, 55, 56, 57};
  for (std::size_t edge = kSegmentBytes; edge < sealed.size(); edge += kSegmentBytes) {
    for (const int by : {-17, -16, -1, 0, 1, 16, 17}) {
      cuts.push_back(edge + static_cast<std::size_t>(by));
    }
  }
  for (std::size_t by = 1; by < 200; ++by) cuts.push_back(sealed.size() - by);
  for (const std::size_t size : cuts) {
    const std::string cut = sealed.substr(0, size);
    EXPECT_FALSE(StreamOpener::open(key, "aad", cut.size(), reader_of(cut)).ok()) << size;
  }
  for (const std::size_t more : {1UL, 16UL, 17UL, kSegmentBytes, 2 * kSegmentBytes}) {
    const std::string longer = sealed + std::string(more, '\0');
    EXPECT_FALSE(StreamOpener::open(key, "aad", longer.size(), reader_of(longer)).ok()) << more;
  }
}

TEST(Stream, segments_cannot_be_moved_doubled_dropped_or_taken_from_another_stream) {
  FakeRandom random(5);
  const SecretBytes key = random.key();
  const std::string text = content(4 * kSegmentBytes + 100);
  const std::string sealed = seal_stream(key, text, "aad", random);
  const std::string other = seal_stream(key, text, "aad", random);  // Same key, same content.
  const auto segment = [](const std::string& of, std::size_t i) {
    return of.substr(i * kSegmentBytes, kSegmentBytes);
  };
  const auto join = [&](std::initializer_list<std::string> parts) {
    std::string out;
    for (const std::string& part : parts) out += part;
    return out;
  };
  const std::string s0 = segment(sealed, 0);
  const std::string s1 = segment(sealed, 1);
  const std::string s2 = segment(sealed, 2);
  const std::string s3 = segment(sealed, 3);
  const std::string s4 = segment(sealed, 4);
  ASSERT_EQ(join({s0, s1, s2, s3, s4}), sealed);
  EXPECT_FALSE(opens(key, join({s0, s2, s1, s3, s4}), "aad"));                 // reordered
  EXPECT_FALSE(opens(key, join({s0, s1, s1, s3, s4}), "aad"));                 // doubled
  EXPECT_FALSE(opens(key, join({s0, s1, s2, s2, s3, s4}), "aad"));             // inserted
  EXPECT_FALSE(opens(key, join({s0, s1, s3, s4}), "aad"));                     // dropped
  EXPECT_FALSE(opens(key, join({s0, s1, s2, s3}), "aad"));                     // last dropped
  EXPECT_FALSE(opens(key, join({s0, segment(other, 1), s2, s3, s4}), "aad"));  // spliced
  EXPECT_FALSE(opens(key, join({segment(other, 0), s1, s2, s3, s4}), "aad"));  // other's head
  EXPECT_TRUE(opens(key, join({s0, s1, s2, s3, s4}), "aad"));
}

TEST(Stream, a_damaged_segment_spoils_only_reads_that_touch_it_and_leaves_no_plaintext) {
  FakeRandom random(6);
  const SecretBytes key = random.key();
  const std::string text = content(3 * kSegmentBytes);
  std::string sealed = seal_stream(key, text, "aad", random);
  sealed[kSegmentBytes + 5] = static_cast<char>(sealed[kSegmentBytes + 5] ^ 1);
  const auto opener = StreamOpener::open(key, "aad", sealed.size(), reader_of(sealed)).value();
  std::string out(100, '?');
  auto span = std::span(reinterpret_cast<unsigned char*>(out.data()), out.size());
  EXPECT_TRUE(opener->read_at(10, span).ok());
  EXPECT_EQ(opener->read_at(kFirstSegmentPlain - 50, span).error(), decrypt_failed());
  EXPECT_EQ(out, std::string(100, '\0'));
  EXPECT_TRUE(opener->read_at(opener->size() - 100, span).ok());
  EXPECT_EQ(out, text.substr(text.size() - 100));
}

TEST(Stream, the_readers_error_passes_through) {
  FakeRandom random(7);
  const SecretBytes key = random.key();
  const auto broken = [](std::uint64_t, std::span<unsigned char>) -> Status {
    return Error{Code::kUnavailable, "disk"};
  };
  EXPECT_EQ(StreamOpener::open(key, "aad", 100, broken).error().code, Code::kUnavailable);
}

TEST(Stream, segments_that_are_read_in_turns_are_opened_once_while_they_are_few) {
  FakeRandom random(8);
  const SecretBytes key = random.key();
  const std::string text = content(20 * kSegmentPlain);
  const std::string sealed = seal_stream(key, text, "", random);
  int reads = 0;
  const auto counted = [&](std::uint64_t offset, std::span<unsigned char> out) -> Status {
    ++reads;
    return reader_of(sealed)(offset, out);
  };
  const auto opener = StreamOpener::open(key, "", sealed.size(), counted).value();
  std::mt19937 numbers(8);
  const auto read_each = [&](std::size_t segments) {
    for (std::size_t i = 0; i < segments; ++i) {
      const std::size_t offset = kFirstSegmentPlain + i * kSegmentPlain + numbers() % 60'000;
      std::string out(100, '\0');
      ASSERT_TRUE(
          opener->read_at(offset, {reinterpret_cast<unsigned char*>(out.data()), 100}).ok());
      ASSERT_EQ(out, text.substr(offset, 100));
    }
  };
  reads = 0;
  for (int round = 0; round < 5; ++round) read_each(4);
  EXPECT_EQ(reads, 4);
  reads = 0;
  for (int round = 0; round < 5; ++round) read_each(15);  // More than are kept: each is the oldest.
  EXPECT_GT(reads, 5 * 15 - 5);
}

TEST(Stream, threads_read_one_opener) {
  FakeRandom random(8);
  const SecretBytes key = random.key();
  const std::string text = content(15 * kSegmentBytes);  // More segments than are kept.
  const std::string sealed = seal_stream(key, text, "aad", random);
  const auto opener = StreamOpener::open(key, "aad", sealed.size(), reader_of(sealed)).value();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 numbers(t);
      for (int i = 0; i < 100; ++i) {
        std::string out(1 + numbers() % 100'000, '\0');
        const std::size_t offset = numbers() % (text.size() - out.size());
        const auto span = std::span(reinterpret_cast<unsigned char*>(out.data()), out.size());
        if (!opener->read_at(offset, span).ok() || text.compare(offset, out.size(), out) != 0) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace falaj::crypto
