// certificates: issue, renew, authority.
#include "cli/commands.h"
#include "cli/local_file.h"
#include "crypto/x509.h"

namespace falaj::cli {
namespace {

// Asks for a certificate of a fresh key at `path`, and writes both into `file`.
Status fetch(const Session& session, const std::string& path, Value body, const std::string& file) {
  const crypto::CertificateRequest made = FALAJ_TRY(crypto::make_certificate_request());
  body["request"] = made.request_pem;
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->call(net::Method::kPost, path, body));
  if (reply.text("chain").empty()) {
    return Error{Code::kInternal, "the server's answer holds no certificate"};
  }
  std::string both(made.key_pem.view());
  both += reply.text("chain");
  const Status written = write_private(file, both);
  crypto::wipe(both);
  FALAJ_TRY(written);
  Value shown;
  shown["id"] = reply["id"];
  shown["not_after"] = reply["not_after"];
  shown["file"] = file;
  print(session.format, shown,
        file + ": " + reply.text("id") + " until " + reply.text("not_after") + "\n");
  return {};
}

}  // namespace

Status issue_certificate(const Session& session, const std::string& service,
                         const std::string& file) {
  Value body;
  body["service"] = service;
  return fetch(session, "/api/v1/certificates", std::move(body), file);
}

Status renew_certificate(const Session& session, const std::string& file) {
  const std::string present = FALAJ_TRY(read_text(file));
  const crypto::CertificateInfo info = FALAJ_TRY(crypto::read_certificate(present));
  const Duration life = info.not_after - info.not_before;
  const Timestamp due = info.not_before + Duration{life.nanos / 3 * 2};
  if (SystemClock().now() < due) {
    Value shown;
    shown["file"] = file;
    shown["not_after"] = to_rfc3339(info.not_after);
    print(session.format, shown,
          file + ": not yet due, good until " + to_rfc3339(info.not_after) + "; renewed from " +
              to_rfc3339(due) + "\n");
    return {};
  }
  Session own = session;
  own.target.certificate = file;
  return fetch(own, "/api/v1/certificates:renew", Value::object(), file);
}

Status show_processes(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/certificates"));
  Table table({"SERVICE", "ISSUED", "NOT AFTER", "REVOKED"});
  for (const Value& each : items(reply["processes"])) {
    table.add(
        {each.text("service"), each.text("issued"), each.text("not_after"), cell(each["revoked"])});
  }
  print(session.format, reply,
        table.empty() ? "no process was given a certificate\n" : table.str());
  return {};
}

Status revoke_process(const Session& session, const std::string& process) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value body;
  body["service"] = process;
  const Value reply =
      FALAJ_TRY(connection->call(net::Method::kPost, "/api/v1/certificates:revoke", body));
  print(session.format, reply, process + " is refused from now on, whatever it shows\n");
  return {};
}

Status show_authority(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/certificates/authority"));
  print(session.format, reply, reply.text("authority"));
  return {};
}

}  // namespace falaj::cli
