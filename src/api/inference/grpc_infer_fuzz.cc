// The parsers of gRPC messages under libFuzzer: any bytes are answered, and what is accepted is
// consistent.
#include <cstdint>
#include <cstdlib>

#include "api/inference/grpc_codec.h"
#include "serving/datatypes.h"
#include "serving/packed_texts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj;
  if (size == 0) return 0;
  const std::string_view message(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 7) != 0) {
    static_cast<void>(api::parse_grpc_query(message, static_cast<api::QueryForm>(data[0] & 3)));
    return 0;
  }
  const auto request = api::parse_grpc_infer(message);
  if (!request.ok()) {
    if (request.error().message.empty()) std::abort();
    return 0;
  }
  std::vector<api::ChosenOutput> echo;
  for (const serving::Tensor& tensor : request->infer.inputs) {
    const std::size_t width = serving::element_bytes(*serving::parse_datatype(tensor.datatype));
    const std::size_t elements = serving::element_count(tensor.shape).value();
    const bool fits = width > 0 ? tensor.bytes.size() == elements * width
                                : serving::unpack_texts(tensor.bytes, elements).ok();
    if (!fits) std::abort();
    echo.push_back({tensor, api::Encoding::kBinary});
  }
  static_cast<void>(api::write_grpc_infer(*request, "1", echo, {api::Within::kStream, {}}));
  return 0;
}
