// What a train net has when it is trained as a pipeline: the stage of this rank, and which stage owns what.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "optim/pipeline/pipeline_stage.h"

namespace moka {

struct TrainPipeline {
  std::map<std::string, int> stage_of_layer;
  std::map<std::string, int> stage_of_state;  // weights, statistics and slots
  std::vector<std::string> outputs;           // of the net, those that this stage computes
  bool has_loss = false;                      // whether this stage computes it
  std::unique_ptr<Program> backward;
  std::unique_ptr<PipelineStage> stage;
};

}  // namespace moka
