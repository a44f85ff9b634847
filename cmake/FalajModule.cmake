# falaj_module(NAME [DEPS module...] [LIBS target...] [TEST_LIBS target...] [TEST_DEPS module...])
#
# Defines falaj_NAME from every *.cc below the folder, and NAME_test from the *_test.cc beside them.
# DEPS are modules of a lower rank (tools/layers checks the includes); LIBS are third-party targets,
# private: no module shows another library's headers to its users.
find_package(GTest REQUIRED)
find_package(Threads REQUIRED)

# Every x_fuzz.cc becomes the program x_fuzz and the test fuzz.x, which runs the saved inputs in
# corpus/x beside it and mutations of them from a fixed seed. With FALAJ_FUZZ (clang, the preset
# `fuzz`) the program is libFuzzer's, which `./dev fuzz x` runs for as long as one likes.
option(FALAJ_FUZZ "Build the fuzz targets with libFuzzer" OFF)
set(FALAJ_FUZZ_RUNS 5000 CACHE STRING "Mutations that each fuzz target tries as a test")
if(FALAJ_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(NOT TARGET falaj_fuzz_driver)
  add_library(falaj_fuzz_driver OBJECT ${CMAKE_SOURCE_DIR}/tests/fuzz/driver.cc)
endif()

function(falaj_fuzz_targets module sources)
  list(FILTER sources INCLUDE REGEX "_fuzz\\.cc$")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM target)
    cmake_path(GET source PARENT_PATH folder)
    string(REGEX REPLACE "_fuzz$" "" subject ${target})
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE falaj_${module} falaj_warnings)
    if(FALAJ_FUZZ)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
      continue()
    endif()
    target_link_libraries(${target} PRIVATE falaj_fuzz_driver)
    add_test(NAME fuzz.${subject} COMMAND ${target} -runs=${FALAJ_FUZZ_RUNS} -seed=1
                                          ${folder}/corpus/${subject})
    set_tests_properties(fuzz.${subject} PROPERTIES LABELS fuzz TIMEOUT 300)
  endforeach()
endfunction()

function(falaj_module name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;TEST_LIBS;TEST_DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(all_sources ${sources})
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")

  add_library(falaj_${name} STATIC ${sources})
  target_include_directories(falaj_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  list(TRANSFORM ARG_DEPS PREPEND falaj_)
  target_link_libraries(falaj_${name} PUBLIC ${ARG_DEPS} Threads::Threads
                                      PRIVATE ${ARG_LIBS} falaj_warnings)
  falaj_fuzz_targets(${name} "${all_sources}")
  if(tests)
    add_executable(${name}_test ${tests})
    list(TRANSFORM ARG_TEST_DEPS PREPEND falaj_)
    target_link_libraries(${name}_test PRIVATE falaj_${name} ${ARG_TEST_DEPS} ${ARG_TEST_LIBS}
                                               falaj_warnings GTest::gtest_main GTest::gmock)
    target_precompile_headers(${name}_test PRIVATE <gtest/gtest.h>)
    target_compile_options(${name}_test PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
    add_test(NAME unit.${name} COMMAND ${name}_test)
    set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 300)
  endif()
endfunction()
