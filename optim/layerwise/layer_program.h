// One layer of a net as programs of its own: forward, and backward made by autodiff when it is first wanted. Each layer
// is built as a small net (its bottoms as inputs, then the layer itself), so it is exactly the layer that whole-net
// programs run. Programs are compiled for the bottoms' shapes of the moment; other shapes build them anew.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/device/tensor.h"
#include "graph/parameter_store.h"
#include "graph/program.h"
#include "layers/net/net.h"
#include "optim/layerwise/blob.h"

namespace moka {

// The parameters of the nets that share them. Compiling a program writes into the store, which the mutex keeps to one
// thread at a time; running programs only touches the values.
struct SharedParameters {
  ParameterStore store;
  std::mutex compiling;
};

class LayerProgram {
 public:
  // The description that a layer gives of itself for the present bottoms.
  struct Description {
    std::vector<Shape> tops;
    std::vector<double> loss_weights;  // one a top
    std::vector<NetBlob> blobs;        // named "layer/index"
    bool is_fed = false;               // a data layer: somebody else fills the tops
  };

  // `param` has its own name, type and phase; bottom and top names that are unique in it, in-place tops aside.
  LayerProgram(LayerParameter param, NetOptions options);
  LayerProgram(const LayerProgram&) = delete;
  LayerProgram& operator=(const LayerProgram&) = delete;
  ~LayerProgram();

  // Requires: a shape a bottom. Errors: those of BuildNet.
  const Description& Build(const std::vector<Shape>& bottoms);
  const std::vector<Shape>& bottoms() const { return bottoms_; }
  const Description& description() const { return description_; }

  // Where the layer's blobs lie: a key of the store for each. Programs made before are dropped.
  void Bind(std::shared_ptr<SharedParameters> parameters, std::vector<std::string> keys);
  const std::vector<std::string>& keys() const { return keys_; }

  // Computes the tops. Requires: Build for these shapes, Bind; the layer is not fed. Errors: those of Compile and Run.
  void Forward(std::span<const std::shared_ptr<Blob>> bottoms, std::span<const std::shared_ptr<Blob>> tops,
               int64_t random_key);

  struct BackwardWish {
    std::vector<char> bottoms;  // whose diffs are wanted; others are left alone
    std::vector<char> blobs;    // whose diffs are added to
  };
  // From the tops' diffs to the bottoms' diffs (written) and the blobs' (added). Uses the random key of the last
  // Forward, and what the bottoms held then where the layer works in place. Bottoms without a gradient get zeros.
  void Backward(std::span<const std::shared_ptr<Blob>> tops, std::span<const std::shared_ptr<Blob>> bottoms,
                std::span<const std::shared_ptr<Blob>> blobs, const BackwardWish& wish);

 private:
  BuiltNet BuildGraph();
  void DropPrograms();
  void NameStates(BuiltNet& net) const;
  void AddKept(const BuiltNet& net);
  void CompileForward();
  void CompileBackward(const BackwardWish& wish);
  int FirstUse(int bottom) const;  // the first bottom of the same name

  LayerParameter param_;
  NetOptions options_;
  std::vector<Shape> bottoms_;
  Description description_;
  bool has_told_ = false;  // which of its fields change nothing
  std::shared_ptr<SharedParameters> parameters_;
  std::vector<std::string> keys_;
  // The states that the layer keeps from one forward pass to the next (a recurrent layer's last hidden state), zero at
  // first, and their values before the last pass, from which backward starts. Names in the store, of this object only.
  std::vector<std::string> kept_;
  std::vector<std::string> kept_before_;
  std::vector<std::pair<Tensor, Tensor>> kept_values_;  // of both: the store is looked into under its mutex only
  std::unique_ptr<Program> forward_;
  std::unique_ptr<Program> backward_;
  BackwardWish backward_wish_;
  std::vector<char> has_bottom_gradient_;
  std::vector<char> has_blob_gradient_;
  int64_t random_key_ = 0;
};

}  // namespace moka
