// Every printed text passes Printable on its way to standard output, in this one place.
#include "tools/cli/print.h"

#include "core/printable.h"
#include "core/standard_streams.h"

namespace moka {

void PrintLines(std::string_view text) { WriteStandardOutput(PrintableBut("\n\t", text)); }

void PrintJsonText(std::string_view json) { WriteStandardOutput(PrintableJson(json) + "\n"); }

}  // namespace moka
