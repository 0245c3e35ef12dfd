// Files that the program's verbs write and read back. The first byte says which: ranges of 8-bit inference, sizes of
// records, a trace, the kernels of a run, a table of PyTorch's names, what a zoo entry must come to.
#include "core/checksum.h"
#include "core/text.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_file.h"
#include "tools/exchange/torch_names.h"
#include "tools/measure/calibration.h"
#include "tools/measure/trace_files.h"
#include "tools/train/record_sizes.h"
#include "tools/train/run_kernels.h"
#include "tools/zoo/expected.h"

namespace moka {
namespace {

// The checksum of the first line is put right, so that what it protects is read.
std::string WithHead(std::string_view rest) {
  char head[64];
  std::snprintf(head, sizeof head, "# moka kernels 1 fastest crc32c %08x\n", Crc32c(rest));
  return head + std::string(rest);
}

void ReadOne(char what, std::string_view text) {
  static InputFile file("file.json");
  static InputFile sizes(kRecordSizesFile);
  static InputFile kernels("config/kernels.tsv");
  static InputFile expected(kExpectedFile);
  switch (what) {
    case 'q': ReadQuantization(file.Write(text)); return;
    case 'n': TorchNamesFromText(text, "names"); return;
    case 't': JoinTraces({file.Write(text)}, {}); return;
    case 's':
      sizes.Write(text);
      KeptRecordSize(sizes.folder(), "data");
      return;
    case 'k':
      kernels.Write(WithHead(text));
      Require(ReadRunKernels(kernels.folder()).has_value(), "a run's kernels");
      return;
    default: expected.Write(text); ReadExpected(expected.folder());
  }
}

}  // namespace

FuzzTarget ToolFileFuzz() {
  return {"tool_file", [](std::string_view text) {
            if (!text.empty()) ReadOne(text.front(), text.substr(1));
          }};
}

}  // namespace moka
