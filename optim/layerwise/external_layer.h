// A layer whose code lives outside Moka (a Python class): Caffe's layer interface over blobs.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "optim/layerwise/blob.h"
#include "proto/moka.pb.h"

namespace moka {

using BlobList = std::vector<std::shared_ptr<Blob>>;

class ExternalLayer {
 public:
  virtual ~ExternalLayer() = default;
  // Once, before the first Reshape: may add parameters to blobs().
  virtual void SetUp(const BlobList& bottoms, const BlobList& tops) = 0;
  // Gives the tops their shapes; called before every Forward.
  virtual void Reshape(const BlobList& bottoms, const BlobList& tops) = 0;
  virtual void Forward(const BlobList& bottoms, const BlobList& tops) = 0;
  virtual void Backward(const BlobList& tops, const std::vector<char>& propagate_down, const BlobList& bottoms) = 0;
  // The layer's parameters.
  virtual const std::shared_ptr<BlobList>& blobs() = 0;
};

// Null when the layer is not an external one, or is better made of Moka's own.
using ExternalLayers = std::function<std::unique_ptr<ExternalLayer>(const LayerParameter&)>;

}  // namespace moka
