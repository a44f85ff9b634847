#include "features/internal/plan_name.h"

namespace falaj::features {

std::string plan_name(const std::string& service) { return "service " + service; }

std::string plan_name(const std::vector<ServiceView>& wanted, NameStyle names) {
  std::string text = names == NameStyle::kFull ? "full" : "bare";
  const auto add = [&](const char* mark, const std::string& name) {
    text.append(mark).append(std::to_string(name.size())).append(":").append(name);
  };
  for (const ServiceView& view : wanted) {
    add(" view ", view.view);
    for (const std::string& feature : view.features) add(" ", feature);
  }
  return text;
}

}  // namespace falaj::features
