// Nets for inference: as written for deployment, or derived from the test phase of a training net.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

// From a net filtered for TEST: the first data layer becomes an Input of `input_shape` (its transform_param kept),
// layers that need labels go, and a SoftmaxWithLoss becomes Softmax "prob", a SigmoidCrossEntropyLoss Sigmoid, unless
// the net has such a layer of its own. A net whose inputs are Input layers already only gets the shape's batch
// dimension. Errors: kConfig when nothing is left to compute.
NetParameter DeployNet(const NetParameter& net, const Shape& input_shape);

// The scores that DeployNet makes the answer of a net that is trained: of several losses those of the one that an
// Accuracy or another measure reads, of those that are alike in this one of the types above, of these the one of the
// largest loss_weight, of equal ones the last.
struct DeployedScores {
  std::string loss;            // the layer's name
  std::string bottom;          // the blob that it compares with the labels
  std::string top;             // the blob that holds its softmax or sigmoid; of a loss of another type `bottom`
  bool is_regression = false;  // the blob's values are no scores but the numbers that are asked for
  std::vector<std::string> other_losses = {};
};

// Nothing for a net without a loss. `net`: as DeployNet's.
std::optional<DeployedScores> DeployedScoresOf(const NetParameter& net);

// The Input layer a picture goes to: the first. Errors: kConfig if there is none.
const LayerParameter& ImageInput(const NetParameter& deploy);

}  // namespace moka
