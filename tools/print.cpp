#include "tools/print.h"

#include <cerrno>
#include <cstdio>

#include "core/printable.h"
#include "core/standard_streams.h"

namespace moka {
namespace {

void Write(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) FlushStandardOutput();
}

}  // namespace

void PrintLines(std::string_view text) { Write(PrintableBut("\n\t", text)); }

void PrintJsonText(std::string_view json) { Write(PrintableJson(json) + "\n"); }

}  // namespace moka
