#include "api/native/openapi.h"

#include <cctype>

namespace falaj::api {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// The {placeholders} of a path.
Value path_parameters(const std::string& path) {
  Value parameters = Value::array();
  for (std::size_t at = path.find('{'); at != std::string::npos; at = path.find('{', at + 1)) {
    Value parameter;
    parameter["in"] = "path";
    parameter["name"] = path.substr(at + 1, path.find('}', at) - at - 1);
    parameter["required"] = true;
    parameter["schema"]["type"] = "string";
    parameters.push(std::move(parameter));
  }
  return parameters;
}

Value operation_of(const net::Route& route) {
  Value operation;
  operation["summary"] = route.summary;
  operation["tags"].push(route.dialect);
  operation["x-permission"] = route.permission.action();
  operation["x-target"] = route.target.text();
  Value parameters = path_parameters(route.path);
  if (!parameters.as_array().empty()) operation["parameters"] = std::move(parameters);
  operation["responses"]["200"]["description"] = "Done.";
  operation["responses"]["default"]["description"] =
      route.dialect == "native" ? "Problem details (RFC 9457) with a stable code FJ-NNNN."
                                : "An error in the dialect's own form.";
  if (route.method == net::Method::kPost || route.method == net::Method::kPut) {
    const bool file = route.body_to == net::BodyTo::kFile;
    const char* type = file ? "application/octet-stream" : "application/json";
    operation["requestBody"]["content"][type]["schema"]["type"] = file ? "string" : "object";
    operation["requestBody"]["description"] =
        "At most " + std::to_string(route.body_bytes_max) + " bytes.";
  }
  return operation;
}

Value method_of(const net::GrpcMethod& method, const net::Route& asked) {
  Value value;
  value["path"] = asked.path;
  value["stream"] = method.kind == net::GrpcMethod::Kind::kStream;
  value["named"] = &asked == &method.declared && !asked.target.parameter().empty();
  value["summary"] = asked.summary;
  value["x-permission"] = asked.permission.action();
  value["x-target"] = asked.target.text();
  return value;
}

}  // namespace

Value openapi_document(const net::Router& router, const std::vector<net::GrpcMethod>& methods,
                       const std::string& version) {
  Value document;
  document["openapi"] = "3.1.0";
  document["info"]["title"] = "Falaj";
  document["info"]["version"] = version;
  document["paths"] = Value::object();
  for (const auto& route : router.routes()) {
    if (route->dialect == "console") continue;
    document["paths"][route->path][lower(net::method_name(route->method))] = operation_of(*route);
  }
  document["x-grpc"] = Value::array();
  for (const net::GrpcMethod& method : methods) {
    document["x-grpc"].push(method_of(method, method.declared));
    if (method.unnamed) document["x-grpc"].push(method_of(method, *method.unnamed));
  }
  return document;
}

}  // namespace falaj::api
