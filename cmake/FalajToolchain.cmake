# Compiler settings that hold for our own code: warnings are errors, sanitizers by preset.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(FALAJ_CCACHE ccache)
if(FALAJ_CCACHE)
  # Without these settings no source that uses a precompiled header can be cached, and two build
  # folders never share a result.
  set(CMAKE_CXX_COMPILER_LAUNCHER env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${FALAJ_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_program(FALAJ_MOLD mold)
if(FALAJ_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# -g1: line numbers for stack traces without the size of full debug information.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(FALAJ_SANITIZE "" CACHE STRING "address or thread")
if(FALAJ_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
else()
  set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
endif()
if(FALAJ_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer
                      -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(FALAJ_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

add_library(falaj_warnings INTERFACE)
target_compile_options(falaj_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
  # g++ 12 reports these in its own headers under optimisation; clang covers the same ground.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-restrict>
  # For clang -Wconversion means signs, too, which g++ leaves alone.
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>)
