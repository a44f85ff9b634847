// Whatever arrives: no crash, bounded, and what is accepted means the same when written again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "serving/isolated/model_message.h"

namespace {

using namespace falaj::serving::isolated;

void check_answer(std::string_view bytes) {
  const auto answer = parse_answer(bytes);
  if (!answer.ok()) return;
  const std::string written = frame_of_answer(*answer).value();
  const auto again = parse_answer(std::string_view(written).substr(kFrameHeadBytes));
  FALAJ_CHECK(again.ok() && again->ok() == answer->ok());
  FALAJ_CHECK(frame_of_answer(*again).value() == written);
}

void check_question(std::string_view bytes) {
  const auto question = parse_question(bytes);
  if (!question.ok()) return;
  using Tensors = std::vector<falaj::serving::Tensor>;
  const auto* rows = std::get_if<ScoreQuestion>(&*question);
  const std::string written = (rows != nullptr ? frame_of_score(rows->matrix, rows->columns)
                                               : frame_of_run(std::get<Tensors>(*question)))
                                  .value();
  FALAJ_CHECK(std::string_view(written).substr(kFrameHeadBytes) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_question(bytes);
  check_answer(bytes);
  return 0;
}
