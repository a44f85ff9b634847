// falaj-verify: checks what Falaj proved, without Falaj. Reads files, asks nobody, believes only
// the keys on its command line.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "receipt.h"

namespace falaj_verify {
namespace {

enum Exit : int { kHolds = 0, kDoesNotHold = 1, kUsage = 2, kUnreadable = 3 };

constexpr const char* kHelp =
    "falaj-verify: checks evidence of a Falaj server without the server.\n"
    "\n"
    "  falaj-verify bundle FOLDER --key KEY [--witness KEY]... [--checkpoint FILE]\n"
    "  falaj-verify checkpoint FILE --key KEY [--witness KEY]...\n"
    "  falaj-verify inclusion FILE --key KEY\n"
    "  falaj-verify consistency FILE --key KEY --checkpoint FILE\n"
    "  falaj-verify receipt FILE --key KEY [--asked FILE] [--answered FILE]\n"
    "\n"
    "  --key KEY          the log's public key (name+id+base64), or a file that holds it.\n"
    "                     Get it from the operator by another way than the bundle.\n"
    "  --witness KEY      who must have cosigned; may be repeated.\n"
    "  --checkpoint FILE  a signed head that you kept. With it, a log that was rewritten or cut\n"
    "                     since is found out even if its operator has the signing key.\n"
    "  --asked, --answered FILE  the bytes that were sent and came back, to be held against the\n"
    "                     receipt of a prediction (the header X-Falaj-Receipt).\n"
    "\n"
    "Exit code: 0 everything holds, 1 something does not, 2 wrong use, 3 a file cannot be read.\n";

struct Arguments {
  std::string what;
  std::string path;
  std::string key;
  std::vector<std::string> witnesses;
  std::string checkpoint;
  std::string asked;
  std::string answered;
};

int complain(const std::string& what, Exit code) {
  std::fprintf(stderr, "falaj-verify: %s\n", what.c_str());
  return code;
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) return {};
  return content;
}

std::optional<Arguments> parse_arguments(int argc, char** argv) {
  if (argc < 3) return {};
  Arguments arguments{argv[1], argv[2], "", {}, "", "", ""};
  for (int i = 3; i < argc; i += 2) {
    const std::string_view option = argv[i];
    if (i + 1 == argc) return {};
    std::string* const text = option == "--key"          ? &arguments.key
                              : option == "--checkpoint" ? &arguments.checkpoint
                              : option == "--asked"      ? &arguments.asked
                              : option == "--answered"   ? &arguments.answered
                              : option == "--witness"    ? &arguments.witnesses.emplace_back()
                                                         : nullptr;
    if (text == nullptr) return {};
    *text = argv[i + 1];
  }
  if (!arguments.key.empty()) return arguments;
  complain("--key is missing: the log's public key, or a file that holds it\n", kUsage);
  return {};
}

// A public key, or a file that holds one; says why not.
std::optional<Key> key_of(const char* option, const std::string& text, bool of_witness) {
  auto key = parse_key(text);
  const auto file = key ? std::nullopt : read_file(text);
  if (file) key = parse_key(*file);
  if (key && key->cosigns == of_witness) return key;
  std::fprintf(stderr, "falaj-verify: %s %s %s\n", option, text.c_str(),
               !key && !file ? "is no public key (name+id+base64), and there is no such file"
               : of_witness  ? "is no public key of a witness"
                             : "is no public key of a log ('falaj audit key' prints it)");
  return {};
}

// Only regular files; a link could show one thing now and another later.
std::optional<Files> read_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  Files files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_symlink() || (!it->is_directory() && !it->is_regular_file())) {
      std::fprintf(stderr, "falaj-verify: %s is no plain file\n", it->path().c_str());
      return {};
    }
    if (it->is_directory()) continue;
    auto content = read_file(it->path());
    if (!content) return {};
    files.emplace(fs::relative(it->path(), folder).generic_string(), std::move(*content));
  }
  if (error) return {};
  return files;
}

int print(const Report& report) {
  if (!report.wrong_use.empty()) return complain(report.wrong_use, kUsage);
  for (const Finding& finding : report.findings) {
    std::printf("%s  %s\n", finding.holds ? "ok   " : "FAILS", finding.text.c_str());
  }
  std::puts(report.holds() ? "\nEverything that was checked holds."
                           : "\nDo not rely on this evidence: at least one check failed.");
  return report.holds() ? kHolds : kDoesNotHold;
}

int unreadable(const std::string& path) { return complain(path + " cannot be read", kUnreadable); }

std::optional<Trust> trust_of(const Arguments& arguments) {
  const auto log = key_of("--key", arguments.key, false);
  if (!log) return {};
  Trust trust{*log, {}, {}};
  for (const std::string& text : arguments.witnesses) {
    const auto key = key_of("--witness", text, true);
    if (!key) return {};
    trust.witnesses.push_back(*key);
  }
  return trust;
}

int run_receipt(const Arguments& arguments, const std::string& receipt, const Trust& trust) {
  Exchange exchange;
  for (auto [path, content] : {std::pair(&arguments.asked, &exchange.asked),
                               std::pair(&arguments.answered, &exchange.answered)}) {
    if (!path->empty() && !(*content = read_file(*path))) return unreadable(*path);
  }
  return print(check_receipt(receipt, trust, exchange));
}

int run(int argc, char** argv) {
  const auto arguments = parse_arguments(argc, argv);
  if (!arguments) {
    std::fputs(kHelp, argc == 2 && std::string_view(argv[1]) == "--help" ? stdout : stderr);
    return argc == 2 && std::string_view(argv[1]) == "--help" ? kHolds : kUsage;
  }
  auto trust = trust_of(*arguments);
  if (!trust) return kUsage;
  if (!arguments->checkpoint.empty()) {
    trust->checkpoint = read_file(arguments->checkpoint);
    if (!trust->checkpoint) return unreadable(arguments->checkpoint);
    const auto note = parse_note(*trust->checkpoint);
    if (!note || !parse_checkpoint(note->body)) {
      return complain("--checkpoint " + arguments->checkpoint +
                          " holds no signed head, as 'falaj audit head' prints it",
                      kUsage);
    }
  }
  if (arguments->what == "bundle") {
    const auto files = read_folder(arguments->path);
    return files ? print(check_bundle(*files, *trust)) : unreadable(arguments->path);
  }
  const auto file = read_file(arguments->path);
  if (!file) return unreadable(arguments->path);
  if (arguments->what == "checkpoint") return print(check_head(*file, *trust));
  if (arguments->what == "inclusion") return print(check_inclusion_file(*file, *trust));
  if (arguments->what == "consistency") return print(check_consistency_file(*file, *trust));
  if (arguments->what == "receipt") return run_receipt(*arguments, *file, *trust);
  std::fputs(kHelp, stderr);
  return kUsage;
}

}  // namespace
}  // namespace falaj_verify

int main(int argc, char** argv) { return falaj_verify::run(argc, argv); }
