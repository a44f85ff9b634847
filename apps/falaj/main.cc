// The program. What it does is decided by its words: see cli/cli.h; how it is built: app/wiring.h.
#include "app/app.h"

int main(int argc, char** argv) { return falaj::app::run(argc, argv); }
