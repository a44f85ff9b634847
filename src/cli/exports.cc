// export-set.
#include <unistd.h>

#include "cli/commands.h"
#include "cli/local_file.h"

namespace falaj::cli {

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
