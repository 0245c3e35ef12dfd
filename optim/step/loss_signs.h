// Losses that are never negative while their bottoms are what they should be. One that is negative all the same falls
// without end and teaches nothing (a mask of 0 and 255 where 0 and 1 belong), so it is said once what must be wrong.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "optim/output_value.h"
#include "proto/moka.pb.h"

namespace moka {

class LossSigns {
 public:
  explicit LossSigns(const NetParameter& net);

  // Warns of the net's outputs that are such losses and negative, once of each.
  void Look(const std::vector<OutputValue>& outputs);

 private:
  std::map<std::string, std::string> warnings_;  // by output; gone when said
};

}  // namespace moka
