// A train net whose layers are on several ranks, as one of them runs it: the programs of its stage, an iteration of
// them, and what the net gives, which is here and there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport/communicator.h"
#include "graph/program.h"
#include "layers/net/net.h"
#include "optim/output_value.h"
#include "optim/pipeline/pipeline_stage.h"
#include "optim/step/step_program.h"
#include "optim/step/training_graph.h"
#include "optim/strategies/strategy.h"

namespace moka {

class TrainPipeline {
 public:
  // Compiles the stage that the step was cut into; `forward` comes to have the program that takes data, and the
  // update's. The world, `forward` and the solver must outlive it. Errors: those of Compile.
  TrainPipeline(Communicator& world, TrainingGraph& step, const CompileOptions& options, ParameterStore& store,
                StepProgram& forward);

  // An iteration: `load` fills the data of each micro-batch. The mean loss of the batches, and what all ranks wish.
  // Errors: kPeer.
  double Step(const std::function<void(int micro_batch)>& load, Wishes& wishes);

  // Outputs of the last micro-batch, in Caffe's order, on all ranks. Errors: kPeer.
  std::vector<OutputValue> Outputs() const;

 private:
  // An output of the net, which one of the stages computes.
  struct Output {
    std::string name;
    double loss_weight = 0;
    int64_t elements = 0;
    Tensor values;  // no data where another stage does
  };

  Communicator& world_;
  StepProgram& forward_;
  int micro_batches_;
  std::vector<Output> outputs_;
  Tensor loss_;  // no data where another stage computes it
  std::unique_ptr<Program> backward_;
  std::unique_ptr<PipelineStage> stage_;
};

}  // namespace moka
