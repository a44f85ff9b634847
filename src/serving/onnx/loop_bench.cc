// The limit that bench/scenarios/serving.py holds the server against: ONNX Runtime called in a loop
// in one process, one row at a time, inputs and outputs bound once, nothing else between two runs.
//   loop_bench LIBRARY MODEL INPUT CALLERS SECONDS
// INPUT is one row of the model's only input (floats), its first dimension the rows. Prints
// {"per_s", "p50_ms", "p99_ms", "cpu_us", "answer"}.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "serving/onnx/onnx_library.h"

namespace falaj::serving {
namespace {

using Library = std::shared_ptr<const OnnxLibrary>;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "loop_bench: %s\n", why.c_str());
  std::exit(1);
}

void must(const Library& library, OrtStatus* status) {
  const Status checked = library->check(status, ErrorId::kInternal);
  if (!checked.ok()) give_up(checked.error().message);
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

OnnxPtr<OrtSession> open_model(const Library& library, const char* path) {
  const OrtApi& api = library->api();
  OrtSessionOptions* options = nullptr;
  must(library, api.CreateSessionOptions(&options));
  const auto owned = onnx_own(options, api.ReleaseSessionOptions);
  must(library, api.SetIntraOpNumThreads(options, 1));
  must(library, api.SetInterOpNumThreads(options, 1));
  OrtSession* session = nullptr;
  must(library, api.CreateSession(library->env(), path, options, &session));
  return onnx_own(session, api.ReleaseSession);
}

// One caller: its own tensors, bound once.
class Caller {
 public:
  Caller(Library library, OrtSession* session, std::vector<float> row)
      : library_(std::move(library)), session_(session), row_(std::move(row)) {
    const OrtApi& api = library_->api();
    OrtIoBinding* binding = nullptr;
    must(library_, api.CreateIoBinding(session, &binding));
    binding_ = onnx_own(binding, api.ReleaseIoBinding);
    must(library_, api.CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory_));
    bind_input();
    bind_output();
  }
  ~Caller() { library_->api().ReleaseMemoryInfo(memory_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void run() { must(library_, library_->api().RunWithBinding(session_, nullptr, binding_.get())); }

  void run_for(double seconds) {
    const double end = seconds_of(CLOCK_MONOTONIC) + seconds;
    double last = seconds_of(CLOCK_MONOTONIC);
    while (last < end) {
      run();
      const double now = seconds_of(CLOCK_MONOTONIC);
      times.push_back((now - last) * 1e3);
      last = now;
    }
  }

  std::vector<float> answer() {
    run();
    return result_;
  }

  std::vector<double> times;  // Milliseconds.

 private:
  std::string name_of(bool input) {
    const OrtApi& api = library_->api();
    OrtAllocator* allocator = nullptr;
    must(library_, api.GetAllocatorWithDefaultOptions(&allocator));
    char* text = nullptr;
    must(library_, input ? api.SessionGetInputName(session_, 0, allocator, &text)
                         : api.SessionGetOutputName(session_, 0, allocator, &text));
    std::string name = text;
    must(library_, api.AllocatorFree(allocator, text));
    return name;
  }

  std::vector<std::int64_t> shape_of(OrtTypeInfo* type) {
    const OrtApi& api = library_->api();
    const auto owned = onnx_own(type, api.ReleaseTypeInfo);
    const OrtTensorTypeAndShapeInfo* info = nullptr;
    must(library_, api.CastTypeInfoToTensorInfo(type, &info));
    std::size_t count = 0;
    must(library_, api.GetDimensionsCount(info, &count));
    std::vector<std::int64_t> shape(count);
    must(library_, api.GetDimensions(info, shape.data(), count));
    if (!shape.empty() && shape[0] < 0) shape[0] = 1;
    return shape;
  }

  OnnxPtr<OrtValue> tensor(std::vector<float>& values, const std::vector<std::int64_t>& shape) {
    const OrtApi& api = library_->api();
    OrtValue* made = nullptr;
    must(library_, api.CreateTensorWithDataAsOrtValue(
                       memory_, values.data(), values.size() * sizeof(float), shape.data(),
                       shape.size(), ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &made));
    return onnx_own(made, api.ReleaseValue);
  }

  void bind_input() {
    const OrtApi& api = library_->api();
    OrtTypeInfo* type = nullptr;
    must(library_, api.SessionGetInputTypeInfo(session_, 0, &type));
    given_ = tensor(row_, shape_of(type));
    must(library_, api.BindInput(binding_.get(), name_of(true).c_str(), given_.get()));
  }

  void bind_output() {
    const OrtApi& api = library_->api();
    OrtTypeInfo* type = nullptr;
    must(library_, api.SessionGetOutputTypeInfo(session_, 0, &type));
    const std::vector<std::int64_t> shape = shape_of(type);
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    result_.resize(count);
    made_ = tensor(result_, shape);
    must(library_, api.BindOutput(binding_.get(), name_of(false).c_str(), made_.get()));
  }

  Library library_;
  OrtSession* session_;
  OrtMemoryInfo* memory_ = nullptr;
  std::vector<float> row_, result_;
  OnnxPtr<OrtValue> given_, made_;
  OnnxPtr<OrtIoBinding> binding_;
};

std::vector<float> read_row(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.empty() || bytes.size() % sizeof(float) != 0) give_up(std::string("no row: ") + path);
  const auto* begin = reinterpret_cast<const float*>(bytes.data());
  return {begin, begin + bytes.size() / sizeof(float)};
}

void print(std::vector<std::unique_ptr<Caller>>& callers, double seconds, double cpu) {
  std::vector<double> times;
  for (const auto& caller : callers) {
    times.insert(times.end(), caller->times.begin(), caller->times.end());
  }
  std::sort(times.begin(), times.end());
  const auto count = static_cast<double>(times.size());
  const auto at = [&times](std::size_t percent) {
    return times[std::min(times.size() - 1, times.size() * percent / 100)];
  };
  std::printf(R"({"per_s": %.3f, "p50_ms": %.6f, "p99_ms": %.6f, "cpu_us": %.3f, "answer": [)",
              count / seconds, at(50), at(99), cpu / count * 1e6);
  const char* joint = "";
  for (const float value : callers[0]->answer()) {
    std::printf("%s%.9g", joint, static_cast<double>(value));
    joint = ", ";
  }
  std::printf("]}\n");
}

int run(char** words) {
  const auto library = OnnxLibrary::open(words[1]);
  if (!library.ok()) give_up(library.error().message);
  const auto session = open_model(*library, words[2]);
  const std::vector<float> row = read_row(words[3]);
  const double seconds = std::atof(words[5]);
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < std::atoi(words[4]); ++i) {
    callers.push_back(std::make_unique<Caller>(*library, session.get(), row));
    callers.back()->run();
  }
  if (callers.empty() || seconds <= 0) give_up("CALLERS and SECONDS must be over 0");
  const double begun = seconds_of(CLOCK_MONOTONIC);
  const double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  std::vector<std::thread> threads;
  for (const auto& caller : callers) {
    threads.emplace_back([&caller, seconds] { caller->run_for(seconds); });
  }
  for (std::thread& thread : threads) thread.join();
  print(callers, seconds_of(CLOCK_MONOTONIC) - begun, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  return 0;
}

}  // namespace
}  // namespace falaj::serving

int main(int count, char** words) {
  if (count != 6) {
    std::fprintf(stderr, "usage: loop_bench LIBRARY MODEL INPUT CALLERS SECONDS\n");
    return 2;
  }
  return falaj::serving::run(words);
}
