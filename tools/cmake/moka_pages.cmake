# Pages: what a person says of a thing in Markdown, beside its source. The build finds them and puts their text into the
# program, so that a page is written in one place and needs no list.
#
# moka_pages(target HEADER layers/net/manual_page.h FUNCTION ManualFiles SOURCES a.cpp ...): adds a source to the target
# that defines `std::vector<ManualFile> FUNCTION()`, which HEADER declares: each *.md of the folders of SOURCES, README.md
# left out, with its path in the repository. A new page is seen by the next build.
set(MOKA_WRITE_PAGES ${CMAKE_CURRENT_LIST_DIR}/write_pages.cmake)

function(moka_pages target)
  cmake_parse_arguments(PAGES "" "HEADER;FUNCTION" "SOURCES" ${ARGN})
  set(patterns)
  foreach(source ${PAGES_SOURCES})
    cmake_path(ABSOLUTE_PATH source)
    cmake_path(REPLACE_FILENAME source "*.md")
    list(APPEND patterns ${source})
  endforeach()
  list(REMOVE_DUPLICATES patterns)
  file(GLOB pages CONFIGURE_DEPENDS ${patterns})
  list(FILTER pages EXCLUDE REGEX "/README\\.md$")
  set(written ${CMAKE_CURRENT_BINARY_DIR}/${PAGES_FUNCTION}.cpp)
  set(list ${written}.pages)
  file(CONFIGURE OUTPUT ${list} CONTENT "${pages}")
  add_custom_command(OUTPUT ${written}
    COMMAND ${CMAKE_COMMAND} -D HEADER=${PAGES_HEADER} -D FUNCTION=${PAGES_FUNCTION} -D LIST=${list} -D WRITTEN=${written}
            -D ROOT=${PROJECT_SOURCE_DIR} -P ${MOKA_WRITE_PAGES}
    DEPENDS ${pages} ${list} ${MOKA_WRITE_PAGES}
    COMMENT "Embedding the pages of ${PAGES_FUNCTION}" VERBATIM)
  target_sources(${target} PRIVATE ${written})
endfunction()
