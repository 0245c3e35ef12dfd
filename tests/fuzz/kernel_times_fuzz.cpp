// The cache of kernels' times, and the choices that a run keeps beside them: lines that cannot be read are left alone,
// what is read is written as it was.
#include "core/choices.h"
#include "core/text.h"
#include "graph/kernel_search.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view text) {
    using moka::KernelSearch;
    static moka::InputFile file("kernels.tsv");
    const KernelSearch from_file(file.Write(text), KernelSearch::Unknown::kLeave);
    const std::string used = KernelSearch({}, KernelSearch::Unknown::kLeave, text).Used();
    moka::Require(KernelSearch({}, KernelSearch::Unknown::kLeave, used).Used() == used, "times read back");
    for (const std::string& line : moka::Split(text, '\n')) {
      const auto choice = moka::ChoiceOf(line);
      if (choice) moka::Require(moka::LineOf(choice->first, choice->second) == line, "choices read back");
    }
  });
}
