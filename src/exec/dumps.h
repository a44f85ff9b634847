// exec/dumps.h — a process that holds keys leaves no image of its memory.
#pragma once

namespace falaj::exec {

// From now on neither a crash nor a tool of the same user writes this process's memory anywhere: no
// core file (also none through a core pipe, which ignores the limit), no attaching. Not inherited
// by a program that is executed: that says so itself. Cannot fail on Linux.
void forbid_memory_dumps();

}  // namespace falaj::exec
