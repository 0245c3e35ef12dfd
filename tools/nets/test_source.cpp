// The two spellings of `moka test` and `infer` (CONFIG with --weights, or a run) become one pair of net and weights.
#include "tools/nets/test_source.h"

#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "proto/nets/filter.h"
#include "proto/nets/model_card.h"
#include "proto/nets/solver_file.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/net_source.h"
#include "tools/nets/zoo_weights.h"

namespace moka {

namespace fs = std::filesystem;

TestSource SourceOfRun(const std::string& run, const fs::path& runs) {
  const std::optional<NamedRun> named = FindNamedRun(run, runs);
  if (!named) throw NoRunError(run, runs);
  TestSource source;
  source.net = FindConfig(run, "net.prototxt", runs);
  source.has_solver = true;
  source.solver = ReadSolver(named->folder / "config" / "solver.prototxt");
  const bool has_weights = !ListFiles(named->folder / "checkpoints", ".safetensors").empty();
  if (has_weights || !named->which.empty()) source.weights = FindCheckpoint(run, runs).string();
  return source;
}

TestSource SourceOfModel(const fs::path& folder) {
  const ModelCard card = ModelCardOf(folder);
  const std::optional<fs::path> weights = ZooWeightsOf(folder);
  if (!weights)
    throw Error(ErrorKind::kUsage, {},
                StrCat("no weights: ", Printable(folder.string()), " is no run with a checkpoint and carries none"),
                kGiveWeights);
  TestSource source;
  source.net = FindConfig(folder.string(), "train_val.prototxt");
  source.weights = weights->string();
  source.solver = ReadSolver(folder / OwnWeightsOf(card)->solver());
  source.has_solver = true;
  return source;
}

TestSource TestSourceOf(const Arguments& arguments, std::string_view verb) {
  TestSource source;
  const fs::path runs = arguments.Get("runs", "runs");
  if (!arguments.positionals.empty()) {
    const std::string config = arguments.positionals[0];
    std::error_code code;
    const std::optional<NamedRun> run = FindNamedRun(config, runs);
    if (run) {
      const fs::path solver = run->folder / "config" / "solver.prototxt";
      if (fs::exists(solver, code)) source.solver = ReadSolver(solver);
      source.has_solver = !arguments.Has("model");
      if (!arguments.Has("weights")) source.weights = FindCheckpoint(config, runs).string();
    } else if (arguments.Has("model")) {
      throw Error(ErrorKind::kUsage, {},
                  StrCat("\"", Printable(config), "\" and --model=", Printable(arguments.Get("model")),
                         " both say which net is tested"),
                  "leave one of them out; a run beside --model gives its weights");
    }
    const std::optional<fs::path> model = run ? std::nullopt : ModelFolderOf(config);
    if (model && !arguments.Has("weights")) return SourceOfModel(*model);
    source.net = arguments.Has("model") ? PathOfWord(arguments.Get("model"))
                                        : FindConfig(config, run ? "net.prototxt" : "train_val.prototxt", runs);
  } else if (arguments.Has("model")) {
    source.net = PathOfWord(arguments.Get("model"));
  } else {
    throw Error(ErrorKind::kUsage, {}, "missing argument: a run, a model folder or --model FILE",
                StrCat("see moka ", verb, " --help"));
  }
  if (arguments.Has("weights")) source.weights = ResolveWeights(arguments.Get("weights"), runs);
  if (source.weights.empty()) throw NoWeightsError(source.net);
  return source;
}

std::vector<NetParameter> ReadTestedNets(const TestSource& source, const NetReadOptions& read, const NetState& given) {
  if (source.has_solver && !ChoosesLayers(given) && source.solver.test_iter_size() > 0)
    return ReadTestNets(source.solver, read);
  return {FilterNet(ReadNetInState(source.net, read, given), TEST)};
}

}  // namespace moka
