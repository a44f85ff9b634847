// serving/isolated/model_message.h — what the server and the process of a model say to each other.
//
// A question and its answer, in turn, each a frame: its length (four bytes) and its body. Numbers
// are little-endian. The body of a question begins with what is asked, that of an answer with
// whether it is one. The process may be anybody's by the time it answers: nothing of an answer is
// believed before it was read to its end. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "serving/runtime.h"

namespace falaj::serving::isolated {

constexpr std::size_t kFrameHeadBytes = 4;
constexpr std::size_t kFrameBytesMax = std::size_t{256} << 20;  // Of a body.

struct ScoreQuestion {
  std::size_t columns = 0;
  std::vector<float> matrix;
};
using Question = std::variant<std::vector<Tensor>, ScoreQuestion>;
// What the model said: all outputs, or a score a row.
using Answer = std::variant<std::vector<Tensor>, std::vector<float>>;

// Whole frames. kInvalidArgument when one would be over the limit.
Result<std::string> frame_of_run(std::span<const Tensor> inputs);
Result<std::string> frame_of_score(std::span<const float> matrix, std::size_t columns);
Result<std::string> frame_of_answer(const Result<Answer>& answer);

// How long the body is, from the head of a frame; kInvalidArgument past the limit.
Result<std::size_t> body_bytes(std::string_view head);

// Bodies. kInvalidArgument for anything but a whole one.
Result<Question> parse_question(std::string_view body);
// The error that the process told, with its id, is the error of the inner result.
Result<Result<Answer>> parse_answer(std::string_view body);

}  // namespace falaj::serving::isolated
