// config/yaml.h — the YAML that Falaj accepts and writes: JSON's values in YAML's clothes.
//
// Reading is strict, because declarations come from outside: no anchors or aliases (a few lines of
// them can stand for gigabytes), no tags, no duplicate keys, keys are texts. Plain scalars are
// typed as JSON would: true, false, null (also ~ and nothing), numbers; everything else, and
// whatever is quoted, is text: `no`, `0123` and `1_000` stay what was typed. Fuzzed by
// yaml_fuzz.cc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"

namespace falaj::config {

struct YamlLimits {
  std::size_t bytes_max = 8u << 20;
  int depth_max = 64;
};

// Every document of the text, in order; empty ones are left out. FJ-1002 with line and column;
// FJ-1007 (UTF-8), 1008 (depth), 1009 (bytes), 1012 (duplicate key) for the named cases.
Result<std::vector<Value>> parse_yaml(std::string_view text, const YamlLimits& limits = {});

// Block style, keys sorted, ends with a newline. Reads back as the same value (numbers that are not
// finite become null, as in JSON).
std::string to_yaml(const Value& value);

}  // namespace falaj::config
