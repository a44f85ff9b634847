// Runs one fuzz target without libFuzzer: every saved input, then mutations of them from a fixed
// seed. What CI does with every parser in the sanitized build, on any compiler; `./dev fuzz` does
// the long runs with coverage feedback.
//
// usage: x_fuzz [-runs=N] [-seed=S] [-max_len=L] FILE_OR_FOLDER...
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::string;

struct Options {
  std::uint64_t runs = 2000;
  std::uint64_t seed = 1;
  std::size_t max_len = 4096;  // Or the longest saved input.
  std::vector<Bytes> inputs;
};

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void add_inputs(const std::filesystem::path& path, std::vector<Bytes>& inputs) {
  if (!std::filesystem::is_directory(path)) {
    inputs.push_back(read_file(path));
    return;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry);
  std::sort(files.begin(), files.end());  // The same order on every machine: the same run.
  for (const auto& file : files) add_inputs(file, inputs);
}

bool take_number(std::string_view word, std::string_view name, std::uint64_t& value) {
  if (!word.starts_with(name)) return false;
  value = std::strtoull(word.data() + name.size(), nullptr, 10);
  return true;
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    std::uint64_t max_len = 0;
    if (take_number(word, "-runs=", options.runs)) continue;
    if (take_number(word, "-seed=", options.seed)) continue;
    if (take_number(word, "-max_len=", max_len)) {
      options.max_len = static_cast<std::size_t>(max_len);
      continue;
    }
    add_inputs(argv[i], options.inputs);
  }
  if (options.inputs.empty()) options.inputs.emplace_back();
  if (options.max_len == Options{}.max_len) {
    for (const Bytes& input : options.inputs) {
      options.max_len = std::max(options.max_len, input.size());
    }
  }
  return options;
}

class Mutator {
 public:
  Mutator(std::uint64_t seed, const std::vector<Bytes>& inputs) : random_(seed), inputs_(inputs) {}

  Bytes next(std::size_t max_len) {
    Bytes bytes = inputs_[below(inputs_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(bytes);
    if (bytes.size() > max_len) bytes.resize(max_len);
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  char byte() { return static_cast<char>(random_() & 0xff); }

  void change(Bytes& bytes) {
    const std::size_t at = below(bytes.size() + 1);
    switch (below(7)) {
      case 0:  // One bit.
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:  // One byte, often a troublesome one.
        if (at < bytes.size()) bytes[at] = troublesome();
        break;
      case 2:
        bytes.insert(at, 1 + below(8), troublesome());
        break;
      case 3:
        bytes.erase(at, 1 + below(8));
        break;
      case 4:  // Truncated.
        bytes.resize(at);
        break;
      case 5: {  // A piece of itself once more: nesting, duplicates.
        const Bytes piece = bytes.substr(at, 1 + below(64));
        bytes.insert(below(bytes.size() + 1), piece);
        break;
      }
      default: {  // Spliced with another input.
        const Bytes& other = inputs_[below(inputs_.size())];
        bytes = bytes.substr(0, at) + other.substr(below(other.size() + 1));
      }
    }
  }

  char troublesome() {
    using std::string_view_literals::operator""sv;
    static constexpr std::string_view kBytes = "\0\xff\x7f\x80\"\\{}[]:,\r\n.%-0eE\xc3"sv;
    return below(2) == 0 ? byte() : kBytes[below(kBytes.size())];
  }

  std::mt19937_64 random_;
  const std::vector<Bytes>& inputs_;
};

// On its own heap block of the exact size, so that the sanitizer sees one byte too far.
void run(const Bytes& bytes) {
  const std::vector<std::uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  for (const Bytes& input : options.inputs) run(input);
  Mutator mutator(options.seed, options.inputs);
  for (std::uint64_t i = 0; i < options.runs; ++i) run(mutator.next(options.max_len));
  std::printf("%zu saved inputs and %llu mutations, seed %llu: no fault\n", options.inputs.size(),
              static_cast<unsigned long long>(options.runs),
              static_cast<unsigned long long>(options.seed));
  return 0;
}
