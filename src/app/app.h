// app/app.h — the program behind main().
#pragma once

namespace falaj::app {

int run(int argc, char** argv);

}  // namespace falaj::app
