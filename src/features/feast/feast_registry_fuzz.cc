// Any bytes as a Feast registry: refused with FJ-3001 or translated, never worse. What is
// translated has a name for everything, and is accepted as a declaration or told about.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "features/feast/registry.h"
#include "features/feast/translate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj;                   // NOLINT: one function, one file.
  using namespace falaj::features::feast;  // NOLINT
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Result<FeastRegistry> registry = read_registry(bytes);
  if (!registry.ok()) {
    FALAJ_CHECK(registry.error().id == ErrorId::kMalformedTable);
    return 0;
  }
  const Translation ours = translate(*registry, {"rides", "repository"});
  FALAJ_CHECK(ours.views.size() <= registry->views.size());
  for (const Value& object : ours.objects) {
    FALAJ_CHECK(!object["metadata"].text("name").empty());
  }
  for (const ViewPlan& view : ours.views) {
    FALAJ_CHECK(!view.keys.empty() && !view.features.empty() && view.ttl >= Duration{});
  }
  return 0;
}
