// export-set.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/byte_stream.h"
#include "base/descriptor.h"
#include "cli/commands.h"
#include "crypto/random.h"

namespace falaj::cli {
namespace {

constexpr std::int64_t kKeyFileMax = 4096;

Error cannot_write(const std::string& path) {
  return Error{Code::kInvalidArgument, path + ": " + std::strerror(errno)};
}

// For its owner only; never over a file that is there.
Status write_new(const std::string& path, std::string_view bytes) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return cannot_write(path);
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return cannot_write(path);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Result<std::string> take_key(const std::string& path) {
  const auto file = open_local_file(path);
  if (!file.ok() && file.error().code == Code::kNotFound) {
    std::string key = crypto::system_random().hex_id(crypto::kKeyBytes);
    FALAJ_TRY(write_new(path, key + "\n"));
    return key;
  }
  if (!file.ok()) return file.error();
  const std::string text = FALAJ_TRY(read_whole(**file, kKeyFileMax));
  return text.substr(0, text.find_first_of("\r\n"));
}

}  // namespace

Status export_set(const Session& session, const ExportChoice& choice) {
  if (::access(choice.out.c_str(), F_OK) == 0) {
    return Error{Code::kConflict, choice.out + " exists already: name another file"};
  }
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value body;
  body["key"] = FALAJ_TRY(take_key(choice.key_file));
  if (!choice.id.empty()) body["id"] = choice.id;
  const net::ClientReply reply = FALAJ_TRY(connection->raw(
      net::Method::kPost, "/api/v1/training-sets/" + url_encode(choice.set) + ":export", body));
  FALAJ_TRY(write_new(choice.out, reply.body));
  Value told;
  told["file"] = choice.out;
  told["bytes"] = reply.body.size();
  told["key_file"] = choice.key_file;
  told["aad_prefix"] = std::string(net::find_header(reply.headers, "Falaj-Aad-Prefix"));
  print(session.format, told,
        choice.out + " (" + cell(told["bytes"]) + " bytes), key in " + choice.key_file +
            ", AAD prefix " + told.text("aad_prefix") + "\n");
  return {};
}

}  // namespace falaj::cli
