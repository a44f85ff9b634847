#include "app/reference.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "app/program.h"
#include "cli/reference.h"
#include "security/access/roles.h"

namespace falaj::app {
namespace {

std::string route_row(std::string_view method, const net::Route& route) {
  return "| `" + std::string(method) + "` | `" + route.path + "` | `" + route.permission.action() +
         "` | " + route.target.text() + " | " + route.summary + " |\n";
}

std::string routes_page(const Program& program) {
  std::string page =
      "# Routes\n\nGenerated from the declarations in `src/api`. Each demands one permission "
      "(`permissions.md`) on what stands under *on*; `GET /openapi.json`\nserves the same list, "
      "with the gRPC methods under `x-grpc`. A method with two rows demands the second when its "
      "message\nnames nothing.\n";
  std::map<std::string, std::string> dialects;
  for (const auto& route : program.router().routes()) {
    if (route->path.starts_with("/assets/")) continue;  // Named by their hash: others each build.
    dialects[route->dialect] += route_row(net::method_name(route->method), *route);
  }
  for (const net::GrpcMethod& method : program.grpc_methods()) {
    const bool one = method.kind == net::GrpcMethod::Kind::kUnary;
    const std::string_view how = one ? "unary" : "stream";
    dialects["grpc"] += route_row(how, method.declared);
    if (method.unnamed) dialects["grpc"] += route_row(how, *method.unnamed);
  }
  for (const auto& [dialect, rows] : dialects) {
    page += "\n## " + dialect +
            "\n\n| method | path | permission | on | what |\n|---|---|---|---|---|\n" + rows;
  }
  return page;
}

std::string_view kind_name(telemetry::MetricKind kind) {
  switch (kind) {
    case telemetry::MetricKind::kCounter:
      return "counter";
    case telemetry::MetricKind::kGauge:
      return "gauge";
    case telemetry::MetricKind::kHistogram:
      return "histogram";
  }
  return "counter";
}

std::string metrics_page(const telemetry::Metrics& metrics) {
  std::string page =
      "# Metrics\n\nGenerated from the declarations; served at `GET /metrics` in Prometheus' text "
      "format.\n\n| metric | kind | labels | what |\n|---|---|---|---|\n";
  for (const telemetry::MetricInfo& info : metrics.declared()) {
    std::string labels;
    for (const std::string& label : info.labels) labels += (labels.empty() ? "" : ", ") + label;
    page += "| `" + info.name + "` | " + std::string(kind_name(info.kind)) + " | " + labels +
            " | " + info.help + " |\n";
  }
  return page;
}

std::string permissions_page() {
  namespace access = security::access;
  std::string page =
      "# Permissions\n\nGenerated from `src/security/access/roles.cc`. Every route demands one "
      "action on what it is done to; what no grant\npermits is denied. A grant gives a role, or "
      "actions by name.\n\n## Roles\n\n| role | what |\n|---|---|\n";
  for (const access::RoleInfo& info : access::roles()) {
    page += "| `" + std::string(info.name) + "` | " + std::string(info.meaning) + " |\n";
  }
  page += "\n## Actions\n\n| action | meaning |";
  std::string line = "\n|---|---|";
  for (const access::RoleInfo& info : access::roles()) {
    page += " " + std::string(info.name) + " |";
    line += "---|";
  }
  page += line + "\n";
  const access::ActionSet free = access::public_actions() | access::own_actions();
  for (unsigned i = 0; i < access::actions().size(); ++i) {
    const access::ActionInfo& action = access::actions()[i];
    page += "| `" + std::string(action.action) + "` | " + std::string(action.meaning) + " |";
    for (const access::RoleInfo& info : access::roles()) {
      page += free.contains(i) || access::actions_of(info.role).contains(i) ? " ● |" : " |";
    }
    page += "\n";
  }
  return page;
}

std::string kinds_page() {
  std::string page =
      "# Kinds\n\nGenerated from the modules that own them. `falaj apply -f` declares them; "
      "`docs/guides/objects.md` shows one of each.\n\n| kind | scope | what |\n|---|---|---|\n";
  for (const storage::KindInfo& info : all_kinds()) {
    page += "| `" + info.kind + "` | " +
            (info.scope == storage::Scope::kPlatform ? "platform" : "project") + " | " +
            info.summary + " |\n";
  }
  return page;
}

// A folder that goes with its last user.
class ScratchFolder {
 public:
  ScratchFolder() : path_(std::filesystem::temp_directory_path() / "falaj-reference-XXXXXX") {
    made_ = mkdtemp(path_.data()) != nullptr;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

}  // namespace

Result<std::string> reference_page(const std::string& page) {
  if (page == "settings") return cli::settings_page();
  if (page == "errors") return cli::errors_page();
  if (page == "permissions") return permissions_page();
  if (page == "kinds") return kinds_page();
  if (page != "routes" && page != "metrics") {
    return Error{Code::kNotFound, "no reference page '" + page +
                                      "': cli, settings, errors, permissions, kinds, routes or "
                                      "metrics"};
  }
  const ScratchFolder folder;
  const SystemClock clock;
  Options options;
  options.data_folder = folder.path();
  const auto program = FALAJ_TRY(Program::start(options, clock));
  return page == "routes" ? routes_page(*program) : metrics_page(program->metrics());
}

}  // namespace falaj::app
