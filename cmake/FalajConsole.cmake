# falaj_console_assets(TARGET): adds to TARGET the source that carries console/dist.
#
# The console is built by `./dev build` before CMake runs. The depfile lists what was embedded, so a
# rebuilt console is embedded again, and a missing one stops the build with what to do.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(falaj_console_assets target)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/console_assets.cc)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/embed_console.py
            ${CMAKE_SOURCE_DIR}/console/dist ${out} --depfile ${out}.d
    DEPENDS ${CMAKE_SOURCE_DIR}/tools/embed_console.py
    DEPFILE ${out}.d
    COMMENT "Embedding the console"
    VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
