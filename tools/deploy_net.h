// Nets for inference: as written for deployment, or derived from the test phase of a training net.
#pragma once

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

// From a net filtered for TEST: the first data layer becomes an Input of `input_shape` (its transform_param kept),
// layers that need labels go, SoftmaxWithLoss becomes Softmax "prob" and SigmoidCrossEntropyLoss Sigmoid. A net whose
// inputs are Input layers already only gets the shape's batch dimension. Errors: kConfig when nothing is left to
// compute.
NetParameter DeployNet(const NetParameter& net, const Shape& input_shape);

// The Input layer a picture goes to: the first. Errors: kConfig if there is none.
const LayerParameter& ImageInput(const NetParameter& deploy);

}  // namespace moka
