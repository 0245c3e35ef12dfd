# Rows: what Moka has many of (layer types, ops, kernels, optimisers, verbs, ...) is a function without parameters in the
# file of the thing, `LayerDef ReLULayer() {`, or a list of several, `std::vector<LayerDef> ...() {`. Nobody writes the
# list of them: the build finds the functions in a target's sources.
#
# moka_rows(target TYPE LayerDef HEADER layers/net/layer.h FUNCTION LayerRows [SOURCES a.cpp ...]): adds a source to the
# target that defines `std::vector<TYPE> FUNCTION()`, which HEADER declares: the rows of all functions of that type in
# SOURCES (else in the target's own), by the functions' names. Functions of anonymous namespaces are none.
set(MOKA_WRITE_ROWS ${CMAKE_CURRENT_LIST_DIR}/write_rows.cmake)

function(moka_rows target)
  cmake_parse_arguments(ROWS "" "TYPE;HEADER;FUNCTION" "SOURCES" ${ARGN})
  if(NOT ROWS_SOURCES)
    get_target_property(ROWS_SOURCES ${target} MOKA_SOURCES)  # before they were batched
    if(NOT ROWS_SOURCES)
      get_target_property(ROWS_SOURCES ${target} SOURCES)
    endif()
  endif()
  list(FILTER ROWS_SOURCES INCLUDE REGEX "\\.(cpp|cu)$")
  set(sources)
  foreach(source ${ROWS_SOURCES})
    cmake_path(ABSOLUTE_PATH source)
    list(APPEND sources ${source})
  endforeach()
  set(rows ${CMAKE_CURRENT_BINARY_DIR}/${target}_${ROWS_FUNCTION}.cpp)
  set(list ${rows}.sources)
  file(CONFIGURE OUTPUT ${list} CONTENT "${sources}")
  add_custom_command(OUTPUT ${rows}
    COMMAND ${CMAKE_COMMAND} -D TYPE=${ROWS_TYPE} -D HEADER=${ROWS_HEADER} -D FUNCTION=${ROWS_FUNCTION} -D LIST=${list}
            -D ROWS=${rows} -P ${MOKA_WRITE_ROWS}
    DEPENDS ${sources} ${list} ${MOKA_WRITE_ROWS}
    COMMENT "Finding the functions of type ${ROWS_TYPE}" VERBATIM)
  target_sources(${target} PRIVATE ${rows})
endfunction()
