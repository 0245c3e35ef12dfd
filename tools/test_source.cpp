#include "tools/test_source.h"

#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "proto/solver_file.h"
#include "tools/checkpoint_source.h"
#include "tools/net_source.h"

namespace moka {

namespace fs = std::filesystem;

TestSource TestSourceOf(const Arguments& arguments, std::string_view verb) {
  TestSource source;
  const fs::path runs = arguments.Get("runs", "runs");
  if (arguments.Has("model")) {
    source.net = arguments.Get("model");
  } else if (!arguments.positionals.empty()) {
    const std::string config = arguments.positionals[0];
    std::error_code code;
    const std::optional<NamedRun> run = FindNamedRun(config, runs);
    source.net = FindConfig(config, run ? "net.prototxt" : "train_val.prototxt", runs);
    if (run) {
      const fs::path solver = run->folder / "config" / "solver.prototxt";
      if (fs::exists(solver, code)) source.solver = ReadSolver(solver);
      if (!arguments.Has("weights")) source.weights = FindCheckpoint(config, runs).string();
    }
  } else {
    throw Error(ErrorKind::kUsage, {}, "missing argument: a run, a model folder or --model FILE",
                StrCat("see moka ", verb, " --help"));
  }
  if (arguments.Has("weights")) source.weights = ResolveWeights(arguments.Get("weights"), runs);
  if (source.weights.empty())
    throw Error(ErrorKind::kUsage, {}, "no weights: this is no run with a checkpoint", "give --weights FILE");
  return source;
}

}  // namespace moka
