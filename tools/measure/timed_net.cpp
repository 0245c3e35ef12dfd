// Builds the programs that a training and a test would, with data tops as plain inputs that are filled once.
#include "tools/measure/timed_net.h"

#include <algorithm>
#include <set>

#include "core/device/device.h"
#include "core/rng.h"
#include "core/text.h"
#include "core/threads/slow_phase.h"
#include "core/trace.h"
#include "graph/op.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/optimizers/update.h"
#include "optim/precision.h"
#include "optim/step/training_graph.h"
#include "optim/step/turn_scope.h"
#include "proto/nets/solver_file.h"
#include "proto/text/overrides.h"
#include "proto/upgrade/upgrade.h"
#include "tools/measure/made_up_data.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

constexpr uint64_t kSeed = 1;

// How an input is filled.
struct Filling {
  std::string name;
  FillerParameter filler;
};

SolverParameter SolverOf(const std::vector<std::string>& overrides) {
  SolverParameter solver;
  solver.set_base_lr(1e-4F);
  solver.set_lr_policy("fixed");
  solver.set_momentum(0.9F);
  solver.set_weight_decay(5e-4F);
  (void)ApplyOverrides(overrides, solver);
  UpgradeSolver(solver, "the command line");
  solver.set_iter_size(1);  // a batch and an update are timed
  return solver;
}

// The step that a training takes (optim/step/training_graph.h). Returns the scalar inputs of the update.
std::vector<std::string> AddTraining(BuiltNet& net, const SolverParameter& solver, const TrainTurn& turn,
                                     Compute compute, ParameterStore& store) {
  CheckOptimizer(solver);
  const TrainingSpec spec{
      .solver = solver, .param = net.param, .turn = turn, .scaling = ScalingOf(solver, net.param, compute)};
  return BuildTrainingGraph(net, spec, store).updates.inputs;
}

// The net with its data layers' own batches, or with another: by their fields, since not every top has the batch as its
// first axis, and for inputs that have none as their first axis.
BuiltNet BuildTimedNet(const NetParameter& given, Phase phase, const TimedOptions& timed) {
  NetParameter param = given;
  std::set<std::string> sized;
  for (LayerParameter& layer : *param.mutable_layer()) {
    if (timed.batch > 0 && SetBatchSize(layer, timed.batch)) sized.insert(layer.name());
  }
  NetOptions options;
  options.state = param.state();  // a turn's stage
  options.state.MergeFrom(timed.state);
  options.state.set_phase(phase);
  options.data_types = ProbeDataTypes(phase, {}, timed.shapes);
  options.top_shapes = timed.shapes;
  BuiltNet net = BuildNet(param, options);
  std::map<std::string, Shape> shapes = timed.shapes;
  for (const DataLayer& data : net.data) {
    if (timed.batch == 0 || sized.contains(data.param.name())) continue;
    for (size_t i = 0; i < data.tops.size(); ++i) {
      const Shape& shape = data.types[i].shape;
      std::vector<int64_t> dims;
      for (int axis = 0; axis < shape.rank(); ++axis) dims.push_back(axis == 0 ? timed.batch : shape[axis]);
      if (!dims.empty()) shapes.emplace(data.tops[i], Shape(dims));
    }
  }
  if (shapes.size() == timed.shapes.size()) return net;
  options.data_types = ProbeDataTypes(phase, {}, shapes);
  options.top_shapes = shapes;
  return BuildNet(param, options);
}

std::vector<Filling> DescribeFillings(const BuiltNet& net, const TrainTurn& turn, TimedNet& timed) {
  std::vector<Filling> fillings;
  if (timed.batch == 0) timed.batch = BatchOf(net.param);
  for (const DataLayer& data : net.data) {
    const ZooCheck check = MadeUpDataOf(data.param);
    const int64_t items = data.types.empty() || data.types[0].shape.rank() == 0 ? 1 : data.types[0].shape[0];
    for (size_t i = 0; i < data.tops.size(); ++i) {
      const Shape& shape = data.types[i].shape;
      fillings.push_back(
          {data.tops[i], MadeUpContents(net.param, check, data.param, static_cast<int>(i), shape, items)});
      if (timed.batch == 0 && shape.rank() > 0) timed.batch = shape[0];
      if (timed.image_size == 0 && shape.rank() == 4) timed.image_size = shape[3];
    }
  }
  for (const NetBlob& blob : TrainedInTurn(TrainedBlobs(net.blobs), turn))
    timed.parameters += net.graph.shape(blob.state).Count();
  for (const NodeId id : net.graph.TopologicalOrder()) {
    const Node& node = net.graph.node(id);
    const std::string& op = node.op->name;
    if (op != "matmul" && !op.starts_with("convolution")) continue;
    const std::vector<TensorType> outputs = net.graph.OutputTypes(node);
    timed.forward_flops += node.op->flops(node.attributes, net.graph.InputTypes(node), outputs);
    timed.activations += outputs[0].shape.Count();
  }
  return fillings;
}

void Fill(Program& program, const std::vector<Filling>& fillings) {
  RandomStream random(kSeed, StableHash("inputs"));
  for (const Filling& filling : fillings) {
    if (!program.HasInput(filling.name)) continue;
    const FillerParameter& filler = filling.filler;
    int next = 0;
    for (float& v : program.input(filling.name).as<float>()) {
      const auto unit = static_cast<float>(random.Uniform(0, 1));
      if (filler.values_size() > 0) {
        v = filler.values(next++ % filler.values_size());
      } else {
        v = filler.type() == "uniform" ? filler.min() + (filler.max() - filler.min()) * unit : filler.value();
      }
    }
  }
}

// Data lies on the GPU once for all runs: what is timed is the step.
void KeepOnDevice(Program& program, const std::vector<Filling>& fillings) {
  if (program.stream() == nullptr) return;
  for (const Filling& filling : fillings) {
    if (!program.HasInput(filling.name)) continue;
    const Tensor host = program.input(filling.name);
    program.stream()->CopyToDevice(static_cast<std::byte*>(program.TakeInput(filling.name).raw()),
                                   static_cast<const std::byte*>(host.raw()), host.type().Bytes());
  }
}

// The first of the earlier nets that has the top; null: none.
const BuiltNet* SourceOf(const std::string& top, std::span<const BuiltNet> earlier) {
  const auto found = std::ranges::find_if(earlier, [&](const BuiltNet& net) { return net.tops.contains(top); });
  return found == earlier.end() ? nullptr : &*found;
}

// Tops that later nets take become outputs.
void AddFeeds(std::span<BuiltNet> nets) {
  for (size_t later = 1; later < nets.size(); ++later) {
    for (const DataLayer& data : nets[later].data) {
      for (const std::string& top : data.tops) {
        const BuiltNet* source = SourceOf(top, nets.first(later));
        if (source == nullptr) continue;
        BuiltNet& net = nets[static_cast<size_t>(source - nets.data())];
        net.graph.AddOutput(StrCat("@feed/", top), net.tops.at(top));
      }
    }
  }
}

// Takes the inputs that earlier programs feed out of the list. On a GPU what they are fed stays there.
std::vector<std::pair<Tensor, Tensor>> TakeFeeds(Program& program, std::vector<Filling>& inputs,
                                                 std::span<Program* const> earlier) {
  std::vector<std::pair<Tensor, Tensor>> feeds;
  std::erase_if(inputs, [&](const Filling& input) {
    const std::string name = StrCat("@feed/", input.name);
    const auto source = std::ranges::find_if(earlier, [&](const Program* each) { return HasOutput(*each, name); });
    if (source == earlier.end() || !program.HasInput(input.name)) return false;
    if (program.stream() == nullptr) {
      feeds.emplace_back((*source)->output(name), program.input(input.name));
    } else {
      feeds.emplace_back((*source)->TakeOutput(name), program.TakeInput(input.name));
    }
    return true;
  });
  return feeds;
}

void FeedInput(const Program& program, const Tensor& from, const Tensor& to) {
  if (program.stream() == nullptr) {
    std::ranges::copy(from.as<float>(), to.as<float>().begin());
  } else {
    program.stream()->CopyOnDevice(static_cast<std::byte*>(to.raw()), static_cast<const std::byte*>(from.raw()),
                                   from.type().Bytes());
  }
}

}  // namespace

void TimedNet::Run() const {
  program->Start();
  const Program* before = program.get();
  for (const TimedPart& part : others) {
    if (Stream* stream = part.program->stream(); stream != nullptr) {
      // One after another: they share the parameters.
      before->stream()->Record(*part.earlier_done);
      stream->WaitFor(*part.earlier_done);
    }
    for (const auto& [from, to] : part.feeds) FeedInput(*part.program, from, to);
    part.program->Start();
    before = part.program.get();
  }
  program->Finish();
  for (const TimedPart& part : others) part.program->Finish();
}

std::vector<Program*> TimedNet::Programs() const {
  std::vector<Program*> programs = {program.get()};
  for (const TimedPart& part : others) programs.push_back(part.program.get());
  return programs;
}

std::unique_ptr<TimedNet> MakeTimedNet(const NetParameter& net, Phase phase, const CompileOptions& compile,
                                       const TimedOptions& options) {
  return MakeTimedNet({&net, 1}, phase, compile, options);
}

std::unique_ptr<TimedNet> MakeTimedNet(std::span<const NetParameter> params, Phase phase, const CompileOptions& compile,
                                       const TimedOptions& options) {
  const SlowPhase said("building the net");
  auto timed = std::make_unique<TimedNet>(compile.device);
  const SolverParameter solver = SolverOf(options.solver);
  const int64_t begin = NowMicros();
  std::vector<BuiltNet> nets;
  for (const NetParameter& param : params) nets.push_back(BuildTimedNet(param, phase, options));
  AddFeeds(nets);
  const auto compute_of = [&](const BuiltNet& net) {
    return options.has_precision ? compile.compute : PrecisionOf(solver, net.param, compile.compute);
  };
  std::vector<std::vector<Filling>> fillings;
  std::vector<std::vector<std::string>> scalars(nets.size());
  for (size_t i = 0; i < nets.size(); ++i) {
    BuiltNet& net = nets[i];
    AddBlobs(net.blobs, kSeed, timed->store);
    AddKept(net, StrCat("time", i), timed->store);
    const TrainTurn turn = i < options.turns.size() ? options.turns[i] : TrainTurn();
    fillings.push_back(DescribeFillings(net, turn, *timed));
    if (phase == TRAIN) {
      scalars[i] = AddTraining(net, solver, turn, compute_of(net), timed->store);
    } else {
      for (const BuiltNet::Output& output : net.outputs) net.graph.AddOutput(output.name, output.value);
    }
  }
  const int64_t built = NowMicros();
  for (size_t i = 0; i < nets.size(); ++i) {
    CompileOptions compile_options = compile;
    compile_options.name = nets[i].param.name();
    compile_options.compute = compute_of(nets[i]);
    compile_options.keep32_layers = LayersInFloat32(nets[i].param);
    compile_options.inference = phase == TEST;
    compile_options.recompute = compile.recompute || solver.recompute();
    compile_options.releases_states = phase == TEST && nets.size() == 1;
    TimedPart part{Compile(std::move(nets[i].graph), timed->store, compile_options), {}, nullptr};
    if (i > 0) part.feeds = TakeFeeds(*part.program, fillings[i], timed->Programs());
    Fill(*part.program, fillings[i]);
    KeepOnDevice(*part.program, fillings[i]);
    for (const std::string& name : scalars[i])
      part.program->input(name).as<float>()[0] = static_cast<float>(UpdateInput(solver, name, 0));
    if (i == 0) {
      timed->program = std::move(part.program);
      continue;
    }
    if (part.program->stream() != nullptr) part.earlier_done = MakeEvent(compile.device);
    timed->others.push_back(std::move(part));
  }
  timed->build_ms = static_cast<double>(built - begin) * 1e-3;
  timed->compile_ms = static_cast<double>(NowMicros() - built) * 1e-3;
  return timed;
}

}  // namespace moka
