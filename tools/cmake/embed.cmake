# cmake -DFROM=file -DTO=file.cpp -DINCLUDE=header -DNAME=Function -P embed.cmake: a source file with
# `std::string_view Function()`, the bytes of a file.
file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
file(WRITE ${TO} "#include \"${INCLUDE}\"

namespace moka {

std::string_view ${NAME}() {
  static constexpr char kBytes[] = {
${bytes}};
  return {kBytes, sizeof(kBytes)};
}

}  // namespace moka
")
