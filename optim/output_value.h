// A number that a net gives, as logs and results print it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace moka {

// An element of a net's output, as Caffe prints it.
struct OutputValue {
  std::string name;
  double value = 0;
  double loss_weight = 0;
  // For outputs that are evaluated class by class: the value of each class (an average precision, an intersection over
  // union), whose mean `value` is.
  std::map<int64_t, double> classes = {};
};

}  // namespace moka
