#include "serving/isolated/model_process.h"

#include <thread>
#include <vector>

#include "base/byte_stream.h"
#include "base/descriptor.h"
#include "registry/models.h"
#include "serving/isolated/lane.h"
#include "serving/isolated/model_message.h"

namespace falaj::serving::isolated {
namespace {

Result<std::unique_ptr<Session>> load(Runtime& runtime) {
  const auto reader = FALAJ_TRY(open_descriptor(Descriptor(kModelDescriptor)));
  return runtime.load_bytes(FALAJ_TRY(read_whole(*reader)));
}

Result<Answer> answer_to(const Session& session, const Question& question) {
  if (const auto* inputs = std::get_if<std::vector<Tensor>>(&question)) {
    return Answer(FALAJ_TRY(session.run(*inputs)));
  }
  const auto& rows = std::get<ScoreQuestion>(question);
  std::vector<float> scores;
  FALAJ_TRY(session.score(rows.matrix, rows.columns, scores));
  return Answer(std::move(scores));
}

// Until the server closes the lane, or breaks off in the middle of a question.
void answer_lane(const Session& session, Descriptor lane) {
  while (true) {
    const Result<std::string> body = receive_frame(lane.get(), kNoLimit);
    if (!body.ok()) return;
    const Result<Question> question = parse_question(*body);
    if (!question.ok()) return;
    Result<std::string> frame = frame_of_answer(answer_to(session, *question));
    if (!frame.ok()) frame = frame_of_answer(frame.error());
    if (!frame.ok() || !send_frame(lane.get(), *frame, kNoLimit).ok()) return;
  }
}

}  // namespace

Status run_model_process(Runtime& runtime, unsigned lanes,
                         const std::function<void(const Value&)>& tell) {
  const Result<std::unique_ptr<Session>> session = load(runtime);
  Value said;
  if (!session.ok()) {
    said["error"] = session.error().message;
    said["code"] = to_string(session.error().id);
    tell(said);
    return session.error();
  }
  said["signature"] = registry::to_value((*session)->signature());
  tell(said);
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < lanes; ++i) {
    threads.emplace_back([&session, number = kFirstLane + static_cast<int>(i)] {
      answer_lane(**session, Descriptor(number));
    });
  }
  return {};
}

}  // namespace falaj::serving::isolated
