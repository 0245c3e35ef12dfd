# Flags every target shares, and the function that makes a room.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# The messages' headers are 150,000 lines long: to read them again for each source takes two thirds of a clean build's
# time. They are therefore compiled once a set of flags (the rooms', those of data's loops, the command line's,
# the tests'). A compiler cache stores nothing that was compiled with such headers, so it does without; that build is
# also the one which notices a missing include.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
set(MOKA_STANDARD_HEADERS <algorithm> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <set> <string>
    <string_view> <utility> <vector>)
set(MOKA_COMMON_HEADERS ${MOKA_STANDARD_HEADERS} "${PROJECT_BINARY_DIR}/proto/moka.pb.h")

add_library(moka_flags INTERFACE)
target_include_directories(moka_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
# -fno-math-errno and -ffp-contract=off also where nvcc compiles the host's half of a kernel's file; --fmad=false is the
# latter for the GPU's half, so that a functor decides there as it does here (the pixels of a region, say). What nvcc
# makes of a source for the host's compiler holds casts of the old style.
set(MOKA_WARNINGS -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
set(MOKA_MATHS -fno-math-errno -ffp-contract=off)
# A program names its sources from the tree's root, wherever that lies: what two folders build is the same.
set(MOKA_SHORT_NAMES -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
list(JOIN MOKA_WARNINGS "," MOKA_CUDA_HOST_FLAGS)
string(APPEND MOKA_CUDA_HOST_FLAGS ",-Wshadow,-fno-math-errno,-ffp-contract=off")
# In a batch of sources (moka_unity) a local name may be that of another source.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(MOKA_SHADOW_IN_BATCHES -Wshadow=local)
else()
  set(MOKA_SHADOW_IN_BATCHES -Wno-shadow)
endif()
target_compile_options(moka_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${MOKA_WARNINGS};$<IF:$<BOOL:$<TARGET_PROPERTY:MOKA_BATCHED>>,${MOKA_SHADOW_IN_BATCHES},-Wshadow>;${MOKA_MATHS};${MOKA_SHORT_NAMES};-Wpedantic;-Wold-style-cast;-Wcast-qual>"
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror=all-warnings --expt-relaxed-constexpr --fmad=false -Xcompiler=${MOKA_CUDA_HOST_FLAGS}>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC looks for what it may free whenever its memory has doubled, precompiled headers included: a tenth of its time.
  target_compile_options(moka_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1048576>)
  # GCC 12 warns wrongly on std::string: on concatenation (its bug 105651), and on strings inside aggregates at -O3.
  target_compile_options(moka_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict -Wno-maybe-uninitialized>
                         $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wno-restrict,-Wno-maybe-uninitialized>)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    # More of the same on std::string, which it does not say of system headers unless they come precompiled.
    target_compile_options(moka_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>")
  endif()
endif()
# Not of kernels: a GPU has no function to fail with.
target_compile_definitions(moka_flags INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Release>>>:_GLIBCXX_ASSERTIONS>)
if(MOKA_SANITIZE)
  foreach(flag -fsanitize=${MOKA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_compile_options(moka_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${flag}>)
    string(REPLACE "," ",-fsanitize=" flag ${flag})  # nvcc takes a comma for the end of a flag
    target_compile_options(moka_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flag}>)
  endforeach()
  target_link_options(moka_flags INTERFACE -fsanitize=${MOKA_SANITIZE})
  # Fences, which that sanitizer does not follow, are in others' headers alone.
  if(MOKA_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(moka_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-tsan>)
  endif()
endif()
# A hundred programs are linked, each in a fraction of the time that the usual linker takes. mold is not among these:
# versions to 1.10 let a program's read-only-after-relocation range begin with its thread-local zeros, before the
# segment that holds it, so that about one program in three hundred cannot be loaded ("cannot apply additional memory
# protection after relocation"); which one depends on the length of its code.
if(NOT MOKA_SANITIZE)
  include(CheckLinkerFlag)
  foreach(linker lld gold)
    check_linker_flag(CXX -fuse-ld=${linker} MOKA_LINKER_${linker})
    if(MOKA_LINKER_${linker})
      target_link_options(moka_flags INTERFACE -fuse-ld=${linker})
      break()
    endif()
  endforeach()
endif()
if(MOKA_FUZZ)
  target_compile_options(moka_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()

# moka_headers(NAME [header ...]): a program that is nothing but the common headers and the given ones, compiled for
# other programs to reuse; moka_headers(NAME OBJECT ...) the same for libraries, whose code is position-independent.
function(moka_headers name)
  set(nothing ${PROJECT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${nothing} CONTENT "int main() {}\n")
  if("OBJECT" IN_LIST ARGN)
    list(REMOVE_ITEM ARGN OBJECT)
    add_library(${name} OBJECT ${nothing})
  else()
    add_executable(${name} ${nothing})
  endif()
  target_link_libraries(${name} PRIVATE moka_flags moka_messages)
  target_precompile_headers(${name} PRIVATE ${MOKA_COMMON_HEADERS} ${ARGN})
endfunction()

# moka_unity(target [STATES] [LANGUAGE CUDA] [BATCH n] [ALONE a.cpp ...]): its sources of C++, or of CUDA, are compiled n (12,
# unless said) together, as most of what one takes are headers and the inline functions of others. What a name in an
# anonymous namespace is called is its file's own affair: the build puts two sources that use the same name into different
# batches (write_batches.cmake). Generated sources, those with flags of their own and those after ALONE stay alone, as do all
# with a compiler cache: that build tells what a source forgot to include. A batch is what an edit costs. STATES: a class of
# a header has a State whose members' types are in its source's anonymous namespace, which GCC warns of where it takes that
# source for a header.
set(MOKA_WRITE_BATCHES ${CMAKE_CURRENT_LIST_DIR}/write_batches.cmake)

function(moka_unity target)
  cmake_parse_arguments(UNITY "STATES" "BATCH;LANGUAGE" "ALONE" ${ARGN})
  set(extension cpp)
  if(UNITY_LANGUAGE STREQUAL "CUDA")
    set(extension cu)
  endif()
  get_target_property(sources ${target} SOURCES)
  set_target_properties(${target} PROPERTIES MOKA_SOURCES "${sources}")
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  if(UNITY_STATES)
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  if(NOT UNITY_BATCH)
    set(UNITY_BATCH 12)
  endif()
  set(alone)
  set(together)
  foreach(source ${sources})
    get_source_file_property(flags ${source} COMPILE_OPTIONS)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE file)
    cmake_path(IS_PREFIX PROJECT_BINARY_DIR ${file} is_generated)
    if(flags OR is_generated OR source IN_LIST UNITY_ALONE OR NOT source MATCHES "\\.${extension}$")
      list(APPEND alone ${source})
    else()
      list(APPEND together ${file})
    endif()
  endforeach()
  list(LENGTH together count)
  math(EXPR spare "(${count} - 1) / ${UNITY_BATCH} + 1")
  set(batches)
  foreach(batch RANGE ${spare})
    list(APPEND batches ${CMAKE_CURRENT_BINARY_DIR}/${target}_${batch}.${extension})
  endforeach()
  # Mostly the spare one is empty.
  list(GET batches ${spare} file)
  set_source_files_properties(${file} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}.sources)
  file(CONFIGURE OUTPUT ${list} CONTENT "${together}")
  add_custom_command(OUTPUT ${batches}
    COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR} -D LIST=${list} -D BATCH=${UNITY_BATCH} "-D BATCHES=${batches}" -P ${MOKA_WRITE_BATCHES}
    DEPENDS ${together} ${list} ${MOKA_WRITE_BATCHES}
    DEPFILE ${list}.d
    COMMENT "Batching the sources of ${target}" VERBATIM)
  set_target_properties(${target} PROPERTIES SOURCES "${alone};${batches}")
  if(extension STREQUAL "cpp")
    set_target_properties(${target} PROPERTIES MOKA_BATCHED ON)
  endif()
endfunction()

# moka_room(NAME [RARE] SOURCES a.cpp ... DEPENDS rooms and libraries ... REUSE headers): a static library moka_NAME.
# RARE: what takes time at run time is in other rooms, so -O1 does, which takes a quarter off the compiler's time.
function(moka_room name)
  cmake_parse_arguments(ROOM "RARE" "REUSE" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(moka_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(moka_${name} PUBLIC moka_flags ${ROOM_DEPENDS} PRIVATE ${ROOM_PRIVATE})
  if(ROOM_RARE)
    target_compile_options(moka_${name} PRIVATE -O1)
  endif()
  if(ROOM_REUSE)
    target_precompile_headers(moka_${name} REUSE_FROM ${ROOM_REUSE})
  endif()
endfunction()

# Passive waiting: spinning threads of several tests at once would slow each other down many times. Brief: a failure is what a
# log shows.
set(MOKA_TEST_ENVIRONMENT "OMP_WAIT_POLICY=passive" "XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache" "GTEST_BRIEF=1")
# The tests of databases that shrink underneath ask for Moka's answer to SIGBUS, not the sanitizer's.
if(MOKA_SANITIZE MATCHES "address")
  list(APPEND MOKA_TEST_ENVIRONMENT "ASAN_OPTIONS=handle_sigbus=0")
endif()
if(MOKA_SANITIZE STREQUAL "thread")
  # oneDNN's threads wait for each other inside libgomp, which is not instrumented: what a library that the sanitizer
  # cannot follow does to memory is not judged. Moka's own team says its order itself (core/threads/parallel.cpp).
  string(JOIN ":" options handle_sigbus=0 ignore_noninstrumented_modules=1
              suppressions=${PROJECT_SOURCE_DIR}/tests/thread_sanitizer.supp)
  list(APPEND MOKA_TEST_ENVIRONMENT "TSAN_OPTIONS=${options}")
endif()

# What all tests are compiled with. They are compiled more often than they are waited for, hence -Og, which takes a fifth less
# of the compiler's time than -O1.
function(moka_test_flags name)
  target_link_libraries(${name} PRIVATE moka_flags GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE -Og)
  target_compile_definitions(${name} PRIVATE _GLIBCXX_ASSERTIONS)
endfunction()

# moka_test(NAME [ALONE c_test.cpp ...] LABELS l ... SOURCES a_test.cpp ... FORKS b_test.cpp ... DEPENDS rooms ...): a
# GoogleTest program, one CTest entry. Its sources are compiled eight together (moka_unity). Sources after FORKS use
# layers of research forks: a build without these leaves them out and says so. RUNS_MOKA: the tests run the command.
function(moka_test name)
  cmake_parse_arguments(TEST "RUNS_MOKA" "TIMEOUT" "ALONE;LABELS;SOURCES;FORKS;DEPENDS" ${ARGN})
  if(MOKA_FORKS)
    list(APPEND TEST_SOURCES ${TEST_FORKS})
  elseif(TEST_FORKS)
    list(JOIN TEST_FORKS ", " left_out)
    message(STATUS "${name}: without ${left_out}, which need the layers of forks (MOKA_FORKS=OFF)")
    if(NOT TEST_SOURCES)
      return()
    endif()
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_DEPENDS})
  moka_test_flags(${name})
  if(TEST_RUNS_MOKA)
    add_dependencies(${name} moka)
  endif()
  target_compile_definitions(${name} PRIVATE MOKA_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             MOKA_BINARY="$<TARGET_FILE_DIR:${name}>/../moka")
  if(TEST_DEPENDS MATCHES "moka_(proto|layers|comm|data|optim|tools)")
    target_precompile_headers(${name} REUSE_FROM moka_test_headers)
  endif()
  list(LENGTH TEST_SOURCES count)
  if(count GREATER 1)
    moka_unity(${name} BATCH 8 ALONE ${TEST_ALONE})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  if(MOKA_SANITIZE)
    math(EXPR TEST_TIMEOUT "${TEST_TIMEOUT} * 8")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT ${TEST_TIMEOUT}
                       ENVIRONMENT "${MOKA_TEST_ENVIRONMENT}")
endfunction()
