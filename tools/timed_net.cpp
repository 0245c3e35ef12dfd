#include "tools/timed_net.h"

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "graph/autodiff.h"
#include "graph/pass.h"
#include "optim/net_weights.h"
#include "optim/update.h"
#include "tools/net_source.h"

namespace moka {
namespace {

constexpr uint64_t kSeed = 1;

void AddTraining(BuiltNet& net, ParameterStore& store) {
  if (net.loss == kNoId)
    throw Error(ErrorKind::kConfig, StrCat("net \"", net.param.name(), "\" has no loss to train by"));
  net.graph.AddOutput("@loss", net.loss);
  ComposeForward(net.graph);
  SolverParameter solver;
  solver.set_base_lr(1e-4F);
  solver.set_lr_policy("fixed");
  solver.set_momentum(0.9F);
  solver.set_weight_decay(5e-4F);
  const std::vector<NetBlob> trained = TrainedBlobs(net.blobs);
  std::vector<ValueId> states;
  states.reserve(trained.size());
  for (const NetBlob& blob : trained) states.push_back(blob.state);
  const std::vector<ValueId> gradients = Differentiate(net.graph, net.loss, states);
  const Updates updates = AddUpdates(net.graph, {.solver = &solver, .blobs = trained, .gradients = gradients});
  for (const SlotState& slot : updates.slots) {
    if (!store.Has(slot.name)) store.Add(slot.name, slot.shape);
  }
}

}  // namespace

std::unique_ptr<TimedNet> MakeTimedNet(const NetParameter& param, Phase phase, const CompileOptions& compile) {
  auto timed = std::make_unique<TimedNet>();
  NetOptions options;
  options.state.set_phase(phase);
  options.data_types = ProbeDataTypes(phase, {});
  BuiltNet net = BuildNet(param, options);
  AddBlobs(net.blobs, kSeed, timed->store);
  AddKept(net, "time", timed->store);
  for (const BuiltNet::Output& output : net.outputs) net.graph.AddOutput(output.name, output.value);
  std::vector<std::pair<std::string, bool>> inputs;  // name, whether it holds labels
  for (const DataLayer& data : net.data) {
    for (size_t i = 0; i < data.tops.size(); ++i) inputs.emplace_back(data.tops[i], i > 0);
    if (timed->batch == 0 && data.types[0].shape.rank() > 0) timed->batch = data.types[0].shape[0];
  }
  if (phase == TRAIN) AddTraining(net, timed->store);
  CompileOptions compile_options = compile;
  compile_options.name = param.name();
  compile_options.inference = phase == TEST;
  compile_options.releases_states = phase == TEST;
  timed->program = Compile(std::move(net.graph), timed->store, compile_options);
  RandomStream random(kSeed, StableHash("inputs"));
  for (const auto& [name, is_label] : inputs) {
    if (!timed->program->HasInput(name)) continue;
    for (float& v : timed->program->input(name).as<float>())
      v = is_label ? 0.0F : static_cast<float>(random.Uniform(-1, 1));
  }
  if (timed->program->HasInput("lr")) timed->program->input("lr").as<float>()[0] = 1e-4F;
  return timed;
}

}  // namespace moka
