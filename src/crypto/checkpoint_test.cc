#include "crypto/checkpoint.h"

#include <gtest/gtest.h>

#include "crypto/base64.h"

namespace falaj::crypto {
namespace {

const PrivateKey& log_key() {
  static const PrivateKey kKey = PrivateKey::ed25519(std::string(32, 'l')).value();
  return kKey;
}

const PrivateKey& witness_key() {
  static const PrivateKey kKey = PrivateKey::ed25519(std::string(32, 'w')).value();
  return kKey;
}

Checkpoint sample() { return {"falaj/test", {7, leaf_hash("seven")}, {"time 1780000000"}}; }

Note signed_sample() {
  Note note{to_body(sample()), {}};
  note.signatures.push_back(sign_note(note.body, "falaj/test", log_key()).value());
  note.signatures.push_back(
      cosign_note(note.body, "witness.example", witness_key(), 1'780'000'100).value());
  return note;
}

NoteKey key_of(const PrivateKey& key, std::string name, NoteKeyUse use) {
  return {std::move(name), use, key.public_key().raw()};
}

// The example of the note format's first implementation.
TEST(Checkpoint, verifies_the_known_note) {
  const NoteKey key =
      parse_note_key("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW").value();
  const Note note =
      parse_note(
          "If you think cryptography is the answer to your problem,\n"
          "then you don't know what your problem is.\n"
          "\n"
          "\xE2\x80\x94 PeterNeumann "
          "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb"
          "6KE6RyyBwJnAM=\n")
          .value();
  EXPECT_TRUE(verify_note(note, key).ok());
}

TEST(Checkpoint, round_trips) {
  const Checkpoint read = parse_body(to_body(sample())).value();
  EXPECT_EQ(read.origin, "falaj/test");
  EXPECT_EQ(read.head, sample().head);
  EXPECT_EQ(read.extension("time"), "1780000000");
  EXPECT_EQ(read.extension("tim"), "");
  const std::string text = to_text(signed_sample());
  EXPECT_EQ(to_text(parse_note(text).value()), text);
  const NoteKey key = key_of(log_key(), "falaj/test", NoteKeyUse::kSign);
  EXPECT_EQ(to_text(parse_note_key(to_text(key)).value()), to_text(key));
}

TEST(Checkpoint, bears_signature_and_cosignature) {
  const Note note = signed_sample();
  EXPECT_TRUE(verify_note(note, key_of(log_key(), "falaj/test", NoteKeyUse::kSign)).ok());
  const auto seen =
      verify_note(note, key_of(witness_key(), "witness.example", NoteKeyUse::kCosign));
  ASSERT_TRUE(seen.ok()) << seen.error().message;
  EXPECT_EQ(*seen, 1'780'000'100);
}

TEST(Checkpoint, a_key_never_passes_for_another) {
  const Note note = signed_sample();
  for (const NoteKey& wrong : {key_of(witness_key(), "falaj/test", NoteKeyUse::kSign),
                               key_of(log_key(), "falaj/other", NoteKeyUse::kSign),
                               key_of(log_key(), "falaj/test", NoteKeyUse::kCosign),
                               key_of(witness_key(), "witness.example", NoteKeyUse::kSign)}) {
    EXPECT_FALSE(verify_note(note, wrong).ok());
  }
}

// Every single flipped bit of the text: it no longer parses or no longer verifies.
TEST(Checkpoint, any_flipped_bit_is_noticed) {
  const std::string text = to_text(signed_sample());
  const NoteKey log = key_of(log_key(), "falaj/test", NoteKeyUse::kSign);
  const NoteKey witness = key_of(witness_key(), "witness.example", NoteKeyUse::kCosign);
  for (std::size_t i = 0; i < text.size() * 8; ++i) {
    std::string changed = text;
    changed[i / 8] = static_cast<char>(changed[i / 8] ^ (1 << (i % 8)));
    const auto note = parse_note(changed);
    if (!note.ok()) continue;
    EXPECT_FALSE(verify_note(*note, log).ok() && verify_note(*note, witness).ok()) << i;
  }
}

TEST(Checkpoint, refuses_malformed_texts) {
  const std::string root = base64(std::string(32, 'r'));
  for (const std::string& bad :
       {std::string(), std::string("\n"), "o\n1\n" + root, "o\n01\n" + root + "\n",
        "o\n-1\n" + root + "\n", "o\n+1\n" + root + "\n", "o\n1 \n" + root + "\n",
        "o o\n1\n" + root + "\n", "\n1\n" + root + "\n", std::string("o\n1\nAAAA\n"),
        "o\n1\n" + root + "\n\n", "o\n1\n" + root + "\n\x01\n",
        "o\n9223372036854775808\n" + root + "\n"}) {
    EXPECT_FALSE(parse_body(bad).ok()) << bad;
  }
  for (const std::string& bad :
       {std::string("o\n1\n") + root + "\n", std::string("x\n\n"),
        std::string("x\n\n- name AAAAAAAA\n"), std::string("x\n\n\xE2\x80\x94 name AAAA"),
        std::string("x\n\n\xE2\x80\x94 name AAA\n"), std::string(70'000, 'x')}) {
    EXPECT_FALSE(parse_note(bad).ok()) << bad.substr(0, 80);
  }
  EXPECT_FALSE(parse_note_key("a+00000000+" + base64("\x01" + std::string(32, 'k'))).ok());
  EXPECT_FALSE(parse_note_key("a+b").ok());
}

}  // namespace
}  // namespace falaj::crypto
