// Each function holds the net's lock while it reads or writes: a pass in another thread waits.
#include "optim/layerwise/net_files.h"

#include <vector>

#include "core/log.h"
#include "core/text.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/checkpoint/trained_weights.h"
#include "optim/checkpoint/weights_file.h"
#include "proto/weights/weights.h"

namespace moka {

void CopyWeights(const std::string& files, LayerwiseNet& net) {
  net.WithWeights([&](const std::vector<NetBlob>& blobs, ParameterStore& store) {
    const std::vector<std::string> missing = ReadWeightFiles(files, blobs, store);
    if (missing.empty()) return;
    LogWarning(StrCat(files, ": no weights of ", missing.size() == 1 ? "layer " : "layers ", Join(missing, ", "),
                      ", which keep the values they have"));
  });
}

void CopyTrainedWeights(const std::string& files, LayerwiseNet& net) {
  net.WithWeights(
      [&](const std::vector<NetBlob>& blobs, ParameterStore& store) { LoadTrainedWeights(files, blobs, store); });
}

void SaveWeights(const LayerwiseNet& net, const std::string& path) {
  net.WithWeights([&](const std::vector<NetBlob>& blobs, ParameterStore& store) {
    WriteWeightsFile(path, net.net_param(), WeightsOf(blobs, store));
  });
}

void SaveHdf5Weights(const LayerwiseNet& net, const std::string& path) {
  net.WithWeights([&](const std::vector<NetBlob>& blobs, ParameterStore& store) {
    WriteHdf5Weights(path, net.net_param(), WeightsOf(blobs, store));
  });
}

}  // namespace moka
