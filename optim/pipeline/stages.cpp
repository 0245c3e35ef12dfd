// Reads pipeline_stage of the layers: no layer may be of a stage before that of what it reads. Refuses parameters that
// two stages would share.
#include "optim/pipeline/stages.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "proto/text/places.h"

namespace moka {

bool HasStages(const NetParameter& net) {
  return std::ranges::any_of(net.layer(), [](const LayerParameter& layer) { return layer.has_pipeline_stage(); });
}

std::map<std::string, int> StagesOf(const NetParameter& net, int ranks) {
  std::map<std::string, int> stages;
  std::map<std::string, int> of_top;
  int stage = 0;
  int last = 0;
  for (const LayerParameter& layer : net.layer()) {
    if (layer.has_pipeline_stage()) stage = layer.pipeline_stage();
    if (stage < 0 || stage >= ranks) {
      throw ErrorAt(layer, "pipeline_stage",
                    StrCat("layer \"", layer.name(), "\" is of pipeline stage ", stage, ", and there ",
                           ranks == 1 ? std::string("is 1 rank") : StrCat("are ", ranks, " ranks")),
                    stage < 0 ? "stages count from 0" : StrCat("start ", stage + 1, " ranks: mpirun -np ", stage + 1));
    }
    last = std::max(last, stage);
    for (const std::string& bottom : layer.bottom()) {
      const auto it = of_top.find(bottom);
      if (it == of_top.end() || it->second <= stage) continue;
      throw ErrorAt(layer, "pipeline_stage",
                    StrCat("layer \"", layer.name(), "\" of pipeline stage ", stage, " reads \"", bottom,
                           "\", which stage ", it->second, " computes"),
                    StrCat("give it pipeline_stage: ", it->second, " or a later one"));
    }
    stages[layer.name()] = stage;
    if (layer.bottom_size() == 0) continue;
    for (const std::string& top : layer.top()) of_top[top] = stage;
  }
  if (last + 1 < ranks) {
    throw Error(ErrorKind::kConfig, PlaceOf(net),
                StrCat("the net \"", net.name(), "\" has layers for ", last + 1, " pipeline stages, and there are ",
                       ranks, " ranks"),
                StrCat("start ", last + 1, " ranks, or give layers a pipeline_stage up to ", ranks - 1));
  }
  return stages;
}

void RefuseSharing(const NetParameter& net, std::span<const NetBlob> blobs, const std::map<std::string, int>& stages) {
  std::map<std::string, const NetBlob*> owners;
  for (const NetBlob& blob : blobs) {
    const NetBlob& owner = *owners.try_emplace(blob.name, &blob).first->second;
    const int stage = stages.at(blob.layer);
    if (stages.at(owner.layer) == stage) continue;
    const auto layer = std::ranges::find_if(net.layer(), [&](const auto& l) { return l.name() == blob.layer; });
    throw ErrorAt(*layer, "pipeline_stage",
                  StrCat("layer \"", blob.layer, "\" of pipeline stage ", stage, " shares \"", blob.name,
                         "\" with layer \"", owner.layer, "\" of stage ", stages.at(owner.layer)),
                  "give layers that share a parameter one stage");
  }
}

void RefuseInPipeline(const SolverParameter& solver) {
  const auto refuse = [&](bool is_given, std::string_view field, std::string_view text, std::string_view hint) {
    if (!is_given) return;
    throw Error(ErrorKind::kUnavailable, PlaceOf(solver, field),
                StrCat(field, text.empty() ? "" : " ", text, " does not work with pipeline_stage yet"),
                std::string(hint));
  };
  refuse(solver.iter_size() > 1, "iter_size", "above 1", "raise distributed { micro_batches } instead");
  refuse(solver.clip_gradients() >= 0, "clip_gradients", "(a norm over the gradients of all stages)",
         "train without it, or without pipeline_stage");
  refuse(solver.snapshot_diff(), "snapshot_diff", "", "train without it");
  if (solver.distributed().micro_batches() < 1) {
    throw Error(ErrorKind::kConfig, PlaceOf(solver, "distributed"),
                StrCat("distributed.micro_batches is ", solver.distributed().micro_batches()), "take at least 1");
  }
}

}  // namespace moka
