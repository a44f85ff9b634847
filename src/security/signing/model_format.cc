#include "security/signing/model_format.h"

#include <array>
#include <string>

#include "base/json.h"
#include "onnx/foreign.h"

namespace falaj::security {
namespace {

struct Mark {
  std::string_view bytes;
  std::string_view what;
};

using namespace std::string_view_literals;

// First bytes of what people try: each can carry code, or hide what it holds.
constexpr std::array kRefused = {
    Mark{"PK\x03\x04"sv, "a zip archive (Keras, PyTorch, a .mar model archive or a joblib bundle)"},
    Mark{"PK\x05\x06"sv, "an empty zip archive"},
    Mark{"\x89HDF\r\n\x1a\n"sv, "an HDF5 file (Keras), which can carry code"},
    Mark{"\x1f\x8b"sv, "a gzip file"},
    Mark{"BZh"sv, "a bzip2 file"},
    Mark{"\xfd"
         "7zXZ\0"sv,
         "an xz file"},
    Mark{"\x28\xb5\x2f\xfd"sv, "a zstd file"},
    Mark{"\x78\x9c"sv, "a zlib stream (joblib)"},
    Mark{"\x78\x01"sv, "a zlib stream (joblib)"},
    Mark{"\x78\xda"sv, "a zlib stream (joblib)"},
    Mark{"ZF0x"sv, "a joblib file"},
    Mark{"\x93NUMPY"sv, "a NumPy file, which can carry pickled objects"},
    Mark{"GGUF"sv, "a GGUF file"},
    Mark{"\x7f"
         "ELF"sv,
         "a program"},
    Mark{"MZ"sv, "a program"},
    Mark{"#!"sv, "a script"},
    Mark{"<?xml"sv, "an XML document"},
};

Error refused(std::string_view what) {
  return Error{ErrorId::kModelFormatRefused,
               "the file is " + std::string(what) +
                   ", which is not accepted as a model; bring ONNX, or LightGBM's text or "
                   "XGBoost's JSON"};
}

// Protocols 2 to 5 begin with 0x80 and their number; protocols 0 and 1 are text whose last byte
// stops the machine and which call for a global by a line of its own.
bool is_pickle(std::string_view bytes) {
  if (bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 1 && bytes[1] <= 5) return true;
  if (!bytes.ends_with('.') || bytes.empty()) return false;
  const bool opens = bytes[0] == '(' || bytes[0] == 'c' || bytes[0] == ']' || bytes[0] == '}' ||
                     bytes[0] == 'i' || bytes[0] == 'I';
  return opens && bytes.find('\n') != std::string_view::npos;
}

bool is_tar(std::string_view bytes) {
  return bytes.size() > 262 && bytes.substr(257, 5) == "ustar";
}

// XGBoost's JSON: {"learner": {…}, "version": [major, minor, patch]} and nothing else.
Status check_xgboost(std::string_view bytes) {
  const Result<Value> parsed = parse_json(bytes);
  if (!parsed.ok()) return refused("JSON that cannot be read (" + parsed.error().message + ")");
  const Value& value = parsed.value();
  if (!value.is_object() || !value["learner"].is_object() || !value["version"].is_array()) {
    return refused("JSON, but no XGBoost model: it lacks 'learner' or 'version'");
  }
  for (const auto& [name, member] : value.as_object()) {
    if (name != "learner" && name != "version") {
      return refused("XGBoost's JSON with the unknown member '" + name.substr(0, 64) + "'");
    }
  }
  return {};
}

}  // namespace

std::string_view format_name(ModelFormat format) {
  switch (format) {
    case ModelFormat::kOnnx:
      return "onnx";
    case ModelFormat::kLightGbmText:
      return "lightgbm";
    case ModelFormat::kXgboostJson:
      return "xgboost";
  }
  return "";
}

Result<ModelFormat> recognise_model(std::string_view bytes) {
  if (bytes.empty()) return refused("empty");
  for (const Mark& mark : kRefused) {
    if (bytes.starts_with(mark.bytes)) return refused(mark.what);
  }
  if (is_pickle(bytes)) return refused("a Python pickle, which runs code when it is opened");
  if (is_tar(bytes)) return refused("a tar archive");
  if (bytes.starts_with("tree\nversion=")) {
    if (bytes.find('\0') != std::string_view::npos)
      return refused("no text, for all its first line");
    return ModelFormat::kLightGbmText;
  }
  if (bytes.front() == '{') {
    FALAJ_TRY(check_xgboost(bytes));
    return ModelFormat::kXgboostJson;
  }
  FALAJ_TRY(onnx::check_foreign(bytes));
  return ModelFormat::kOnnx;
}

}  // namespace falaj::security
