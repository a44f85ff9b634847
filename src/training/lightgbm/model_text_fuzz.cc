// Any bytes as LightGBM's text of a model: refused with a reason, or trees that are safe to walk.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "training/lightgbm/model_text.h"
#include "training/testing/walkable.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto model = falaj::training::lightgbm::read_model_text(text);
  if (model.ok()) {
    falaj::training::testing::check_walkable(*model);
  } else {
    FALAJ_CHECK(!model.error().message.empty());
  }
  return 0;
}
