# Read by cpack for each kind of package: the components that it has.
set(components moka libraries)
if(CPACK_GENERATOR STREQUAL "DEB")
  set(components moka debian)
  # Where the package is put together: what needs a library that it carries depends on no package of Debian for it.
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
      ${CPACK_PACKAGE_DIRECTORY}/_CPack_Packages/${CPACK_SYSTEM_NAME}/DEB/${CPACK_PACKAGE_FILE_NAME}/usr/lib/moka)
endif()
list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build)
set(CPACK_INSTALL_CMAKE_PROJECTS)
foreach(component ${components})
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS ${build} moka ${component} /)
endforeach()
