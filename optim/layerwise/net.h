// A net run layer by layer as Caffe runs it: every blob's values and gradient can be read and written between layers,
// passes start and end at any layer, blobs can take new shapes, and layers may be written outside Moka. It is slower
// than a whole net compiled into one program (optim/step/train_net.h), which is what trainings should use.
//
// Where a blob is read more than once there are Split layers as in Caffe. A top's diff is its loss weight from the
// start; Backward reads whatever the diffs hold. Gradients of parameters add up until ClearParamDiffs.
//
// One thread at a time works on a net: Forward, Backward and Reshape lock it, so that others wait.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/pipeline/pipeline.h"
#include "optim/layerwise/external_layer.h"
#include "optim/layerwise/layer_program.h"
#include "optim/step/order_names.h"

namespace moka {

struct LayerwiseOptions {
  NetState state;
  uint64_t seed = 0;
  SolverParameter::RecordChecks record_checks = SolverParameter::EVERY_READ;
  ExternalLayers external;
  // Shared with other nets by name ("layer/index" or ParamSpec.name); null: its own.
  std::shared_ptr<SharedParameters> parameters;
};

class LayerwiseNet {
 public:
  struct Layer {
    LayerParameter param;
    std::vector<int> bottom_ids;  // of blobs().all
    std::vector<int> top_ids;
    BlobList bottoms;
    BlobList tops;
    std::shared_ptr<BlobList> blobs;  // its parameters
    std::vector<NetBlob> net_blobs;   // one a parameter; named by the key of the store
    std::vector<double> loss_weights;
    bool visits = false;  // by Backward
    std::vector<char> wanted_bottoms;
    std::vector<char> wanted_blobs;
    bool is_split = false;
    bool is_fed = false;
    bool is_set_up = false;
    std::unique_ptr<LayerProgram> program;    // null: split or external
    std::unique_ptr<ExternalLayer> external;  // null: one of Moka's
  };
  struct Blobs {
    BlobList all;
    std::vector<std::string> names;
    std::vector<double> loss_weights;
    std::vector<int> inputs;   // tops of Input layers
    std::vector<int> outputs;  // which nobody reads
  };
  enum class Hook { kBeforeForward, kAfterForward, kBeforeBackward, kAfterBackward };

  // Errors: those of BuildNet, of data sources and of external layers.
  LayerwiseNet(const NetParameter& param, LayerwiseOptions options);
  LayerwiseNet(const LayerwiseNet&) = delete;
  LayerwiseNet& operator=(const LayerwiseNet&) = delete;
  ~LayerwiseNet();

  const std::string& name() const { return param_.name(); }
  const NetParameter& net_param() const { return param_; }
  const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  const Blobs& blobs() const { return blobs_; }

  // Layers start..end in order; the loss of those. Backward: start down to end. Errors: kUsage for an index out of
  // range; kConfig when a layer cannot take its bottoms' shapes; those of Run and of external layers.
  double Forward(int start, int end);
  void Backward(int start, int end);
  // Gives every blob the shape that follows from the inputs' present shapes.
  void Reshape();
  void ClearParamDiffs();
  // Called with the layer's index around each layer's work, on the same thread.
  void AddHook(Hook hook, std::function<void(int)> call);

  // Calls `use` with the parameters of all layers and where their values are, while no pass runs.
  void WithWeights(const std::function<void(const std::vector<NetBlob>& blobs, ParameterStore& store)>& use) const;
  // From now on the parameters of layers of the same name are the other net's. Errors: kConfig when shapes differ.
  void ShareWith(const LayerwiseNet& other);

  // The parameters of all layers, shared ones once a use.
  std::vector<NetBlob> net_blobs() const;
  // The blob of a key of the store. Requires: it is there.
  const std::shared_ptr<Blob>& parameter(const std::string& key) const;
  const std::shared_ptr<SharedParameters>& parameters() const { return parameters_; }
  // Returns the pipeline of a data layer; null if the layer has none.
  Pipeline* pipeline(const std::string& layer) const;

 private:
  void MakeExternals();
  void CheckWhole();
  void AddLayer(const LayerParameter& param);
  int WriteTop(const LayerParameter& param, int i);
  void SetUpLayer(Layer& layer);
  void AddParameters(Layer& layer);
  void AddParameter(Layer& layer, NetBlob blob, size_t index);
  void SeedLosses(Layer& layer);
  void Plan();
  NetOptions OptionsOf() const;
  DataTypes PipelineTypes() const;

  void FitLayer(Layer& layer);
  void NextBatch(Layer& layer);
  double ForwardLayer(int index);
  void BackwardLayer(int index);
  void CheckRange(int first, int last) const;
  void Run(Hook hook, int index);
  void Rebind(std::shared_ptr<SharedParameters> parameters, const std::map<std::string, std::string>& keys);

  LayerwiseOptions options_;
  NetParameter param_;                                               // filtered, without splits
  std::map<std::string, std::unique_ptr<ExternalLayer>> externals_;  // by layer, until the layer is made
  mutable std::map<std::string, std::unique_ptr<Pipeline>> pipelines_;
  mutable OrderNames orders_;
  std::shared_ptr<SharedParameters> parameters_;
  std::map<std::string, std::shared_ptr<Blob>> owned_;  // by key: the first use of each parameter
  std::vector<std::unique_ptr<Layer>> layers_;
  Blobs blobs_;
  std::map<std::string, int> blob_ids_;
  std::map<int, int> unread_;  // blob -> layer that wrote it, while nobody reads it
  std::array<std::vector<std::function<void(int)>>, 4> hooks_;
  int64_t passes_ = 0;
  mutable std::recursive_mutex mutex_;
};

// All layers: the loss of the net; the gradients that follow from the diffs.
inline double ForwardAll(LayerwiseNet& net) { return net.Forward(0, static_cast<int>(net.layers().size()) - 1); }
inline void BackwardAll(LayerwiseNet& net) { net.Backward(static_cast<int>(net.layers().size()) - 1, 0); }

}  // namespace moka
