// A layerwise net's weights in files.
#pragma once

#include <string>

#include "optim/layerwise/net.h"

namespace moka {

// Weights by layer name: a comma-separated list of files. A warning names the layers that none of them has, which keep
// the values they have. Errors: those of LoadWeights.
void CopyWeights(const std::string& files, LayerwiseNet& net);
// The weights of a trained net (optim/checkpoint/trained_weights.h). Errors: kBadData naming the layers that no file
// has.
void CopyTrainedWeights(const std::string& files, LayerwiseNet& net);
// In the format of the name (optim/checkpoint/weights_file.h).
void SaveWeights(const LayerwiseNet& net, const std::string& path);
// As Caffe's HDF5 weights (.caffemodel.h5); CopyWeights reads them.
void SaveHdf5Weights(const LayerwiseNet& net, const std::string& path);

}  // namespace moka
