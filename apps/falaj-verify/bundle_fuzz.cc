// Any bytes as everything that falaj-verify reads at once: no crash, and no verdict that a laxer
// reader would not give too.
//
// An input is files in a row, each under a line `==> PATH <==`, as `tail -n +1 FILES` prints them.
// `key`, `witness` and `checkpoint` are the reader's own; `inclusion` and `consistency` are proofs;
// all others are the bundle.
#include <cstddef>
#include <cstdlib>

#include "bundle.h"

namespace falaj_verify {
namespace {

constexpr std::string_view kBegin = "==> ";
constexpr std::string_view kEnd = " <==\n";
constexpr const char* kSomeKey =
    "falaj/tamper+6ee71ef8+AW1E+Tn4KdQ1mLze3akN4B22n6pQyqM+jGwyikuQDU2s";

Files files_in(std::string_view text) {
  Files files;
  while (text.starts_with(kBegin)) {
    const std::size_t name_end = text.find(kEnd);
    if (name_end == std::string_view::npos) break;
    const std::string_view name = text.substr(kBegin.size(), name_end - kBegin.size());
    text.remove_prefix(name_end + kEnd.size());
    const std::size_t next = text.find("\n==> ");
    files[std::string(name)] = text.substr(0, next);
    if (next == std::string_view::npos) break;
    text.remove_prefix(next + 1);
  }
  return files;
}

std::string taken(Files& files, const char* name) {
  const auto found = files.find(name);
  if (found == files.end()) return "";
  std::string content = std::move(found->second);
  files.erase(found);
  return content;
}

Trust trust_in(Files& files) {
  auto key = parse_key(taken(files, "key"));
  if (!key || key->cosigns) key = parse_key(kSomeKey);
  if (!key) std::abort();
  Trust trust{*key, {}, {}};
  if (const auto witness = parse_key(taken(files, "witness")); witness && witness->cosigns) {
    trust.witnesses.push_back(*witness);
  }
  if (std::string held = taken(files, "checkpoint"); !held.empty()) trust.checkpoint = held;
  return trust;
}

void examine(std::string_view text) {
  Files files = files_in(text);
  const Trust trust = trust_in(files);
  check_inclusion_file(taken(files, "inclusion"), trust);
  check_consistency_file(taken(files, "consistency"), trust);
  if (trust.checkpoint) check_head(*trust.checkpoint, trust);
  const bool strict = check_bundle(files, trust).holds();
  // No input reaches far with every signature in its way: without them it does.
  Checks lax;
  lax.manifest_signature = lax.file_hashes = lax.unlisted_files = false;
  lax.head_signatures = lax.head_roots = lax.coverage = false;
  const bool anyhow = check_bundle(files, trust, lax).holds();
  if (strict && !anyhow) std::abort();
}

}  // namespace
}  // namespace falaj_verify

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  falaj_verify::examine({reinterpret_cast<const char*>(data), size});
  return 0;
}
