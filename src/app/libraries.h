// app/libraries.h — where the libraries that are opened at run time lie.
#pragma once

#include <string>
#include <vector>

namespace falaj::app {

// The folder with libonnxruntime and lib_lightgbm: $FALAJ_LIBRARY_DIR, lib/falaj beside an
// installed bin/, or deps/lib beside a build folder; "" when none has them.
std::string library_folder();

// The path of this program, for starting engines.
std::string program_path();

struct LibraryCheck {
  std::string name;
  std::string path;
  std::string error;  // "" when it opened and answered.
};
// Opens every library in this one process, as training, serving and table do.
std::vector<LibraryCheck> check_libraries();

}  // namespace falaj::app
