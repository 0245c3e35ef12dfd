// Solver text; the first line may hold an override.
#include "proto/nets/solver_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {

FuzzTarget SolverTextFuzz() {
  return {"solver_text", [](std::string_view text) {
            SolverReadOptions options;
            if (text.starts_with('#')) options.overrides.emplace_back(text.substr(1, text.find('\n') - 1));
            const SolverParameter solver = SolverFromText(text, "solver.prototxt", options);
            const std::string printed = SolverToText(solver);
            Require(SolverToText(SolverFromText(printed, "printed")) == printed, "printed solvers read back");
          }};
}

}  // namespace moka
