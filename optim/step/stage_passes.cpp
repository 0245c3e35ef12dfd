// The passes of a training step that is cut into stages. The net is differentiated as a whole and then cut, so a stage
// computes what one rank computes of its layers, and an iteration of m micro-batches is one with iter_size m.
#include "core/error.h"
#include "layers/net/catalog.h"
#include "optim/pipeline/stages.h"
#include "optim/step/training_passes.h"
#include "proto/text/places.h"

namespace moka::training_passes {

void PrepareStages(TrainingGraph& step) {
  RefuseSharing(step.net.param, step.net.blobs, step.spec.stages->of_layer);
  if (step.spec.scaling.is_dynamic || step.spec.scaling.scale != 1) {
    throw Error(ErrorKind::kUnavailable, PlaceOf(step.spec.solver),
                "a pipeline trains without a scale of its loss so far",
                "take float32 or bfloat16, without global_grad_scale");
  }
  // The loss is another stage's and comes after the statistics: of these each keeps what it was where a batch gives it
  // something that is not finite.
  Graph& graph = step.net.graph;
  for (size_t i = 0; i < graph.assignments().size(); ++i) {
    const Assignment old = graph.assignments()[i];
    const NodeId producer = graph.value(old.value).producer;
    if (producer == kNoId) continue;
    const GraphBuilder b(graph, graph.node(producer).origin);  // on the same stage
    graph.assignments()[i].value = b.Pointwise("select(le(abs(x0),3e38),x0,x1)", {old.value, old.state});
  }
  step.first_backward = graph.node_limit();
}

void CutIntoStages(TrainingGraph& step) {
  const StepStages& stages = *step.spec.stages;
  const PartitionSpec cut{.stage_of = stages.of_layer, .first_backward = step.first_backward, .stages = stages.count};
  step.stages = Partition(step.net.graph, cut, stages.own);
  std::vector<NetBlob> own;
  for (const NetBlob& blob : step.reached) {
    if (stages.of_layer.at(blob.layer) == stages.own) own.push_back(blob);
  }
  // All slots are in every store, so that whoever writes a checkpoint has them.
  const TrainingSpec& spec = step.spec;
  step.updates = BuildUpdateGraph(StandardCatalog(), spec.solver, step.reached, &spec.param, spec.scaling).updates;
  step.apart = BuildUpdateGraph(StandardCatalog(), spec.solver, own, &spec.param, spec.scaling);
  step.updates.inputs = step.apart->updates.inputs;
}

}  // namespace moka::training_passes
