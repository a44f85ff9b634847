// How recorded requests lie in a segment: numbers of eight bytes, little-endian, and texts with
// their length in front.
#include <bit>
#include <cstring>

#include "serving/rollout/recordings.h"

namespace falaj::serving::rollout {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "FJRQ1\n";
constexpr std::uint64_t kEntities = 1;
constexpr std::uint64_t kTensors = 2;
constexpr std::uint64_t kNumber = 1;
constexpr std::uint64_t kText = 2;

void put(std::string& out, std::uint64_t number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof bytes);
}

void put(std::string& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  out += text;
}

void put(std::string& out, const EntityKeys& keys) {
  put(out, std::uint64_t{keys.size()});
  for (const auto& [name, part] : keys) {
    put(out, std::string_view(name));
    if (const auto* text = std::get_if<std::string>(&part)) {
      put(out, kText);
      put(out, std::string_view(*text));
    } else {
      put(out, kNumber);
      put(out, static_cast<std::uint64_t>(std::get<std::int64_t>(part)));
    }
  }
}

void put(std::string& out, const Tensor& tensor) {
  put(out, std::string_view(tensor.name));
  put(out, std::string_view(tensor.datatype));
  put(out, std::uint64_t{tensor.shape.size()});
  for (const std::int64_t size : tensor.shape) put(out, static_cast<std::uint64_t>(size));
  put(out, std::string_view(tensor.bytes));
}

Error damaged() {
  return Error(ErrorId::kDataLoss, "a segment of recorded requests cannot be read");
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  Result<std::uint64_t> number() {
    std::uint64_t value = 0;
    if (rest_.size() < sizeof value) return damaged();
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  // Of things that take `least` bytes each: no more than there can be.
  Result<std::size_t> count(std::size_t least) {
    const std::uint64_t value = FALAJ_TRY(number());
    if (value > rest_.size() / least) return damaged();
    return static_cast<std::size_t>(value);
  }
  Result<std::string> text() {
    const std::size_t size = FALAJ_TRY(count(1));
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

Result<EntityKeys> read_keys(Reader& reader) {
  EntityKeys keys(FALAJ_TRY(reader.count(24)));
  for (auto& [name, part] : keys) {
    name = FALAJ_TRY(reader.text());
    const std::uint64_t kind = FALAJ_TRY(reader.number());
    if (kind == kText) {
      part = FALAJ_TRY(reader.text());
    } else if (kind == kNumber) {
      part = static_cast<std::int64_t>(FALAJ_TRY(reader.number()));
    } else {
      return damaged();
    }
  }
  return keys;
}

Result<Tensor> read_tensor(Reader& reader) {
  Tensor tensor;
  tensor.name = FALAJ_TRY(reader.text());
  tensor.datatype = FALAJ_TRY(reader.text());
  tensor.shape.resize(FALAJ_TRY(reader.count(8)));
  for (std::int64_t& size : tensor.shape) {
    size = static_cast<std::int64_t>(FALAJ_TRY(reader.number()));
  }
  tensor.bytes = FALAJ_TRY(reader.text());
  return tensor;
}

Result<Asked> read_asked(Reader& reader) {
  const std::uint64_t kind = FALAJ_TRY(reader.number());
  if (kind == kEntities) {
    std::vector<EntityKeys> entities(FALAJ_TRY(reader.count(8)));
    for (EntityKeys& keys : entities) keys = FALAJ_TRY(read_keys(reader));
    return Asked(std::move(entities));
  }
  if (kind != kTensors) return damaged();
  std::vector<Tensor> tensors(FALAJ_TRY(reader.count(32)));
  for (Tensor& tensor : tensors) tensor = FALAJ_TRY(read_tensor(reader));
  return Asked(std::move(tensors));
}

}  // namespace

std::string encode_recorded(const std::vector<Recorded>& requests) {
  std::string out(kMagic);
  put(out, std::uint64_t{requests.size()});
  for (const Recorded& request : requests) {
    put(out, static_cast<std::uint64_t>(request.at.nanos));
    if (const auto* entities = std::get_if<std::vector<EntityKeys>>(&request.asked)) {
      put(out, kEntities);
      put(out, std::uint64_t{entities->size()});
      for (const EntityKeys& keys : *entities) put(out, keys);
    } else {
      const auto& tensors = std::get<std::vector<Tensor>>(request.asked);
      put(out, kTensors);
      put(out, std::uint64_t{tensors.size()});
      for (const Tensor& tensor : tensors) put(out, tensor);
    }
  }
  return out;
}

Result<std::vector<Recorded>> decode_recorded(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return damaged();
  Reader reader(bytes.substr(kMagic.size()));
  std::vector<Recorded> requests(FALAJ_TRY(reader.count(24)));
  for (Recorded& request : requests) {
    request.at = {static_cast<std::int64_t>(FALAJ_TRY(reader.number()))};
    request.asked = FALAJ_TRY(read_asked(reader));
  }
  if (!reader.done()) return damaged();
  return requests;
}

}  // namespace falaj::serving::rollout
