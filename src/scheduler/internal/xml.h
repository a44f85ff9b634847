// scheduler/internal/xml.h — the little of XML that machine descriptions use, read strictly.
//
// Elements, attributes, text, comments, the declaration, a DOCTYPE without anything of its own, the
// five named entities and numbered ones. No other entities, so nothing expands and nothing is
// fetched.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::scheduler {

struct XmlLimits {
  std::size_t bytes_max = 16u << 20;
  std::size_t depth_max = 64;
  std::size_t elements_max = 400'000;
  std::size_t attributes_max = 64;  // Of one element.
};

using XmlAttributes = std::map<std::string, std::string, std::less<>>;

struct XmlHandler {
  std::function<Status(std::string_view name, const XmlAttributes& attributes)> begin;
  std::function<Status(std::string_view name)> end;
  std::function<Status(std::string_view text)> text;  // Between tags, entities resolved.
};

// Calls the handler in order; an error of it ends the reading and is passed on. kInvalidArgument
// with the line for what is not well formed or over a limit.
Status read_xml(std::string_view document, const XmlHandler& handler, const XmlLimits& limits = {});

}  // namespace falaj::scheduler
