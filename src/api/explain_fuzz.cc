// Any bytes as the JSON of a request to explain: refused by name, or within the bounds.
#include <cstddef>
#include <cstdint>

#include "api/explanation.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj;
  serving::explain::Question question;
  const Status read =
      api::parse_explain_parameters({reinterpret_cast<const char*>(data), size}, question);
  FALAJ_CHECK(read.ok() || !read.error().message.empty());
  FALAJ_CHECK(question.budget.nanos > 0 && question.budget <= serving::explain::kBudgetMax);
  FALAJ_CHECK(question.background_rows <= serving::explain::kBackgroundMax);
  FALAJ_CHECK(question.pairs_max >= 2 && question.pairs_max <= serving::explain::kPairsMax);
  return 0;
}
