// The cache of kernels' times, and the choices that a run keeps beside them: lines that cannot be read are left alone,
// what is read is written as it was.
#include "core/choices.h"
#include "core/text.h"
#include "graph/kernel_search.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_file.h"

namespace moka {

FuzzTarget KernelTimesFuzz() {
  return {"kernel_times", [](std::string_view text) {
            static InputFile file("kernels.tsv");
            const KernelSearch from_file(file.Write(text), KernelSearch::Unknown::kLeave);
            const std::string used = KernelSearch({}, KernelSearch::Unknown::kLeave, text).Used();
            Require(KernelSearch({}, KernelSearch::Unknown::kLeave, used).Used() == used, "times read back");
            for (const std::string& line : Split(text, '\n')) {
              const auto choice = ChoiceOf(line);
              if (choice) Require(LineOf(choice->first, choice->second) == line, "choices read back");
            }
          }};
}

}  // namespace moka
