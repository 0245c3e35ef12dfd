// moka compare: a net here against blobs another engine has written, layer by layer.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/text.h"
#include "proto/nets/net_file.h"
#include "tools/check/net_compare.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/net_source.h"
#include "tools/train/overrides.h"

namespace moka {
namespace {

// How far values may lie apart: a finite number above 0.
double Tolerance(const Arguments& arguments, const std::string& name, double fallback) {
  using Limits = std::numeric_limits<double>;
  return arguments.Number(name, fallback, Limits::min(), Limits::max());
}

NetState StateOf(const Arguments& arguments) {
  NetState state = StateOfFlags(arguments);
  const std::string phase = arguments.Get("phase", "TEST");
  if (phase != "TEST" && phase != "TRAIN") {
    throw Error(ErrorKind::kUsage, StrCat("--phase wants TRAIN or TEST, found \"", Printable(phase), "\""));
  }
  state.set_phase(phase == "TRAIN" ? TRAIN : TEST);
  return state;
}

int RunCompare(const Arguments& arguments) {
  if (arguments.positionals.size() != 2) throw Error(ErrorKind::kUsage, "moka compare wants two files: NET BLOBS.npz");
  CompareOptions options;
  options.state = StateOf(arguments);
  const std::string runs = arguments.Get("runs", "runs");
  if (arguments.Has("weights")) options.weights = ResolveWeights(arguments.Get("weights"), runs);
  options.gradients = arguments.Has("gradients");
  const double tolerance = Tolerance(arguments, "tolerance", 1e-4);
  const double gradient_tolerance = options.gradients ? Tolerance(arguments, "gradient-tolerance", 1e-3) : 0;
  const NetParameter net =
      ReadNetInState(FindConfig(arguments.positionals[0], "deploy.prototxt", runs), {}, options.state);
  const std::map<std::string, NumpyArray> arrays = ReadNpz(arguments.positionals[1]);
  arguments.RefuseUnread();
  const NetComparison comparison = CompareNet(net, options, arrays);
  const std::vector<BlobDifference>& differences = comparison.differences;
  const BlobDifference* first = nullptr;
  for (const BlobDifference& d : differences) {
    const bool is_gradient = d.name.starts_with("gradient");
    const bool is_equal = d.problem.empty() && d.relative <= (is_gradient ? gradient_tolerance : tolerance);
    if (!is_equal && first == nullptr) first = &d;
    Print("{:<7} {:<28} {:<32} {}\n", is_equal ? "equal" : "differs", d.layer, d.name,
          d.problem.empty() ? fmt::format("relative {:.2e}{}{}", d.relative, d.note.empty() ? "" : ", ", d.note)
                            : d.problem);
  }
  for (const std::string& left_out : comparison.not_compared) Print("{:<7} {}\n", "not", left_out);
  if (differences.empty()) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(Printable(arguments.positionals[1]), " has no blob of this net beside what it is fed"),
                "name them blob/NAME, blobdiff/NAME, param/LAYER/INDEX, paramdiff/LAYER/INDEX");
  }
  const bool has_gradients =
      std::ranges::any_of(differences, [](const BlobDifference& d) { return d.name.starts_with("gradient"); });
  if (options.gradients && !has_gradients) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(Printable(arguments.positionals[1]), " has no gradient of this net that can be compared"),
                "name them blobdiff/NAME, paramdiff/LAYER/INDEX, or leave out --gradients");
  }
  if (first == nullptr) {
    Print("all {} agree{}\n", differences.size(),
          comparison.not_compared.empty() ? "" : fmt::format("; {} not compared", comparison.not_compared.size()));
    return 0;
  }
  Print("the first that differs: {} of layer \"{}\" ({})\n", first->name, first->layer,
        first->problem.empty() ? fmt::format("at {}: {:g} here, {:g} there", first->index, first->here, first->there)
                               : first->problem);
  return static_cast<int>(ErrorKind::kVerification);
}

}  // namespace

Verb CompareVerb() {
  Verb verb;
  verb.name = "compare";
  verb.summary = "a net here against blobs another engine wrote, layer by layer (exit 22 if they differ)";
  verb.usage = "NET BLOBS.npz [--flags]";
  verb.examples = {"moka compare deploy.prototxt blobs.npz --weights net.caffemodel",
                   "moka compare train_val.prototxt blobs.npz --phase TRAIN --gradients"};
  verb.options = {{"weights", "FILES", "trained values (default: the arrays param/LAYER/INDEX)"},
                  {"runs", "FOLDER", "where runs lie (default runs)"},
                  {"phase", "PHASE", "TEST (default) or TRAIN"},
                  {"gradients", "", "gradients of the loss too: blobdiff/NAME, paramdiff/LAYER/INDEX"},
                  {"tolerance", "X", "largest difference over the largest value (default 1e-4)"},
                  {"gradient-tolerance", "X", "the same for gradients (default 1e-3)", '\0', "--gradients"}};
  for (const OptionSpec& option : StateOptionSpecs()) verb.options.push_back(option);
  verb.run = RunCompare;
  return verb;
}

}  // namespace moka
