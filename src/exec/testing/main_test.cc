// The test program is also its own warden, as the real program is: `warden FOLDER`.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "exec/warden.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "warden") {
    falaj::exec::WardenOptions options;
    options.folder = argv[2];
    options.idle_max = falaj::Duration::seconds(20);  // No stray one long after a failed test.
    return falaj::exec::run_warden(options);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
