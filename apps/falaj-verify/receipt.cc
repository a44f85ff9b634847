#include "receipt.h"

#include <array>

namespace falaj_verify {
namespace {

constexpr std::size_t kReceiptMax = 64 * 1024;

// What each line of a receipt begins with, after the first two.
constexpr std::array<std::string_view, 12> kLines{"project ", "deployment ", "model ", "version ",
                                                  "onnx ",    "features ",   "asked ", "answered ",
                                                  "id ",      "at ",         "log ",   "key "};
enum What : std::size_t { kProject, kDeployment, kModel, kVersion, kOnnx, kFeatures };
enum When : std::size_t { kAsked = 6, kAnswered, kId, kAt, kLog, kKey };

struct Receipt {
  Note note;
  Note certificate;
  Note head;
  std::string origin;
  std::array<std::string, kLines.size()> values;
  std::string key_line;
};

// A note with one signature: another would not be looked at.
bool read_note(std::string_view part, Note& into) {
  const auto text = from_base64(part);
  auto note = text ? parse_note(*text) : std::nullopt;
  if (!note || note->signatures.size() != 1) return false;
  into = std::move(*note);
  return true;
}

std::optional<Receipt> parse_receipt(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.size() > kReceiptMax) return {};
  const auto parts = split(text, '.');
  Receipt receipt;
  if (parts.size() != 3 || !read_note(parts[0], receipt.note) ||
      !read_note(parts[1], receipt.certificate) || !read_note(parts[2], receipt.head)) {
    return {};
  }
  const auto lines = lines_of(receipt.note.body);
  if (lines.size() != kLines.size() + 2 || lines[0] != "falaj-receipt/v1") return {};
  receipt.origin = lines[1];
  for (std::size_t i = 0; i < kLines.size(); ++i) {
    if (!lines[i + 2].starts_with(kLines[i])) return {};
    receipt.values[i] = lines[i + 2].substr(kLines[i].size());
  }
  receipt.key_line = lines.back();
  return receipt;
}

// "BASE64 FROM UNTIL", in seconds.
struct SigningKey {
  Key key;
  std::uint64_t from = 0;
  std::uint64_t until = 0;
};
std::optional<SigningKey> signing_key(const Receipt& receipt) {
  const auto words = split(receipt.values[kKey], ' ');
  if (words.size() != 3) return {};
  const auto raw = from_base64(words[0]);
  const auto from = to_number(words[1]);
  const auto until = to_number(words[2]);
  if (!raw || raw->size() != 32 || !from || !until) return {};
  return SigningKey{make_key(receipt.origin + "/receipts", *raw), *from, *until};
}

// The signer vouched for the very line that names the key and its time.
bool is_certified(const Receipt& receipt, const Trust& trust) {
  return vouches_for(receipt.certificate, trust.log,
                     "falaj-receipt-key/v1\n" + receipt.origin + "\n" + receipt.key_line + "\n");
}

bool is_of_the_log(const Receipt& receipt, const Trust& trust) {
  const auto head = parse_checkpoint(receipt.head.body);
  if (!head || head->origin != trust.log.name) return false;
  const auto words = split(receipt.values[kLog], ' ');
  const auto lines = lines_of(receipt.head.body);
  return words.size() == 2 && words[0] == lines[1] && words[1] == lines[2] &&
         check_signature(receipt.head, trust.log).state == Signed::kYes;
}

// "FORM HEX" against a file.
void check_file(const std::string& said, const std::optional<std::string>& file,
                const std::string& what, Report& report) {
  if (!file) return;
  const auto words = split(said, ' ');
  const bool holds = words.size() == 2 && words[1] == to_hex(sha256(*file));
  report.findings.push_back({holds, holds ? what + " is the one that the receipt is about"
                                          : what + " is another than the receipt is about"});
}

}  // namespace

Report check_receipt(std::string_view text, const Trust& trust, const Exchange& exchange) {
  Report report;
  const auto say = [&](bool holds, const std::string& good, const std::string& bad) {
    report.findings.push_back({holds, holds ? good : bad});
    return holds;
  };
  const auto receipt = parse_receipt(text);
  if (!say(receipt.has_value(), "it is a receipt", "it is no receipt, or was changed")) {
    return report;
  }
  const auto key = signing_key(*receipt);
  const bool known = key && receipt->origin == trust.log.name && is_certified(*receipt, trust);
  if (!say(known, "the log's signer vouched for the key that signs receipts",
           "the log's signer did not vouch for the key of this receipt")) {
    return report;
  }
  say(check_signature(receipt->note, key->key).state == Signed::kYes, "that key signed the receipt",
      "that key did not sign this receipt");
  const auto at = to_number(receipt->values[kAt]);
  say(at && *at / 1000 >= key->from && *at / 1000 <= key->until, "in the time that it is valid for",
      "not in the time that the key is valid for");
  say(is_of_the_log(*receipt, trust), "the log's signer signed the head that it names",
      "the head of the log in it is not what the log's signer signed");
  check_file(receipt->values[kAsked], exchange.asked, "what was asked", report);
  check_file(receipt->values[kAnswered], exchange.answered, "what was answered", report);
  if (!report.holds()) return report;
  const auto& is = receipt->values;
  say(true,
      "deployment " + is[kProject] + "/" + is[kDeployment] + ", model " + is[kModel] + " version " +
          is[kVersion] + ", onnx sha256 " + is[kOnnx],
      "");
  say(true,
      "features " + is[kFeatures] + ", log of " + is[kLog].substr(0, is[kLog].find(' ')) +
          " entries, request " + is[kId] + ", asked " + is[kAsked] + ", answered " + is[kAnswered],
      "");
  return report;
}

}  // namespace falaj_verify
