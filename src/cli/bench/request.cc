#include "cli/bench/request.h"

#include <random>

#include "base/json.h"

namespace falaj::cli::bench {
namespace {

constexpr std::int64_t kElementsMax = 1'000'000;

Error invalid(std::string text) { return Error(ErrorId::kInvalidArgument, std::move(text)); }

Result<Value> element_of(const std::string& datatype, std::mt19937_64& random) {
  const std::uint64_t drawn = random() % 1000;
  if (datatype == "FP32" || datatype == "FP64") return Value(static_cast<double>(drawn) / 100);
  if (datatype == "BOOL") return Value(drawn % 2 == 0);
  if (datatype == "BYTES") return Value("text " + std::to_string(drawn));
  if (datatype.starts_with("INT") || datatype.starts_with("UINT")) {
    return Value(static_cast<std::int64_t>(drawn % 100));  // Fits the smallest.
  }
  return invalid("input of type '" + datatype + "': give the request with -f");
}

Result<Value> input_of(const Value& spec, std::int64_t rows, std::mt19937_64& random) {
  Value input;
  input["name"] = spec.text("name");
  input["datatype"] = spec.text("datatype");
  input["shape"] = Value::array();
  input["data"] = Value::array();
  if (!spec["shape"].is_array()) return invalid("the model's metadata has an input without shape");
  std::int64_t elements = 1;
  for (const Value& dim : spec["shape"].as_array()) {
    if (!dim.is_int()) return invalid("the model's metadata has a shape without numbers");
    const bool first = input["shape"].as_array().empty();
    const std::int64_t size = dim.as_int() >= 0 ? dim.as_int() : (first ? rows : 1);
    if (size < 1 || size > kElementsMax / elements) {
      return invalid("input '" + spec.text("name") + "' would have none or over " +
                     std::to_string(kElementsMax) + " elements: give the request with -f");
    }
    elements *= size;
    input["shape"].push(size);
  }
  for (std::int64_t i = 0; i < elements; ++i) {
    input["data"].push(FALAJ_TRY(element_of(spec.text("datatype"), random)));
  }
  return input;
}

}  // namespace

Result<Address> split_address(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::size_t path = scheme == std::string_view::npos ? scheme : url.find('/', scheme + 3);
  if ((!url.starts_with("http://") && !url.starts_with("https://")) ||
      path == std::string_view::npos || path == scheme + 3 ||
      url.find_first_of(" \t\r\n#") != std::string_view::npos) {
    return invalid("'" + std::string(url.substr(0, 200)) +
                   "' is no address with a path, such as "
                   "http://127.0.0.1:7070/v2/models/fraud/infer");
  }
  return Address{std::string(url.substr(0, path)), std::string(url.substr(path))};
}

std::string metadata_target(std::string_view target) {
  constexpr std::string_view kModels = "/v2/models/";
  constexpr std::string_view kInfer = "/infer";
  const std::string_view path = target.substr(0, target.find('?'));
  if (!path.starts_with(kModels) || !path.ends_with(kInfer) ||
      path.size() <= kModels.size() + kInfer.size()) {
    return "";
  }
  return std::string(path.substr(0, path.size() - kInfer.size()));
}

Result<std::string> infer_body(const Value& metadata, std::int64_t rows) {
  std::mt19937_64 random(1);
  Value body;
  body["inputs"] = Value::array();
  if (!metadata["inputs"].is_array() || metadata["inputs"].as_array().empty()) {
    return invalid("the model's metadata lists no inputs");
  }
  for (const Value& spec : metadata["inputs"].as_array()) {
    body["inputs"].push(FALAJ_TRY(input_of(spec, rows, random)));
  }
  return to_json(body);
}

}  // namespace falaj::cli::bench
