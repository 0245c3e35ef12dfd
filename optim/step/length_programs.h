// How a net of fewer steps, which a net's shorter batches run on, is made of the same text
// (optim/step/length_programs.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "optim/step/train_net.h"

namespace moka {

// Lives while the shorter net is built.
struct TrainNet::Shortened {
  const TrainNet* whole;  // the net of the text
  std::string layer;      // its TextPairData layer
  uint32_t steps;

  // The text with at most `steps` steps of source and target.
  NetParameter Net(NetParameter net) const;
  // Of a data layer's tops: of the shortened layer by its fields, of the others as in the whole net.
  std::vector<TensorType> Types(const LayerParameter& param) const;
};

}  // namespace moka
