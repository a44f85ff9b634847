# The libraries that Debian lacks, unpacked by tools/deps into build/deps (pins: third_party/).
set(FALAJ_DEPS ${CMAKE_SOURCE_DIR}/build/deps CACHE PATH "Where tools/deps unpacked the libraries")

function(falaj_imported name pattern include_dir)
  file(GLOB found ${FALAJ_DEPS}/lib/${pattern})
  if(NOT found)
    message(FATAL_ERROR "${name} is not under ${FALAJ_DEPS}: run ./dev setup")
  endif()
  list(GET found 0 location)
  add_library(falaj::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(falaj::${name} PROPERTIES
    IMPORTED_LOCATION ${location}
    INTERFACE_INCLUDE_DIRECTORIES "${FALAJ_DEPS}/${include_dir}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${FALAJ_DEPS}/${include_dir}")
endfunction()

falaj_imported(arrow "libarrow.so.*" include)
falaj_imported(parquet "libparquet.so.*" include)
target_link_libraries(falaj::parquet INTERFACE falaj::arrow)

# Opened with dlopen through their C ABI: only the headers are seen at compile time.
add_library(falaj::onnxruntime_headers INTERFACE IMPORTED GLOBAL)
target_include_directories(falaj::onnxruntime_headers SYSTEM INTERFACE ${FALAJ_DEPS}/include/onnxruntime)

# The binary finds build/deps/lib from build/<preset>/ and lib/ beside an installed bin/.
set(CMAKE_BUILD_RPATH "${FALAJ_DEPS}/lib")
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib/falaj")
