// The parser of inference requests under libFuzzer: it must answer for any bytes, and what it
// accepts must be consistent and survive being written again.
#include <cstdint>
#include <cstdlib>

#include "api/inference/infer_codec.h"
#include "serving/datatypes.h"
#include "serving/packed_texts.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  using namespace falaj;
  // The first two bytes choose where the JSON ends; the top bit leaves the header out.
  const std::size_t chosen = static_cast<std::size_t>(data[0] & 0x7F) << 8 | data[1];
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::optional<std::size_t> json_bytes =
      (data[0] & 0x80) != 0 ? std::nullopt : std::optional<std::size_t>(chosen);
  const auto request = api::parse_infer(body, json_bytes);
  if (!request.ok()) {
    require(!request.error().message.empty());
    return 0;
  }
  for (const serving::Tensor& tensor : request->inputs) {
    const auto type = serving::parse_datatype(tensor.datatype);
    require(type.ok());
    const std::size_t elements = serving::element_count(tensor.shape).value();
    if (*type == serving::Datatype::kBytes) {
      require(serving::unpack_texts(tensor.bytes, elements).ok());
    } else {
      require(tensor.bytes.size() == elements * serving::element_bytes(*type));
    }
  }
  api::InferRequest echo;
  echo.outputs_default = api::Encoding::kBinary;
  const auto reply = api::write_infer_reply({"m", "1", &echo, request->inputs});
  require(reply.ok());
  // With the outputs that it asked for: refused or written, never more than once too often.
  static_cast<void>(api::write_infer_reply({"m", "1", &*request, request->inputs}));
  return 0;
}
