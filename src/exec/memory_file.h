// exec/memory_file.h — files that live in memory, to hand bytes to a child process and back.
#pragma once

#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace falaj::exec {

// An empty one that both sides may write. `name` is for people who look into /proc.
// kResourceExhausted when the machine has none to give.
Result<Descriptor> make_memory_file(const char* name);
// One with these bytes, which nobody can change any more; its place is at the end.
Result<Descriptor> make_sealed_memory_file(const char* name, std::string_view bytes);
// All of them, behind what is there. kResourceExhausted when they do not fit.
Status write_memory_file(int file, std::string_view bytes);

}  // namespace falaj::exec
