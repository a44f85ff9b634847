#include "serving/isolated/model_message.h"

#include <bit>
#include <cstring>

namespace falaj::serving::isolated {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kTensorsMax = 1024;
constexpr std::size_t kRankMax = 64;
constexpr std::size_t kWordsMax = 1024;  // Of an error.

enum class Kind : std::uint8_t { kRun = 1, kScore = 2, kOutputs = 3, kScores = 4, kError = 5 };

Error broken() { return Error(Code::kInvalidArgument, "the message of a model is broken"); }

class Frame {
 public:
  explicit Frame(Kind kind) : bytes_(kFrameHeadBytes, '\0') { number(kind); }

  template <class Number>
  void number(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void text(std::string_view value) {
    number(static_cast<std::uint64_t>(value.size()));
    bytes_.append(value);
  }
  void floats(std::span<const float> values) {
    text({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  void tensors(std::span<const Tensor> all) {
    number(static_cast<std::uint32_t>(all.size()));
    for (const Tensor& each : all) {
      text(each.name);
      text(each.datatype);
      text({reinterpret_cast<const char*>(each.shape.data()),
            each.shape.size() * sizeof(std::int64_t)});
      text(each.bytes);
    }
  }

  Result<std::string> finish() && {
    const std::size_t body = bytes_.size() - kFrameHeadBytes;
    if (body > kFrameBytesMax) {
      return Error(Code::kInvalidArgument,
                   "a model in a process of its own takes and gives at most " +
                       std::to_string(kFrameBytesMax >> 20) + " MiB at once");
    }
    const auto length = static_cast<std::uint32_t>(body);
    std::memcpy(bytes_.data(), &length, sizeof(length));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

// Reads from the front; once something was missing, everything is.
class Body {
 public:
  explicit Body(std::string_view bytes) : left_(bytes) {}

  template <class Number>
  Number number() {
    Number value{};
    const std::string_view bytes = take(sizeof(value));
    if (bytes.size() == sizeof(value)) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  std::string_view text() { return take(number<std::uint64_t>()); }

  template <class Number>
  std::vector<Number> numbers() {
    const std::string_view bytes = text();
    if (bytes.size() % sizeof(Number) != 0) whole_ = false;
    std::vector<Number> values(whole_ ? bytes.size() / sizeof(Number) : 0);
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<Tensor> tensors() {
    const auto count = number<std::uint32_t>();
    if (count > kTensorsMax) whole_ = false;
    std::vector<Tensor> all;
    for (std::uint32_t i = 0; i < count && whole_; ++i) {
      Tensor each;
      each.name = text();
      each.datatype = text();
      each.shape = numbers<std::int64_t>();
      if (each.shape.size() > kRankMax) whole_ = false;
      each.bytes = text();
      all.push_back(std::move(each));
    }
    return all;
  }
  // Whether all that was asked for was there, and nothing is left.
  bool finished() const { return whole_ && left_.empty(); }

 private:
  std::string_view take(std::uint64_t size) {
    if (!whole_ || size > left_.size()) {
      whole_ = false;
      return {};
    }
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  std::string_view left_;
  bool whole_ = true;
};

}  // namespace

Result<std::string> frame_of_run(std::span<const Tensor> inputs) {
  Frame frame(Kind::kRun);
  frame.tensors(inputs);
  return std::move(frame).finish();
}

Result<std::string> frame_of_score(std::span<const float> matrix, std::size_t columns) {
  Frame frame(Kind::kScore);
  frame.number(static_cast<std::uint64_t>(columns));
  frame.floats(matrix);
  return std::move(frame).finish();
}

Result<std::string> frame_of_answer(const Result<Answer>& answer) {
  if (!answer.ok()) {
    Frame frame(Kind::kError);
    frame.number(static_cast<std::uint16_t>(answer.error().id));
    frame.text(std::string_view(answer.error().message).substr(0, kWordsMax));
    return std::move(frame).finish();
  }
  if (const auto* scores = std::get_if<std::vector<float>>(&*answer)) {
    Frame frame(Kind::kScores);
    frame.floats(*scores);
    return std::move(frame).finish();
  }
  Frame frame(Kind::kOutputs);
  frame.tensors(std::get<std::vector<Tensor>>(*answer));
  return std::move(frame).finish();
}

Result<std::size_t> body_bytes(std::string_view head) {
  std::uint32_t length = 0;
  if (head.size() != kFrameHeadBytes) return broken();
  std::memcpy(&length, head.data(), sizeof(length));
  if (length > kFrameBytesMax) return broken();
  return static_cast<std::size_t>(length);
}

Result<Question> parse_question(std::string_view body) {
  Body read(body);
  const auto kind = read.number<Kind>();
  Question question;
  if (kind == Kind::kRun) {
    question = read.tensors();
  } else if (kind == Kind::kScore) {
    ScoreQuestion asked;
    asked.columns = read.number<std::uint64_t>();
    asked.matrix = read.numbers<float>();
    question = std::move(asked);
  } else {
    return broken();
  }
  if (!read.finished()) return broken();
  return question;
}

Result<Result<Answer>> parse_answer(std::string_view body) {
  Body read(body);
  const auto kind = read.number<Kind>();
  Result<Answer> answer = Answer();
  if (kind == Kind::kOutputs) {
    answer = Answer(read.tensors());
  } else if (kind == Kind::kScores) {
    answer = Answer(read.numbers<float>());
  } else if (kind == Kind::kError) {
    const auto id = static_cast<ErrorId>(read.number<std::uint16_t>());
    const std::string words(read.text().substr(0, kWordsMax));
    // Only what a model may say of its inputs is handed on as such.
    answer = Error(id == ErrorId::kTensorMismatch ? id : ErrorId::kInternal, words);
  } else {
    return broken();
  }
  if (!read.finished()) return broken();
  return answer;
}

}  // namespace falaj::serving::isolated
