#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/json.h"
#include "training/internal/result_files.h"

namespace falaj::training {
namespace {

constexpr std::int64_t kJsonMax = std::int64_t{4} << 20;

Error unusable(const std::string& what) {
  return Error(ErrorId::kJobFailed,
               "the training process ended well but left no usable result: " + what);
}

// Closes on every way out.
struct Descriptor {
  explicit Descriptor(int n) : number(n) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int number;
};

}  // namespace

Result<std::string> read_left_file(const std::string& path, std::int64_t bytes_max) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) return unusable(path + ": " + std::strerror(errno));
  struct stat about {};
  if (::fstat(file.number, &about) != 0 || !S_ISREG(about.st_mode)) {
    return unusable(path + " is no regular file");
  }
  if (about.st_size > bytes_max) return unusable(path + " is too large");
  std::string bytes(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = ::read(file.number, bytes.data() + got, bytes.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return unusable(path + " cannot be read to its end");
    got += static_cast<std::size_t>(n);
  }
  return bytes;
}

Result<EngineResult> read_result(const std::string& folder,
                                 const std::vector<std::string>& features,
                                 std::int64_t verify_rows) {
  const auto value = parse_json(FALAJ_TRY(read_left_file(folder + "/result.json", kJsonMax)));
  if (!value.ok()) return unusable("result.json: " + value.error().message);
  EngineResult result;
  result.metrics = (*value)["metrics"];
  result.proof = (*value)["proof"];
  result.rounds = value->integer("rounds");
  auto signature = registry::signature_from_value((*value)["signature"]);
  if (!signature.ok()) return unusable(signature.error().message);
  result.signature = *std::move(signature);
  if (!result.metrics.is_object()) return unusable("result.json has no metrics");
  if (result.signature.features != features) {
    return unusable("the model has other features than its training set");
  }
  const std::int64_t rows = result.proof.integer("rows", 0);
  const std::int64_t mismatches = result.proof.integer("mismatches", -1);
  if (mismatches != 0 || rows < verify_rows) {
    return Error(ErrorId::kOnnxMismatch, "the proof covers " + std::to_string(rows) +
                                             " rows with " + std::to_string(mismatches) +
                                             " mismatches, where " + std::to_string(verify_rows) +
                                             " without any are needed; nothing is registered");
  }
  return result;
}

Error read_error(const std::string& folder, const Error& otherwise) {
  const auto bytes = read_left_file(folder + "/error.json", kJsonMax);
  if (!bytes.ok()) return otherwise;
  const auto value = parse_json(*bytes);
  if (!value.ok()) return otherwise;
  const ErrorInfo* info = find_error(value->text("code"));
  const std::string message = value->text("message");
  if (info == nullptr || message.empty()) return otherwise;
  return Error(info->id, message);
}

}  // namespace falaj::training
