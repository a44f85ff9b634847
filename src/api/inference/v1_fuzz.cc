// The parser of V1 requests under libFuzzer: it must answer for any bytes, and what it accepts must
// be consistent and can be written again.
#include <cstdint>
#include <cstdlib>

#include "api/inference/v1_codec.h"
#include "serving/datatypes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj;
  if (size == 0) return 0;
  const registry::Signature one{{{"x", "FP32", {-1, 2}}}, {}, {}};
  const registry::Signature two{{{"x", "INT64", {-1}}, {"t", "BYTES", {-1, 1}}}, {}, {}};
  const registry::Signature& signature = (data[0] & 1) != 0 ? one : two;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto request = api::parse_v1(body, signature);
  if (!request.ok()) {
    if (request.error().message.empty()) std::abort();
    return 0;
  }
  for (const serving::Tensor& tensor : request->infer.inputs) {
    const std::size_t width = serving::element_bytes(*serving::parse_datatype(tensor.datatype));
    const std::size_t elements = serving::element_count(tensor.shape).value();
    if (width > 0 && tensor.bytes.size() != elements * width) std::abort();
  }
  static_cast<void>(api::write_v1(request->form, request->infer.inputs));
  return 0;
}
