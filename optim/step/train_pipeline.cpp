// TrainNet: as a pipeline. The net is differentiated as a whole and then cut, so a stage computes what one rank
// computes of its layers, and an iteration of m micro-batches is one with iter_size m.
#include "optim/step/train_pipeline.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "layers/net/catalog.h"
#include "optim/pipeline/stages.h"
#include "optim/step/train_net.h"
#include "optim/step/unreached_blobs.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// The loss is another stage's and comes after the statistics: of these each keeps what it was where a batch gives it
// something that is not finite.
void GuardStatistics(Graph& graph) {
  for (size_t i = 0; i < graph.assignments().size(); ++i) {
    const Assignment old = graph.assignments()[i];
    const NodeId producer = graph.value(old.value).producer;
    if (producer == kNoId) continue;
    const GraphBuilder b(graph, graph.node(producer).origin);  // on the same stage
    graph.assignments()[i].value = b.Pointwise("select(le(abs(x0),3e38),x0,x1)", {old.value, old.state});
  }
}

}  // namespace

void TrainNet::AddPipeline(BuiltNet& net, const LossScaling& scaling, const CompileOptions& options,
                           ParameterStore& store) {
  RefuseSharing(net.param, blobs_, pipeline_->stage_of_layer);
  LossScale scale(net.graph, scaling);
  if (scale.seed() != kNoId) {
    throw Error(ErrorKind::kUnavailable, PlaceOf(solver_), "a pipeline trains without a scale of its loss so far",
                "take float32 or bfloat16, without global_grad_scale");
  }
  GuardStatistics(net.graph);
  const int rank = pipeline_world_->rank();
  PartitionSpec spec{.stage_of = pipeline_->stage_of_layer,
                     .first_backward = net.graph.node_limit(),
                     .stages = pipeline_world_->size()};
  const std::vector<NetBlob> trained = TrainedBlobs(blobs_);
  std::vector<ValueId> gradients = DifferentiateNet(net, trained, kNoId);
  DecayUnreached(net.graph, solver_, trained, gradients);
  AddAccumulation(net.graph, trained, gradients);
  StageGraphs graphs = Partition(net.graph, spec, rank);

  std::vector<NetBlob> reached;
  std::vector<NetBlob> own;
  for (size_t i = 0; i < trained.size(); ++i) {
    if (gradients[i] == kNoId) continue;
    reached.push_back(trained[i]);
    if (spec.stage_of.at(trained[i].layer) == rank) own.push_back(trained[i]);
  }
  // All slots are in every store, so that whoever writes a checkpoint has them.
  updates_ = BuildUpdateGraph(StandardCatalog(), solver_, reached, &param_, scaling).updates;
  for (const SlotState& slot : updates_.slots) {
    if (!store.Has(slot.name)) store.Add(slot.name, slot.shape);
  }
  for (const NetBlob& blob : blobs_) pipeline_->stage_of_state.try_emplace(blob.name, spec.stage_of.at(blob.layer));
  for (const SlotState& slot : updates_.slots) {
    pipeline_->stage_of_state[slot.name] = pipeline_->stage_of_state.at(slot.blob);
  }

  step_ = Compile(std::move(graphs.forward), store, options);
  CompileOptions other = options;
  other.name = "backward";
  pipeline_->backward = Compile(std::move(graphs.backward), store, other);
  other.name = "update";
  UpdateGraph update = BuildUpdateGraph(StandardCatalog(), solver_, own, &param_, scaling);
  updates_.inputs = update.updates.inputs;
  update_ = Compile(std::move(update.graph), store, other);
  pipeline_->outputs = step_->OutputNames();
  pipeline_->has_loss = std::ranges::find(pipeline_->outputs, kLossOutput) != pipeline_->outputs.end();
  pipeline_->stage =
      std::make_unique<PipelineStage>(*pipeline_world_, graphs, *step_, *pipeline_->backward, solver_.iter_size());
  for (const std::string& name : updates_.inputs) scalars_.push_back({name, update_->input(name)});
  if (step_->HasInput("random_key")) random_key_ = step_->input("random_key");
  if (pipeline_->has_loss) loss_ = step_->output(kLossOutput);
}

double TrainNet::StepPipeline(int64_t iteration, int plateau_step) {
  std::array<double, 1 + kWishes> sums{};
  std::ranges::copy(wishes_.wanted, sums.begin() + 1);
  pipeline_->stage->Run(
      [&](int micro_batch) {
        SetInputs(iteration, iteration, micro_batch, plateau_step);
        feed_.Next();
      },
      [&](int) {
        if (pipeline_->has_loss) sums[0] += double{loss_.as<float>()[0]};
      });
  pipeline_world_->Sum(sums);
  if (update_->HasInput("guard")) update_->input("guard").as<float>()[0] = static_cast<float>(sums[0]);
  update_->Run();
  for (size_t i = 0; i < kWishes; ++i) {
    wishes_.counted[i] = static_cast<int>(sums[1 + i]);
    if (wishes_.counted[i] > 0) wishes_.wanted[i] = 0;
  }
  return sums[0] / solver_.iter_size();
}

std::vector<OutputValue> TrainNet::PipelineOutputs() const {
  std::vector<OutputValue> values;
  std::vector<double> numbers;
  for (const BuiltNet::Output& output : outputs_) {
    const bool is_own = std::ranges::find(pipeline_->outputs, output.name) != pipeline_->outputs.end();
    const int64_t count = output_counts_.at(output.name);
    for (int64_t i = 0; i < count; ++i) {
      values.push_back({output.name, 0, output.loss_weight, {}});
      numbers.push_back(is_own ? double{step_->output(output.name).as<float>()[static_cast<size_t>(i)]} : 0);
    }
  }
  pipeline_world_->Sum(numbers);
  for (size_t i = 0; i < values.size(); ++i) values[i].value = numbers[i];
  return values;
}

}  // namespace moka
