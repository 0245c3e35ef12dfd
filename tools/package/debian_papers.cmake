# Writes what Debian's packages have in FOLDER: copyright, and changelog.gz in Debian's form with the day of the VERSION
# that ROOT/docs/CHANGELOG.md says. Run while installing. MAINTAINER: name and address.
file(STRINGS ${ROOT}/docs/CHANGELOG.md headings REGEX "^## ")
list(GET headings 0 newest)
if(NOT newest MATCHES "^## ${VERSION}, ([0-9]+ [A-Z][a-z]+ [0-9]+)$")
  message(FATAL_ERROR "docs/CHANGELOG.md begins with \"${newest}\", and the version is ${VERSION}: expected \"## ${VERSION}, DAY\"")
endif()
execute_process(COMMAND date --utc --rfc-email --date=${CMAKE_MATCH_1} OUTPUT_VARIABLE day
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${FOLDER}/changelog "moka (${VERSION}) stable; urgency=medium

  * What changed is in docs/CHANGELOG.md beside this file.

 -- ${MAINTAINER}  ${day}
")
execute_process(COMMAND gzip -9nf ${FOLDER}/changelog COMMAND_ERROR_IS_FATAL ANY)

file(STRINGS ${ROOT}/NOTICE owners REGEX "^Copyright ")
string(REPLACE "Copyright " "" owners "${owners}")
file(WRITE ${FOLDER}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: moka
Comment: NOTICE beside this file says what is linked and under which terms, and
 libraries/ has the copyright files of libraries that this package carries.

Files: *
Copyright: ${owners}
License: Apache-2.0

License: Apache-2.0
 On Debian systems, the full text of the Apache License 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
")
