#include "jobs/oci/layout.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/descriptor.h"
#include "base/hash.h"
#include "base/json.h"

namespace falaj::jobs::oci {
namespace {

constexpr std::size_t kTextMax = 4u << 20;
constexpr std::size_t kLayersMax = 128;
constexpr std::size_t kEnvMax = 256;
constexpr std::size_t kManifestsMax = 256;
constexpr int kDepthMax = 32;
#if defined(__aarch64__)
constexpr std::string_view kArchitecture = "arm64";
#else
constexpr std::string_view kArchitecture = "amd64";
#endif

Error refused(const std::string& what) { return Error(ErrorId::kImageRefused, what); }

Result<Value> parse_object(std::string_view text, const std::string& what) {
  auto value = parse_json(text, {kTextMax, kDepthMax});
  if (!value.ok()) return refused("the image's " + what + " is no JSON: " + value.error().message);
  if (!value->is_object()) return refused("the image's " + what + " is no JSON object");
  return value;
}

Result<Blob> blob_of(const Value& value, const std::string& what) {
  if (!value.is_object() || !value["digest"].is_string() || !value["size"].is_int()) {
    return refused("the image names a " + what + " without digest and size");
  }
  Blob out;
  out.media_type = value.text("mediaType");
  out.digest = FALAJ_TRY(parse_digest(value.text("digest")));
  out.size = value.integer("size");
  if (out.size < 0) return refused("the image names a " + what + " of a negative size");
  return out;
}

const Value::Array& list_of(const Value& value) {
  static const Value::Array none;
  return value.is_array() ? value.as_array() : none;
}

bool is_ours(const Value& manifest) {
  const Value& platform = manifest["platform"];
  return !platform.is_object() ||
         (platform.text("os") == "linux" && platform.text("architecture") == kArchitecture);
}

// A small blob, whole, and what its digest says.
Result<std::string> read_blob(const std::string& layout, const std::string& digest) {
  const std::string path = blob_path(layout, digest);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about {};
  if (!file.valid() || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) {
    return refused(
        "cannot read " + path + ": " + std::strerror(errno) +
        "; the folder holds blobs/sha256/… as 'skopeo copy' and 'buildah push' write it");
  }
  if (about.st_size > static_cast<off_t>(kTextMax)) return refused(path + " is too long");
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return refused("cannot read " + path);
    done += static_cast<std::size_t>(got);
  }
  if (sha256_hex(text) != digest) return refused(path + " is not what its name says");
  return text;
}

}  // namespace

Result<std::string> parse_digest(std::string_view text) {
  constexpr std::string_view kBegin = "sha256:";
  const std::string_view digits = text.substr(std::min(kBegin.size(), text.size()));
  if (!text.starts_with(kBegin) || digits.size() != 64 ||
      digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return refused("'" + std::string(text.substr(0, 80)) +
                   "' is no digest: write sha256: and 64 digits");
  }
  return std::string(digits);
}

Result<Manifest> parse_manifest(std::string_view text) {
  const Value value = FALAJ_TRY(parse_object(text, "manifest"));
  Manifest out;
  const Value::Array& manifests = list_of(value["manifests"]);
  if (manifests.size() > kManifestsMax) return refused("the image's index is too long");
  for (const Value& each : manifests) {
    if (!each.is_object() || !is_ours(each)) continue;
    out.manifests.push_back(FALAJ_TRY(blob_of(each, "manifest")));
  }
  if (value["manifests"].is_array()) return out;
  out.config = FALAJ_TRY(blob_of(value["config"], "configuration"));
  const Value::Array& layers = list_of(value["layers"]);
  if (layers.empty() || layers.size() > kLayersMax) {
    return refused("the image has " + std::to_string(layers.size()) +
                   " layers: 1 to 128 are taken");
  }
  for (const Value& layer : layers) out.layers.push_back(FALAJ_TRY(blob_of(layer, "layer")));
  return out;
}

Result<ImageConfig> parse_image_config(std::string_view text) {
  const Value value = FALAJ_TRY(parse_object(text, "configuration"));
  const std::string os = value.text("os");
  const std::string architecture = value.text("architecture");
  if (os != "linux" || architecture != kArchitecture) {
    return refused("the image is for " + os + "/" + architecture + " and this machine is linux/" +
                   std::string(kArchitecture));
  }
  ImageConfig out;
  for (const Value& each : list_of(value["config"]["Env"])) {
    if (!each.is_string() || each.as_string().find('=') == std::string::npos ||
        each.as_string().find('\0') != std::string::npos || out.env.size() >= kEnvMax) {
      return refused("the image's environment cannot be used");
    }
    out.env.push_back(each.as_string());
  }
  for (const Value& each : list_of(value["rootfs"]["diff_ids"])) {
    if (!each.is_string() || out.diff_ids.size() >= kLayersMax) {
      return refused("the image's diff_ids cannot be used");
    }
    out.diff_ids.push_back(FALAJ_TRY(parse_digest(each.as_string())));
  }
  return out;
}

std::string blob_path(const std::string& layout, const std::string& digest) {
  return layout + "/blobs/sha256/" + digest;
}

Result<Image> read_image(const std::string& layout, const std::string& digest) {
  std::string text = FALAJ_TRY(read_blob(layout, digest));
  Manifest manifest = FALAJ_TRY(parse_manifest(text));
  if (manifest.layers.empty()) {
    if (manifest.manifests.empty()) {
      return refused("the image's index has none for linux/" + std::string(kArchitecture));
    }
    text = FALAJ_TRY(read_blob(layout, manifest.manifests.front().digest));
    manifest = FALAJ_TRY(parse_manifest(text));
    if (manifest.layers.empty()) return refused("the image's index names another index");
  }
  Image out;
  text = FALAJ_TRY(read_blob(layout, manifest.config.digest));
  out.config = FALAJ_TRY(parse_image_config(text));
  out.layers = std::move(manifest.layers);
  if (out.config.diff_ids.size() != out.layers.size()) {
    return refused("the image has " + std::to_string(out.layers.size()) + " layers and " +
                   std::to_string(out.config.diff_ids.size()) + " diff_ids");
  }
  return out;
}

}  // namespace falaj::jobs::oci
