// app/report.h — how a child process of ours speaks to its server: one JSON object a line.
#pragma once

#include "base/value.h"

namespace falaj::app {

// The descriptor of the channel of exec/child.h.
inline constexpr int kServerChannel = 3;

// Over the channel of exec/child.h. When the server has gone there is nobody to tell.
void report_to_server(const Value& value);

}  // namespace falaj::app
