// A trained net compiled for so many samples a run, and which of its outputs answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/parameter_store.h"
#include "graph/program.h"
#include "tools/infer/source.h"
#include "tools/nets/deploy_net.h"

namespace moka {

// The weights of a net, which programs for several numbers of samples may share.
using SharedWeights = std::shared_ptr<ParameterStore>;

// One thread.
class DeployedNet {
 public:
  // The inputs that whoever runs the net fills: the first, which pictures go to, or all.
  enum class Fills : uint8_t { kFirst, kAll };

  // For `batch` samples a run. Errors: those of reading and building the net and of loading the weights; kConfig where
  // the inputs to fill reach no output, and where another input reaches every output; kUsage for a `blob` the net does
  // not have. With a blob that alone is the output. `weights`: of a net compiled before from the same source, null: its
  // own.
  DeployedNet(const InferSource& source, int64_t batch, Fills fills, const std::string& blob = {},
              SharedWeights weights = {});

  int64_t batch() const { return batch_; }
  const Program& program() const { return *program_; }
  const SharedWeights& weights() const { return weights_; }
  // The net that was compiled: of Input layers.
  const NetParameter& deploy() const { return deploy_; }
  // Those that are to be filled, in the order of the net.
  const std::vector<std::string>& inputs() const { return inputs_; }
  // Returns those of the net's outputs, in the order of its text, that the inputs alone give; where there is none,
  // the scores that answer.
  const std::vector<std::string>& outputs() const { return outputs_; }
  Tensor output(const std::string& name) const { return program_->output(name); }
  // The output that answers: the scores of a training net's loss (tools/nets/deploy_net.h), else the last of outputs().
  const std::string& answer() const { return scores_ ? scores_->top : outputs_.back(); }
  // Returns the loss whose scores answer; nothing where they are those of no loss.
  const std::optional<DeployedScores>& scores() const { return scores_; }
  // The layer that writes an output last. Requires: the net has that output.
  const LayerParameter& WriterOf(const std::string& output) const;

  // Runs the net over the first `used` samples. Errors: those of CheckScores of their outputs and of the answer.
  void Run(int64_t used);
  // Whether layers keep states between runs: recurrent ones begin with that after the last step of the run before.
  bool keeps_state() const { return !kept_.empty(); }
  // The states that they keep now, and with which they begin the next run; empty: zeros, as at first.
  std::vector<float> State() const;
  void SetState(std::span<const float> state);
  // Runs the net and looks at nothing: what is in a row concerns its owner alone.
  void RunRows() { program_->Run(); }

 private:
  int64_t batch_;
  NetParameter deploy_;
  SharedWeights weights_;
  std::unique_ptr<Program> program_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
  std::optional<DeployedScores> scores_;
  std::vector<std::string> kept_;  // in the store of weights
  bool told_infinite_ = false;
};

}  // namespace moka
