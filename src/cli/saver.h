// cli/saver.h — texts for training programs that the program carries (src/cli/texts).
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"

namespace falaj::cli {

struct EmbeddedText {
  std::string_view name;  // "checkpoint_saver.py"
  std::string_view text;
};
// Made by tools/embed_texts.py when the program is built.
std::span<const EmbeddedText> training_texts();

// `falaj checkpoints saver`: prints checkpoint_saver.py (checkpoints.cc).
Status print_saver();

}  // namespace falaj::cli
