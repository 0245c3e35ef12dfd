// Trained values in memory, as every format of weights gives and takes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

// One parameter blob: the index-th of a layer, row-major.
struct NamedBlob {
  std::string layer;
  int index = 0;
  Shape shape;
  std::vector<float> values;  // shape.Count() of them
};

struct Weights {
  std::vector<NamedBlob> blobs;
  std::map<std::string, std::string> metadata{};  // safetensors' __metadata__; a caffemodel has only "name"
  std::string format{};                           // "caffemodel", "hdf5", "npz" or "safetensors"
  // Read from a caffemodel: the net's name, and of each layer, in order, name, type, bottoms and tops.
  NetParameter net{};
  int64_t non_finite = 0;  // values that are NaN or infinite
};

}  // namespace moka
