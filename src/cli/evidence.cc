// evidence: export.
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/hash.h"
#include "base/json.h"
#include "cli/commands.h"

namespace falaj::cli {
namespace {

constexpr std::int64_t kPage = 5'000;
constexpr const char* kEntries = "audit/entries.jsonl";

Error unwritable(const std::string& path) {
  return {ErrorId::kFileUnreadable, path + ": " + std::strerror(errno)};
}

Error taken(const std::string& folder) {
  return {ErrorId::kConflict, folder + " is there already: name a new folder with --out"};
}

// A path of the bundle is two plain words at most; anything else would leave the folder.
bool is_plain(const std::string& path) {
  return !path.empty() && path[0] != '/' && path.find("..") == std::string::npos &&
         path.find('\\') == std::string::npos && path.find('\0') == std::string::npos;
}

Result<std::ofstream> create(const std::string& folder, const std::string& path) {
  if (!is_plain(path)) {
    return Error{Code::kInternal, "the server names a file outside the bundle: " + path};
  }
  for (std::size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string parent = folder + "/" + path.substr(0, slash);
    if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) return unwritable(parent);
  }
  std::ofstream out(folder + "/" + path, std::ios::binary | std::ios::trunc);
  if (!out) return unwritable(folder + "/" + path);
  return out;
}

// Fetches the entries page by page; returns the hash of what was written.
Result<std::string> write_entries(Connection& connection, const std::string& folder,
                                  std::int64_t count) {
  std::ofstream out = FALAJ_TRY(create(folder, kEntries));
  Sha256Hasher hasher;
  for (std::int64_t first = 1; first <= count; first += kPage) {
    const std::string page =
        FALAJ_TRY(connection.raw("/api/v1/evidence/entries?first=" + std::to_string(first) +
                                 "&limit=" + std::to_string(std::min(kPage, count - first + 1))));
    hasher.update(page);
    out.write(page.data(), static_cast<std::streamsize>(page.size()));
  }
  out.close();
  if (!out) return unwritable(folder + "/" + kEntries);
  return hasher.finish().hex();
}

std::string stated_hash(const Value& manifest, std::string_view path) {
  for (const Value& file : items(manifest["files"])) {
    if (file.text("path") == path) return file.text("sha256");
  }
  return "";
}

}  // namespace

Status export_evidence(const Session& session, const std::string& folder) {
  struct stat there {};
  if (::lstat(folder.c_str(), &there) == 0) return taken(folder);
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply =
      FALAJ_TRY(connection->call(net::Method::kPost, "/api/v1/evidence", Value::object()));
  if (!reply["files"].is_object()) {
    return Error{Code::kInternal, "the server's answer holds no files"};
  }
  // Only now: what is refused leaves nothing behind.
  if (::mkdir(folder.c_str(), 0700) != 0) {
    return errno == EEXIST ? taken(folder) : unwritable(folder);
  }
  for (const auto& [path, content] : reply["files"].as_object()) {
    std::ofstream out = FALAJ_TRY(create(folder, path));
    if (content.is_string()) out << content.as_string();
    out.close();
    if (!out) return unwritable(folder + "/" + path);
  }
  const std::int64_t entries = reply.integer("entries");
  const std::string hash = FALAJ_TRY(write_entries(*connection, folder, entries));
  const Value manifest = FALAJ_TRY(parse_json(reply["files"].text("manifest.json")));
  if (hash != stated_hash(manifest, kEntries)) {
    return Error{ErrorId::kAuditBroken,
                 "the entries that came are not those of the manifest: export again"};
  }
  Value shown;
  shown["folder"] = folder;
  shown["entries"] = entries;
  shown["origin"] = manifest["origin"];
  shown["files"] = static_cast<std::int64_t>(items(manifest["files"]).size()) + 2;
  print(session.format, shown,
        folder + ": " + std::to_string(entries) + " audit entries and " + cell(shown["files"]) +
            " files\nCheck it anywhere with: falaj-verify bundle " + folder +
            " --key KEY   (falaj audit key)\n");
  return {};
}

}  // namespace falaj::cli
