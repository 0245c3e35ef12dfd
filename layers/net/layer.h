// Layer types: a LayerDef turns one LayerParameter into ops. Stateless rows, each a function `LayerDef NAME()` in the
// file of its type (layers/types, layers/forks); the build finds them (tools/cmake/moka_rows.cmake). What a person says
// of a type is a page beside that file (layers/net/manual_page.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/term.h"
#include "layers/net/layer_traits.h"
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

// A state that a layer keeps for itself from one run of a program to the next (a recurrent layer's last hidden state):
// zero at first, never trained, in no weights' file, of one net only.
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
class ShapeReader;
struct GuessedTypes;
struct TopNeed;
struct BottomShape;
using BottomShapes = std::vector<BottomShape>;

struct LayerDef {
  std::string type;
  int min_bottoms = 1;
  int max_bottoms = 1;  // -1: any number
  int min_tops = 1;
  int max_tops = 1;  // -1: any number
  // As many tops as bottoms (Convolution works on each bottom alone).
  bool equal_counts = false;
  // Tops that are not written down are made all the same, without a name (losses of old nets have none).
  bool auto_tops = false;
  void (*build)(LayerBuilder&) = nullptr;
  LayerTraits traits = {};
  // The tops of a layer of data whose source is not there (layers/shapes/data_guess.h); null: as a layer of pictures.
  GuessedTypes (*guess)(const LayerParameter&) = nullptr;
  // The file of words that the numbers of this top stand for; empty if they stand for none.
  std::string (*words)(const LayerParameter&, int top) = nullptr;
  // Whole numbers below this one are what its first bottom holds.
  int64_t (*rows)(const LayerParameter&) = nullptr;
  // Says what the layer needs of its bottoms' shapes in a net that could not be built (layers/shapes/shape_reader.h).
  void (*needs)(const ShapeReader&) = nullptr;
  // Returns the shapes that its bottoms need for its first top to have a given one (layers/shapes/bottom_shapes.h);
  // null: as its top_shape says.
  BottomShapes (*bottoms)(const TopNeed&) = nullptr;
  std::vector<std::string> params = {};  // fields of LayerParameter it reads: "pooling_param", "loss_param"
  // Lines that follow the page's first paragraphs where it is printed, which only the program knows; null for none.
  std::string (*page_list)() = nullptr;
};

// The interface that a layer's build function works with.
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
  // The same in a formula.
  Term Bottom(int i) const { return Term::Of(bottom(i)); }
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
  // Returns a count of this rank's part of the batch as the mean over all ranks, with no gradient: the mean over ranks
  // of sum / MeanOverRanks(count) is the sum of all over the count of all. `use` tells several counts of a layer apart.
  // Where the step cannot ask the ranks it stays this rank's, which is told before the training.
  ValueId MeanOverRanks(ValueId count, std::string_view use = "count") const;
  // Several ranks do not compute here what one does, which is told before the training. Nothing for one rank.
  void NoteUnequal(std::string why) const;
  // A value with as many rows as there can be: rows left over are -1 in every column. Losses and accuracies whose
  // labels or weights are made of such a value, through any layers between, leave those rows out.
  void MarkPadded(ValueId value);
  bool IsPadded(ValueId value) const;
  // Whether a value has an item for each sample of this rank's part of a batch along its first axis.
  bool IsBatch(ValueId value) const;
  // Whether it depends on what data layers give.
  bool ReadsData(ValueId value) const;
  // The types whoever builds the net gives for this layer's tops.
  std::vector<TensorType> AskDataTypes() const;

  // Requires: 0 <= i < top_count().
  void SetTop(int i, ValueId value);
  void SetTop(int i, const Term& formula) { SetTop(i, Computed(b_, formula)); }
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
