# Copies shared libraries that PROGRAMS need into PREFIX/lib/moka, each by the name that it is asked for, and makes them
# look for each other there; PREFIX/DOC/libraries gets a table of them and the copyright files of the Debian packages that
# they are of. WHICH: a pattern of their names. COPIES: whether they are copied, or the papers written alone. PATCHELF: the
# program. Run while installing.
if(COPIES AND NOT PATCHELF)
  message(FATAL_ERROR "libraries are carried with patchelf's help: install it (tools/setup does) and configure again")
endif()

# The C and C++ libraries, which have to be the machine's own: its driver's and MPI's libraries use them, too.
set(floor "^(ld-linux-x86-64|lib(BrokenLocale|anl|c|c_malloc_debug|cuda|dl|gcc_s|m|mvec|nsl|pthread|resolv|rt|stdc\\+\\+|thread_db|util))\\.so")
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${PROGRAMS} PRE_EXCLUDE_REGEXES ${floor}
     RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing)
if(missing)
  message(FATAL_ERROR "${PROGRAMS} needs ${missing}, which this machine lacks")
endif()
list(SORT found)

set(folder ${PREFIX}/lib/moka)
set(terms ${PREFIX}/${DOC}/libraries)
file(MAKE_DIRECTORY ${terms})
if(COPIES)
  file(MAKE_DIRECTORY ${folder})
endif()
set(table "library\tpackage\tversion\n")
foreach(library IN LISTS found)
  cmake_path(GET library FILENAME name)
  if(NOT name MATCHES "${WHICH}")
    continue()
  endif()
  file(REAL_PATH ${library} file)
  if(COPIES)
    file(COPY_FILE ${file} ${folder}/${name})
    file(CHMOD ${folder}/${name} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    execute_process(COMMAND ${PATCHELF} --set-rpath $ORIGIN ${folder}/${name} COMMAND_ERROR_IS_FATAL ANY)
  endif()

  # The package's list may name the file with or without the /usr that both are linked to.
  string(REGEX REPLACE "^/usr/" "/" short ${file})
  foreach(listed ${file} ${short})
    execute_process(COMMAND dpkg-query --search ${listed} OUTPUT_VARIABLE owner ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0)
      break()
    endif()
  endforeach()
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${file} is of no Debian package, so whose it is and under which terms cannot be said")
  endif()
  string(REGEX MATCH "^[^:]+" package "${owner}")
  execute_process(COMMAND dpkg-query --show --showformat=\${Version} ${package} OUTPUT_VARIABLE version
                  COMMAND_ERROR_IS_FATAL ANY)
  string(APPEND table "${name}\t${package}\t${version}\n")
  file(REAL_PATH /usr/share/doc/${package}/copyright copyright)
  file(COPY_FILE ${copyright} ${terms}/${package}.copyright)
endforeach()
file(WRITE ${terms}/libraries.tsv "${table}")
