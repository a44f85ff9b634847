// What leaves the server as a file: frozen training sets, encrypted, and models.
#include <charconv>

#include "api/native/exchange.h"
#include "api/native/services.h"
#include "base/decode.h"

namespace falaj::api {
namespace {

// 32, 48 or 64 hexadecimal digits.
Result<std::string> key_from(const std::string& text) {
  const auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string key;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    const int high = value(text[i]);
    const int low = value(text[i + 1]);
    if (high < 0 || low < 0) break;
    key.push_back(static_cast<char>(high << 4 | low));
  }
  const bool whole = key.size() * 2 == text.size();
  if (whole && (key.size() == 16 || key.size() == 24 || key.size() == 32)) return key;
  return Error{ErrorId::kInvalidArgument,
               "key: 32, 48 or 64 lower-case hexadecimal digits, made at random for this export"};
}

// Which frozen set is asked for. Who may take it out may not take out by it the rows of a view that
// is forbidden to them: its label may have come after the freezing.
Result<std::string> checked_id(Services& services, const net::Request& request,
                               const features::ExportRequest& wanted) {
  const ProjectName project = project_of(request);
  const features::Manifest set =
      FALAJ_TRY(wanted.id.empty() ? services.training_sets.latest(project, wanted.name)
                                  : services.training_sets.by_id(project, wanted.id));
  for (const std::string& versioned : set.views) {  // "customer_activity@3"
    const std::string view = versioned.substr(0, versioned.rfind('@'));
    FALAJ_TRY(check(request, "data.export", {project.str(), "FeatureView", view, nullptr}));
  }
  return set.id;
}

Result<features::ExportedSet> exported(Services& services, const net::Request& request) {
  const security::RequestContext context = FALAJ_TRY(context_of(request, services.catalog));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "export");
  features::ExportRequest wanted;
  wanted.name = request.params.find("name")->second;
  wanted.id = FALAJ_TRY(fields.text("id"));
  wanted.key = FALAJ_TRY(key_from(FALAJ_TRY(fields.required_text("key"))));
  FALAJ_TRY(fields.finish());
  wanted.id = FALAJ_TRY(checked_id(services, request, wanted));
  return services.export_set(context, wanted);
}

net::Response export_reply(Services& services, const net::Request& request) {
  Result<features::ExportedSet> set = exported(services, request);
  if (!set.ok()) return net::problem(set.error(), request);
  net::Response response;
  response.content_type = "application/vnd.apache.parquet";
  response.headers.emplace_back("Falaj-Aad-Prefix", set->manifest.id);
  response.body = std::move(set->parquet);
  return response;
}

Result<std::string> model_file(Services& services, const net::Request& request,
                               registry::ModelFile file) {
  const security::RequestContext context = FALAJ_TRY(context_of(request, services.catalog));
  registry::ModelFileRequest wanted{request.params.find("name")->second, 0, file};
  const std::string& text = request.params.find("version")->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wanted.version);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return Error{ErrorId::kInvalidArgument, "'" + text + "' is no version: a whole number"};
  }
  return services.export_model(context, wanted);
}

net::Route file_route(Services& services, const char* path, const char* summary,
                      registry::ModelFile file) {
  net::Route route(net::Method::kGet, path, net::Permission("data.export"),
                   net::Target::object("Model", "name"), summary,
                   [&services, file](const net::Request& request) {
                     Result<std::string> bytes = model_file(services, request, file);
                     if (!bytes.ok()) return net::problem(bytes.error(), request);
                     net::Response response;
                     response.content_type = "application/octet-stream";
                     response.body = std::move(bytes).value();
                     return response;
                   });
  route.gives = net::Gives::kFile;
  return route;
}

}  // namespace

std::vector<net::Route> export_routes(Services& services) {
  std::vector<net::Route> routes;
  routes.push_back(net::Route(
      net::Method::kPost, "/api/v1/training-sets/{name}:export", net::Permission("data.export"),
      net::Target::object("TrainingSet", "name"),
      "A frozen set as Parquet, encrypted (AES_GCM_V1) with the key of the body: {key, id?}. The "
      "header Falaj-Aad-Prefix is needed to read it.",
      [&services](const net::Request& request) { return export_reply(services, request); }));
  routes.back().gives = net::Gives::kFile;
  routes.push_back(file_route(services, "/api/v1/models/{name}/versions/{version}/onnx",
                              "The ONNX file of a model's version, as it was registered.",
                              registry::ModelFile::kOnnx));
  routes.push_back(
      file_route(services, "/api/v1/models/{name}/versions/{version}/native",
                 "The file of the engine that trained it (model.txt of its signature).",
                 registry::ModelFile::kNative));
  return routes;
}

}  // namespace falaj::api
