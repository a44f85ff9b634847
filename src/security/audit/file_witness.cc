// A witness by files: for those who carry heads on a medium, or watch a shared folder.
#include <dirent.h>

#include <algorithm>

#include "base/json.h"
#include "security/audit/heads.h"
#include "security/audit/wire.h"
#include "storage/small_file.h"

namespace falaj::security {
namespace {

using storage::read_small_file;
using storage::write_small_file;

Result<std::optional<std::string>> read_if_there(const std::string& path) {
  auto file = read_small_file(path);
  if (file.ok()) return std::optional<std::string>(std::move(file->content));
  if (file.error().code == Code::kNotFound) return std::optional<std::string>();
  return file.error();
}

// The empty tree where there is no note.
crypto::TreeHead head_of(const std::string& note_text) {
  const crypto::TreeHead nothing{0, crypto::empty_root()};
  const auto note = crypto::parse_note(note_text);
  if (!note.ok()) return nothing;
  const auto checkpoint = crypto::parse_body(note->body);
  return checkpoint.ok() ? checkpoint->head : nothing;
}

class FileWitness final : public Witness {
 public:
  explicit FileWitness(std::string folder) : folder_(std::move(folder)) {}

  Result<std::optional<std::string>> held(const std::string& origin) override {
    return read_if_there(path(origin, ".checkpoint"));
  }

  Result<crypto::TreeHead> seen(const std::string& origin) override {
    const auto cosigned = FALAJ_TRY(read_if_there(path(origin, ".cosigned")));
    return head_of(cosigned.value_or(""));
  }

  Result<std::optional<std::string>> submit(const SignedHead& head, const crypto::NoteKey& key,
                                            std::uint64_t since,
                                            const crypto::Proof& proof) override {
    Value value;
    value["key"] = crypto::to_text(key);
    value["since"] = since;
    value["size"] = head.head.size;
    value["proof"] = proof_value(proof);
    FALAJ_TRY(write_small_file(path(key.name, ".proof"), to_json(value) + "\n"));
    FALAJ_TRY(write_small_file(path(key.name, ".checkpoint"), head.note));
    return read_if_there(path(key.name, ".cosigned"));
  }

 private:
  std::string path(const std::string& origin, const char* suffix) const {
    return folder_ + "/" + drop_name(origin) + suffix;
  }
  const std::string folder_;
};

Result<std::vector<std::string>> drops_in(const std::string& folder) {
  DIR* directory = ::opendir(folder.c_str());
  if (directory == nullptr) {
    return Error(Code::kNotFound, "the witness folder '" + folder + "' cannot be read");
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    constexpr std::string_view kSuffix = ".checkpoint";
    if (name.ends_with(kSuffix)) names.emplace_back(name.substr(0, name.size() - kSuffix.size()));
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string drop_name(std::string_view origin) {
  std::string name(origin);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain) c = '_';
  }
  return name;
}

std::unique_ptr<Witness> make_file_witness(std::string folder) {
  return std::make_unique<FileWitness>(std::move(folder));
}

Result<int> cosign_drops(const std::string& folder, Signer& signer, Timestamp now) {
  int count = 0;
  const std::vector<std::string> names = FALAJ_TRY(drops_in(folder));
  for (const std::string& name : names) {
    const std::string base = folder + "/" + name;
    const storage::SmallFile note = FALAJ_TRY(read_small_file(base + ".checkpoint"));
    const storage::SmallFile request = FALAJ_TRY(read_small_file(base + ".proof"));
    const Value value = FALAJ_TRY(parse_json(request.content));
    const crypto::NoteKey key = FALAJ_TRY(crypto::parse_note_key(value.text("key")));
    const crypto::TreeHead seen = FALAJ_TRY(signer.witnessed(key.name));
    if (seen == head_of(note.content)) continue;  // Cosigned before.
    const crypto::Proof proof = FALAJ_TRY(proof_from(value["proof"]));
    const std::string cosigned = FALAJ_TRY(signer.cosign(note.content, key, proof, now));
    FALAJ_TRY(write_small_file(base + ".cosigned", cosigned));
    ++count;
  }
  return count;
}

}  // namespace falaj::security
