#include "serving/isolated/model_message.h"

#include <gtest/gtest.h>

namespace falaj::serving::isolated {
namespace {

std::string body_of(const std::string& frame) {
  EXPECT_EQ(body_bytes(frame.substr(0, kFrameHeadBytes)).value(), frame.size() - kFrameHeadBytes);
  return frame.substr(kFrameHeadBytes);
}

const Tensor kTensor{"x", "FP32", {2, 1}, std::string("\0\0\0\0\1\2\3\4", 8)};

TEST(ModelMessage, questions_come_back_as_they_were) {
  const auto run = parse_question(body_of(frame_of_run({&kTensor, 1}).value())).value();
  const auto& inputs = std::get<std::vector<Tensor>>(run);
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_EQ(inputs[0].datatype, "FP32");
  EXPECT_EQ(inputs[0].shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(inputs[0].bytes, kTensor.bytes);
  const std::vector<float> matrix{1, 2, 3, 4};
  const auto score = parse_question(body_of(frame_of_score(matrix, 2).value())).value();
  EXPECT_EQ(std::get<ScoreQuestion>(score).columns, 2u);
  EXPECT_EQ(std::get<ScoreQuestion>(score).matrix, matrix);
}

TEST(ModelMessage, answers_come_back_as_they_were) {
  const Answer scores = std::vector<float>{1.5F, -2};
  const auto read = parse_answer(body_of(frame_of_answer(scores).value())).value();
  EXPECT_EQ(std::get<std::vector<float>>(*read), std::get<std::vector<float>>(scores));
  const Answer outputs = std::vector<Tensor>{kTensor, kTensor};
  const auto both = parse_answer(body_of(frame_of_answer(outputs).value())).value();
  EXPECT_EQ(std::get<std::vector<Tensor>>(*both).size(), 2u);
}

TEST(ModelMessage, of_errors_only_those_about_inputs_keep_their_id) {
  const auto told = [](ErrorId id) {
    return parse_answer(body_of(frame_of_answer(Error(id, "why")).value())).value().error();
  };
  EXPECT_EQ(told(ErrorId::kTensorMismatch), Error(ErrorId::kTensorMismatch, "why"));
  EXPECT_EQ(told(ErrorId::kPermissionDenied), Error(ErrorId::kInternal, "why"));
}

TEST(ModelMessage, whatever_is_cut_or_added_is_refused) {
  const std::string run = body_of(frame_of_run({&kTensor, 1}).value());
  const std::string answer = body_of(frame_of_answer(Answer(std::vector<float>{1})).value());
  for (std::size_t size = 0; size < run.size(); ++size) {
    EXPECT_FALSE(parse_question(run.substr(0, size)).ok()) << size;
  }
  for (std::size_t size = 0; size < answer.size(); ++size) {
    EXPECT_FALSE(parse_answer(answer.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(parse_question(run + "x").ok());
  EXPECT_FALSE(parse_answer(answer + "x").ok());
  EXPECT_FALSE(parse_question(answer).ok()) << "an answer is no question";
  EXPECT_FALSE(parse_answer(run).ok());
}

TEST(ModelMessage, frames_are_bounded) {
  EXPECT_FALSE(body_bytes("\xff\xff\xff\xff").ok());
  EXPECT_FALSE(body_bytes("\1\0").ok());
  std::string many(1, '\1');
  many += std::string("\xff\xff\xff\x7f", 4);  // Tensors.
  EXPECT_FALSE(parse_question(many).ok());
}

}  // namespace
}  // namespace falaj::serving::isolated
