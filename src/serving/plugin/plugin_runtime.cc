#include "serving/plugin/plugin_runtime.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/decode.h"
#include "falaj/runtime.h"
#include "serving/input_order.h"

namespace falaj::serving {
namespace {

constexpr std::size_t kTensorsMax = 1024;
constexpr std::size_t kRowsPerRun = 4096;  // Bounds what one bulk run allocates.

// Where a library writes why it failed. What it leaves there may lack its end.
class Complaint {
 public:
  char* room() { return text_.data(); }
  std::string text() const {
    const std::string said(text_.data(), ::strnlen(text_.data(), text_.size()));
    return said.empty() ? "it did not say why" : said;
  }

 private:
  std::array<char, FALAJ_ERROR_BYTES> text_{};
};

Error unavailable(const std::string& path, const std::string& reason) {
  return Error(ErrorId::kRuntimeUnavailable, "runtime " + path + " cannot be used: " + reason);
}

// The file that `path` leads to, which only its owner, root or this user can have put there. That
// one is to be opened: a link on the way to it may be changed by then.
Result<std::string> trusted_file(const std::string& path) {
  const auto check = [&](const std::filesystem::path& each) -> Status {
    struct stat found {};
    if (::stat(each.c_str(), &found) != 0) {
      return unavailable(path, std::string(std::strerror(errno)) + ": " + each.string());
    }
    const bool sticky = S_ISDIR(found.st_mode) && (found.st_mode & S_ISVTX) != 0;
    if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !sticky) {
      return unavailable(
          path, "others may write " + each.string() + "; run: chmod go-w " + each.string());
    }
    if (found.st_uid != 0 && found.st_uid != ::geteuid()) {
      return unavailable(path, each.string() + " belongs to neither root nor the server's user");
    }
    return {};
  };
  std::error_code gone;
  const std::filesystem::path real = std::filesystem::canonical(path, gone);
  if (gone) return unavailable(path, gone.message());
  FALAJ_TRY(check(real));
  FALAJ_TRY(check(real.parent_path()));
  return real.string();
}

Status check_table(const std::string& path, const FalajRuntime* table) {
  if (table == nullptr) return unavailable(path, "falaj_runtime() returned nothing");
  if (table->version != FALAJ_RUNTIME_VERSION) {
    return unavailable(path, "it is of version " + std::to_string(table->version) +
                                 " of falaj/runtime.h, this server speaks " +
                                 std::to_string(FALAJ_RUNTIME_VERSION));
  }
  const bool whole = table->size >= sizeof(FalajRuntime) && table->name != nullptr &&
                     table->name_version != nullptr && table->load != nullptr &&
                     table->unload != nullptr && table->input_count != nullptr &&
                     table->output_count != nullptr && table->input != nullptr &&
                     table->output != nullptr && table->run != nullptr;
  if (!whole) return unavailable(path, "it leaves out a function of falaj/runtime.h");
  return {};
}

// Takes what a run gives, and believes none of it.
class Collector {
 public:
  explicit Collector(std::span<const registry::TensorSpec> specs) : specs_(specs) {
    outputs_.reserve(specs.size());
  }

  FalajOutputs port() { return {this, &Collector::give}; }

  // Why it was refused, or what came.
  Result<std::vector<Tensor>> finish() {
    if (trouble_.empty() && outputs_.size() != specs_.size()) {
      trouble_ = "output '" + specs_[outputs_.size()].name + "' was not given";
    }
    if (!trouble_.empty()) return Error(ErrorId::kInternal, "runtime: " + trouble_);
    return std::move(outputs_);
  }
  bool refused() const { return !trouble_.empty(); }

 private:
  static int give(void* context, const FalajTensor* tensor) {
    return static_cast<Collector*>(context)->take(tensor) ? 1 : 0;
  }

  bool take(const FalajTensor* tensor) {
    if (!trouble_.empty()) return false;
    if (outputs_.size() == specs_.size()) return refuse("more outputs than the model has");
    const registry::TensorSpec& spec = specs_[outputs_.size()];
    if (tensor == nullptr || tensor->datatype == nullptr || tensor->rank > FALAJ_RANK_MAX ||
        (tensor->shape == nullptr && tensor->rank > 0) ||
        (tensor->bytes == nullptr && tensor->bytes_size > 0)) {
      return refuse("output '" + spec.name + "' is no tensor");
    }
    if (spec.datatype != tensor->datatype) {
      return refuse("output '" + spec.name + "' is not " + spec.datatype + " as declared");
    }
    Tensor taken{spec.name, spec.datatype, {tensor->shape, tensor->shape + tensor->rank}, {}};
    const Result<std::size_t> count = element_count(taken.shape);
    const Result<Datatype> type = parse_datatype(spec.datatype);
    if (!count.ok() || !type.ok() || *count * element_bytes(*type) != tensor->bytes_size) {
      return refuse("output '" + spec.name + "' has other bytes than its shape needs");
    }
    if (tensor->bytes_size > 0) {
      taken.bytes.assign(static_cast<const char*>(tensor->bytes), tensor->bytes_size);
    }
    outputs_.push_back(std::move(taken));
    return true;
  }

  bool refuse(std::string why) {
    trouble_ = std::move(why);
    return false;
  }

  std::span<const registry::TensorSpec> specs_;
  std::vector<Tensor> outputs_;
  std::string trouble_;
};

FalajTensor borrowed(const Tensor& tensor) {
  return {tensor.name.c_str(), tensor.datatype.c_str(), tensor.shape.data(),
          tensor.shape.size(), tensor.bytes.data(),     tensor.bytes.size()};
}

class PluginSession final : public Session {
 public:
  static Result<std::unique_ptr<Session>> load(const FalajRuntime& table, std::string_view model,
                                               unsigned threads) {
    Complaint complaint;
    FalajSession* const raw =
        table.load(model.data(), model.size(), std::max(threads, 1U), complaint.room());
    if (raw == nullptr) {
      return Error(ErrorId::kModelCorrupt,
                   std::string("runtime ") + table.name + ": " + complaint.text())
          .within("load model");
    }
    std::unique_ptr<PluginSession> session(new PluginSession(table, raw));
    FALAJ_TRY(session->read_signature());
    FALAJ_TRY(session->find_score_output());
    return std::unique_ptr<Session>(std::move(session));
  }
  ~PluginSession() override { table_.unload(raw_); }
  PluginSession(const PluginSession&) = delete;
  PluginSession& operator=(const PluginSession&) = delete;

  const registry::Signature& signature() const override { return signature_; }

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
    std::vector<const Tensor*> ordered;
    FALAJ_TRY(order_inputs(signature_.inputs, types_, inputs, ordered));
    std::vector<FalajTensor> given;
    given.reserve(ordered.size());
    for (const Tensor* each : ordered) given.push_back(borrowed(*each));
    return run_raw(given);
  }

  Status score(std::span<const float> matrix, std::size_t columns,
               std::vector<float>& scores) const override {
    if (columns_ == 0 || columns != columns_ || matrix.size() % columns_ != 0) {
      return Error(ErrorId::kTensorMismatch,
                   columns_ == 0 ? "the model has no single float input and float output; use infer"
                                 : "the model takes rows of " + std::to_string(columns_) +
                                       " columns, got rows of " + std::to_string(columns));
    }
    scores.clear();
    scores.reserve(matrix.size() / columns_);
    while (!matrix.empty()) {
      const std::size_t rows = std::min(kRowsPerRun, matrix.size() / columns_);
      FALAJ_TRY(score_part(matrix.first(rows * columns_), rows, scores));
      matrix = matrix.subspan(rows * columns_);
    }
    return {};
  }

 private:
  PluginSession(const FalajRuntime& table, FalajSession* raw) : table_(table), raw_(raw) {}

  Result<std::vector<Tensor>> run_raw(std::span<const FalajTensor> given) const {
    Collector collector(signature_.outputs);
    const FalajOutputs port = collector.port();
    Complaint complaint;
    const int ran = table_.run(raw_, given.data(), given.size(), &port, complaint.room());
    if (ran == 0 && !collector.refused()) {
      return Error(ErrorId::kInternal,
                   std::string("runtime ") + table_.name + ": " + complaint.text());
    }
    return collector.finish();
  }

  using Describe = int (*)(const FalajSession*, std::size_t, FalajTensorSpec*, char*);

  Result<registry::TensorSpec> describe(Describe ask, std::size_t index) const {
    const auto corrupt = [&](const std::string& why) {
      return Error(ErrorId::kModelCorrupt, std::string("runtime ") + table_.name + ": " + why);
    };
    FalajTensorSpec told{};
    Complaint complaint;
    if (ask(raw_, index, &told, complaint.room()) == 0) return corrupt(complaint.text());
    registry::TensorSpec spec;
    spec.name.assign(told.name, ::strnlen(told.name, sizeof(told.name)));
    spec.datatype.assign(told.datatype, ::strnlen(told.datatype, sizeof(told.datatype)));
    if (spec.name.empty() || told.rank > FALAJ_RANK_MAX) return corrupt("a tensor has no form");
    const Result<Datatype> type = parse_datatype(spec.datatype);
    if (!type.ok() || *type == Datatype::kBytes) {
      return corrupt("'" + spec.name + "' is '" + spec.datatype + "', which it cannot be given");
    }
    spec.shape.assign(told.shape, told.shape + told.rank);
    for (std::int64_t& dimension : spec.shape) dimension = std::max<std::int64_t>(dimension, -1);
    return spec;
  }

  Status read_signature() {
    const std::size_t inputs = table_.input_count(raw_);
    const std::size_t outputs = table_.output_count(raw_);
    if (inputs == 0 || inputs > kTensorsMax || outputs == 0 || outputs > kTensorsMax) {
      return Error(ErrorId::kModelCorrupt, "the model has no inputs or outputs, or too many");
    }
    for (std::size_t i = 0; i < inputs; ++i) {
      signature_.inputs.push_back(FALAJ_TRY(describe(table_.input, i)));
      types_.push_back(FALAJ_TRY(parse_datatype(signature_.inputs.back().datatype)));
    }
    for (std::size_t i = 0; i < outputs; ++i) {
      signature_.outputs.push_back(FALAJ_TRY(describe(table_.output, i)));
    }
    return {};
  }

  // The form that score() serves, proven by one row of zeros, which warms the model too.
  Status find_score_output() {
    const registry::TensorSpec& input = signature_.inputs[0];
    if (signature_.inputs.size() != 1 || types_[0] != Datatype::kFp32 || input.shape.size() != 2 ||
        input.shape[0] > 1 || input.shape[1] <= 0) {
      return {};
    }
    const auto output =
        std::ranges::find(signature_.outputs, "FP32", &registry::TensorSpec::datatype);
    if (output == signature_.outputs.end()) return {};
    score_output_ = static_cast<std::size_t>(output - signature_.outputs.begin());
    columns_ = static_cast<std::size_t>(input.shape[1]);
    std::vector<float> scores;
    const Status scored = score(std::vector<float>(columns_), columns_, scores);
    if (!scored.ok()) return scored.error().within("warm-up");
    return {};
  }

  // The last column of the output of floats, a row each.
  Status score_part(std::span<const float> matrix, std::size_t rows,
                    std::vector<float>& scores) const {
    const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(rows),
                                            static_cast<std::int64_t>(columns_)};
    const FalajTensor given{signature_.inputs[0].name.c_str(),
                            "FP32",
                            shape.data(),
                            2,
                            matrix.data(),
                            matrix.size_bytes()};
    const std::vector<Tensor> answer = FALAJ_TRY(run_raw({&given, 1}));
    const std::string& bytes = answer[score_output_].bytes;
    const std::size_t width = bytes.size() / sizeof(float) / rows;
    if (width == 0 || width * rows * sizeof(float) != bytes.size()) {
      return Error(ErrorId::kTensorMismatch, "the model does not answer a score for each row");
    }
    for (std::size_t row = 0; row < rows; ++row) {
      float last = 0;
      std::memcpy(&last, bytes.data() + ((row + 1) * width - 1) * sizeof(float), sizeof(last));
      scores.push_back(last);
    }
    return {};
  }

  const FalajRuntime& table_;
  FalajSession* const raw_;
  registry::Signature signature_;
  std::vector<Datatype> types_;
  std::size_t columns_ = 0;  // 0: the model has another form, score() refuses.
  std::size_t score_output_ = 0;
};

class PluginRuntime final : public Runtime {
 public:
  PluginRuntime(const FalajRuntime& table, unsigned threads) : table_(table), threads_(threads) {}

  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    return PluginSession::load(table_, model, threads_);
  }
  std::string version() const override {
    return std::string(table_.name) + " " + table_.name_version;
  }

 private:
  const FalajRuntime& table_;
  unsigned threads_;
};

}  // namespace

Result<std::unique_ptr<Runtime>> open_plugin_runtime(const RuntimeOptions& options) {
  const std::string file = FALAJ_TRY(trusted_file(options.library));
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return unavailable(options.library, reason == nullptr ? "unknown reason" : reason);
  }
  void* const symbol = dlsym(handle, "falaj_runtime");
  if (symbol == nullptr) return unavailable(options.library, "it has no falaj_runtime");
  const FalajRuntime* const table = reinterpret_cast<const FalajRuntime* (*)()>(symbol)();
  FALAJ_TRY(check_table(options.library, table));
  return std::unique_ptr<Runtime>(std::make_unique<PluginRuntime>(*table, options.threads));
}

Result<std::map<std::string, std::string>> runtimes_of(std::string_view text) {
  std::map<std::string, std::string> libraries;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    const bool whole = equals != std::string_view::npos && part.substr(equals + 1).starts_with('/');
    if (part.starts_with("isolated")) {
      return Error(
          ErrorId::kInvalidArgument,
          "serving.runtimes: names that begin with 'isolated' are the server's own; give '" +
              std::string(part) + "' another");
    }
    if (!whole || !check_name("runtime", part.substr(0, equals)).ok()) {
      return Error(ErrorId::kInvalidArgument,
                   "serving.runtimes: '" + std::string(part) + "' is not NAME=/PATH/OF/LIBRARY.so");
    }
    const bool fresh = libraries.emplace(part.substr(0, equals), part.substr(equals + 1)).second;
    if (!fresh) {
      return Error(ErrorId::kInvalidArgument,
                   "serving.runtimes: '" + std::string(part.substr(0, equals)) + "' stands twice");
    }
  }
  return libraries;
}

}  // namespace falaj::serving
