// Layer types: a LayerDef turns one LayerParameter into ops. Stateless rows, each a function `LayerDef NAME()` in the
// file of its type (layers/types, layers/forks); the build finds them (tools/cmake/moka_rows.cmake).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "proto/moka.pb.h"

namespace moka {

enum class ParameterRole : uint8_t {
  kWeight,     // decays, has LARS norms
  kBias,       // decay may be skipped by the solver
  kNorm,       // scale and shift of a normalisation
  kStatistic,  // running mean and variance: written by the forward pass, never by the optimiser
};

// A learnable (or running) blob of a net: entry of the ParameterStore.
struct NetBlob {
  std::string name;  // store key: ParamSpec.name if given, else "layer/index"
  std::string layer;
  int index = 0;  // position among the layer's blobs, as in a .caffemodel
  Shape shape;
  FillerParameter filler;
  ParameterRole role = ParameterRole::kWeight;
  double lr_mult = 1;
  double decay_mult = 1;
  ValueId state = kNoId;
  bool shared = false;  // another layer owns it (same ParamSpec.name, earlier)
};

// What a layer keeps for itself from one run of a program to the next (a recurrent layer's last hidden state): zero at
// first, never trained, in no weights' file, of one net only.
struct KeptState {
  std::string name;  // "layer/@h"
  Shape shape;
  ValueId state = kNoId;
};

// A layer fed from outside: its tops are graph inputs.
struct DataLayer {
  LayerParameter param;
  std::vector<std::string> tops;
  std::vector<TensorType> types;
};

// Shapes of the tops of a data layer, asked from the data room by whoever builds the net (opens the source).
using DataTypes = std::function<std::vector<TensorType>(const LayerParameter&)>;

class LayerBuilder;

// What a layer's reference page says beyond its doc.
struct LayerPage {
  std::vector<std::string> params = {};  // fields of LayerParameter it reads: "pooling_param", "loss_param"
  std::string formula = {};              // of the tops
  std::string gradient = {};             // of bottoms and parameters; "None: ..." if it has none
  std::string source = {};               // the paper, and the code whose semantics it has
  std::string example = {};              // prototxt of a whole small net, which the tests build and run
};

struct LayerDef {
  std::string type;
  std::string doc;  // one paragraph: what it does, its fields, shapes
  int min_bottoms = 1;
  int max_bottoms = 1;  // -1: any number
  int min_tops = 1;
  int max_tops = 1;  // -1: any number
  // As many tops as bottoms (Convolution works on each bottom alone).
  bool equal_counts = false;
  // Tops that are not written down are made all the same, without a name (losses of old nets have none).
  bool auto_tops = false;
  void (*build)(LayerBuilder&) = nullptr;
  LayerPage page = {};
};

// What a layer's build function works with.
class LayerBuilder {
 public:
  struct Context;  // the net builder's state (layers/net/net_context.h)
  LayerBuilder(Context& context, const LayerParameter& param, std::vector<ValueId> bottoms);

  const LayerParameter& param() const { return param_; }
  Phase phase() const { return param_.phase(); }
  // Whether the net has a layer of this type: some forks' layers of one name differ, and only the net tells which.
  bool NetHas(std::string_view type) const;
  const GraphBuilder& b() const { return b_; }

  int bottom_count() const { return static_cast<int>(bottoms_.size()); }
  int top_count() const;
  // Checked against LayerDef before build runs. The value already stops gradients where propagate_down is false.
  ValueId bottom(int i) const { return bottoms_[static_cast<size_t>(i)]; }
  const std::vector<ValueId>& bottoms() const { return bottoms_; }
  Shape shape(int i) const { return b_.shape(bottom(i)); }

  // Declares learnable blob `index` and returns its value, of this shape. lr_mult, decay_mult and sharing come from
  // param(index); statistics are never trained. `filler_field` is the filler's place ("scale_param.filler").
  // Errors: kConfig for a bad filler, and when a shared blob's shape differs (both layers named).
  ValueId AddBlob(int index, const Shape& shape, const FillerParameter& filler, ParameterRole role,
                  std::string_view filler_field = {});
  // After each run blob `index` takes the value (running statistics).
  void Assign(int index, ValueId value);
  // A state this layer keeps between runs ("h" of layer "lstm1" is "lstm1/@h"), and the value it takes after each run.
  ValueId AddKept(std::string_view name, const Shape& shape);
  void AssignKept(ValueId state, ValueId value) { b_.graph().Assign(state, value); }
  // The int64 scalar input "random_key", a new number each run; the same for every layer.
  ValueId RandomKey();
  // Makes the tops graph inputs, fed from outside. Requires: a type for each top.
  void AddData(const std::vector<TensorType>& types);
  // NetOptions::feeds_python_data.
  bool FeedsPythonData() const;
  // NetOptions::ranks.
  int64_t ranks() const;
  // What is counted in this rank's part of the batch as the mean over all ranks, with no gradient: the mean over ranks
  // of sum / MeanOverRanks(count) is the sum of all over the count of all. `use` tells several counts of a layer apart.
  // Where the step cannot ask the ranks it stays this rank's, which is told before the training.
  ValueId MeanOverRanks(ValueId count, std::string_view use = "count") const;
  // Several ranks do not compute here what one does, which is told before the training. Nothing for one rank.
  void NoteUnequal(std::string why) const;
  // Whether a value has an item for each sample of this rank's part of a batch along its first axis.
  bool IsBatch(ValueId value) const;
  // Whether it depends on what data layers give.
  bool ReadsData(ValueId value) const;
  // The types whoever builds the net gives for this layer's tops.
  std::vector<TensorType> AskDataTypes() const;

  // Requires: 0 <= i < top_count().
  void SetTop(int i, ValueId value);
  // Top i's weight in the total loss when the net file gives none; a weight multiplies the sum of the top's elements.
  void SetLoss(int i, double default_weight);

  // Throws Error(kConfig) at the place of a field of this layer ("convolution_param.kernel_size"), layer named.
  [[noreturn]] void Fail(std::string_view field, const std::string& text, std::string hint = {}) const;
  // Fail unless the condition holds.
  void Check(bool condition, std::string_view field, const std::string& text) const {
    if (!condition) Fail(field, text);
  }

 private:
  Context& context_;
  const LayerParameter& param_;
  std::vector<ValueId> bottoms_;
  GraphBuilder b_;
};

// The rows of this build in no order that matters.
std::vector<LayerDef> LayerRows();
// All layer types, sorted by type.
const std::vector<LayerDef>& AllLayers();
// Null if unknown.
const LayerDef* FindLayer(std::string_view type);

}  // namespace moka
