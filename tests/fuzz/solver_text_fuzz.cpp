// Solver text; the first line may hold an override.
#include "proto/nets/solver_file.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view text) {
    moka::SolverReadOptions options;
    if (text.starts_with('#')) options.overrides.emplace_back(text.substr(1, text.find('\n') - 1));
    const moka::SolverParameter solver = moka::SolverFromText(text, "solver.prototxt", options);
    const std::string printed = moka::SolverToText(solver);
    moka::Require(moka::SolverToText(moka::SolverFromText(printed, "printed")) == printed, "printed solvers read back");
  });
}
