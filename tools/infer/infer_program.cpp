// Compiles the net with the weights as constants and finds which outputs the given inputs alone determine.
#include "tools/infer/infer_program.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/net/net.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/precision.h"
#include "proto/text/places.h"
#include "tools/measure/calibration.h"

namespace moka {
namespace {

constexpr uint64_t kInferSeed = 1;  // of blobs that no weights file fills; those are warned about

// A top of an Input layer.
struct InputTop {
  const LayerParameter* layer = nullptr;
  int index = 0;
};

// Whether a blob is as an Input layer gives it: no layer behind has written it in place.
bool IsInputTop(const NetParameter& net, const std::string& blob) {
  const auto writes = [&](const LayerParameter& layer) {
    return std::ranges::find(layer.top(), blob) != layer.top().end();
  };
  const auto last = std::find_if(net.layer().rbegin(), net.layer().rend(), writes);
  return last != net.layer().rend() && TraitsOf(*last).data == DataKind::kInput;
}

// Returns, for each blob that depends on an input not among `filled`, such an input.
std::map<std::string, InputTop> UnfilledBehind(const Program& program, const NetParameter& deploy,
                                               const std::vector<std::string>& filled) {
  std::map<std::string, InputTop> unfilled;
  for (const LayerParameter& layer : deploy.layer()) {
    if (TraitsOf(layer).data == DataKind::kInput) {
      for (int i = 0; i < layer.top_size(); ++i) {
        const std::string& top = layer.top(i);
        if (program.HasInput(top) && std::ranges::find(filled, top) == filled.end()) unfilled[top] = {&layer, i};
      }
      continue;
    }
    std::optional<InputTop> reached;
    for (const std::string& bottom : layer.bottom()) {
      const auto found = unfilled.find(bottom);
      if (found != unfilled.end() && !reached) reached = found->second;
    }
    for (const std::string& top : layer.top()) {
      if (reached) {
        unfilled[top] = *reached;
      } else {
        unfilled.erase(top);
      }
    }
  }
  return unfilled;
}

// Caffe's order, which BuildNet keeps, is that of the names; the last of a net's text is what it is for.
void SortByPlace(BuiltNet& built) {
  const auto place_of = [&](const BuiltNet::Output& output) {
    std::pair<int, int> place;
    for (int i = 0; i < built.param.layer_size(); ++i) {
      for (int top = 0; top < built.param.layer(i).top_size(); ++top) {
        if (built.param.layer(i).top(top) == output.name) place = {i, top};
      }
    }
    return place;
  };
  std::ranges::stable_sort(built.outputs, std::less<>(), place_of);
}

[[noreturn]] void RefuseUnfilled(const InputTop& input, const std::vector<std::string>& filled) {
  const std::string& top = input.layer->top(input.index);
  const std::string others = filled.empty() ? "" : StrCat(" beside \"", Join(filled, "\", \""), "\"");
  const std::string removal =
      input.layer->top_size() > 1
          ? ""
          : StrCat("; an input of no use is left out with the layers that read it: ~layer[", input.layer->name(), "]");
  throw ErrorAt(*input.layer, StrCat("top[", input.index, "]"),
                StrCat("the net reads an input \"", top, "\"", others, ", and moka infer has nothing to fill it with"),
                StrCat("the task of the model's card says what is filled; a Parameter layer holds what is the same ",
                       "always", removal));
}

}  // namespace

CompileOptions InferenceOptions(const InferSource& source, const NetParameter& net) {
  CompileOptions compile = source.compile;
  compile.name = net.name();
  compile.inference = true;
  if (!source.has_precision) compile.compute = PrecisionOf({}, net, compile.compute);
  compile.keep32_layers = LayersInFloat32(net);
  compile.releases_states = !source.shares_weights;
  return compile;
}

InferProgram CompileForInference(const InferSource& source, const NetParameter& deploy,
                                 const std::vector<std::string>& kept, ParameterStore& store) {
  NetOptions net_options;
  net_options.state.set_phase(TEST);
  net_options.state.add_stage("deploy");
  BuiltNet built = BuildNet(deploy, net_options);
  // An input that no layer reads is an output, too, as Caffe sees it, and says nothing.
  std::erase_if(built.outputs, [&](const BuiltNet::Output& output) { return IsInputTop(deploy, output.name); });
  if (built.outputs.empty()) throw Error(ErrorKind::kConfig, StrCat("net \"", deploy.name(), "\" has no output"));
  SortByPlace(built);
  if (store.Names().empty()) {
    AddBlobs(built.blobs, kInferSeed, store);
    LoadWeightsFor(source.compile, source.weights, built.blobs, store);
  }
  // Programs may share weights, but not what they keep between runs.
  AddKept(built, StrCat("infer", store.Names().size()), store);

  InferProgram made;
  for (const KeptState& state : built.kept) made.kept.push_back(state.name);
  for (const BuiltNet::Output& output : built.outputs) {
    made.outputs.push_back(output.name);
    built.graph.AddOutput(output.name, output.value);
  }
  for (const std::string& name : kept) {
    if (std::ranges::find(made.outputs, name) != made.outputs.end()) continue;
    const auto found = built.tops.find(name);
    if (found == built.tops.end()) {
      std::vector<std::string> names;
      for (const auto& [top, value] : built.tops) names.push_back(top);
      std::string hint = DidYouMean(name, names);
      constexpr size_t kShown = 12;
      if (hint.empty()) {
        const bool has_more = names.size() > kShown;
        names.resize(std::min(names.size(), kShown));
        hint = StrCat("it has ", Join(names, ", "), has_more ? ", ..." : "");
      }
      throw Error(ErrorKind::kUsage, {}, StrCat("net \"", deploy.name(), "\" has no blob \"", Printable(name), "\""),
                  hint);
    }
    built.graph.AddOutput(name, found->second);
  }
  made.program = Compile(std::move(built.graph), store, InferenceOptions(source, deploy));
  return made;
}

std::vector<std::string> FilledOutputs(const Program& program, const NetParameter& deploy,
                                       const std::vector<std::string>& filled,
                                       const std::vector<std::string>& outputs) {
  const std::map<std::string, InputTop> unfilled = UnfilledBehind(program, deploy, filled);
  std::vector<std::string> given;
  for (const std::string& output : outputs) {
    if (!unfilled.contains(output)) given.push_back(output);
  }
  if (given.empty() && !outputs.empty()) RefuseUnfilled(unfilled.at(outputs.front()), filled);
  for (const std::string& output : outputs) {
    const auto found = unfilled.find(output);
    if (found == unfilled.end()) continue;
    const InputTop& input = found->second;
    LogInfo(StrCat("output \"", output, "\" is left out: it needs input \"", input.layer->top(input.index),
                   "\", which nothing fills"));
  }
  return given;
}

bool IsFilled(const Program& program, const NetParameter& deploy, const std::vector<std::string>& filled,
              const std::string& output) {
  return !UnfilledBehind(program, deploy, filled).contains(output);
}

void RequireFilled(const Program& program, const NetParameter& deploy, const std::vector<std::string>& filled,
                   const std::string& output) {
  const std::map<std::string, InputTop> unfilled = UnfilledBehind(program, deploy, filled);
  const auto found = unfilled.find(output);
  if (found != unfilled.end()) RefuseUnfilled(found->second, filled);
}

bool CheckScores(std::span<const float> values, const std::string& output) {
  const auto nan = std::ranges::find_if(values, [](float value) { return std::isnan(value); });
  if (nan != values.end()) {
    throw Error(
        ErrorKind::kBadData, {},
        StrCat("output \"", output, "\" is NaN from value ", nan - values.begin(), " on (of ", values.size(), ")"),
        "the weights hold what is no number, or the picture or text makes none with them");
  }
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace moka
