// A requirement on a blob's shape starts at a layer that could not be built and has some bottom known, and runs upwards
// through layers that tell their bottom's shape from their top's until it reaches a data top. Slices wait until all
// their parts have been asked.
#include "tools/consumer_shapes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace moka {
namespace {

// Losses whose two first bottoms have one count; further ones are weights of that shape.
constexpr std::array<std::string_view, 7> kElementwise = {
    "EuclideanLoss",           "L1Loss",       "MultiSigmoidCrossEntropyLoss", "SigmoidCrossEntropyBalanceLoss",
    "SigmoidCrossEntropyLoss", "SmoothL1Loss", "WeightedEuclideanLoss"};
// Readers of a label for each position of scores [N,C,..].
constexpr std::array<std::string_view, 5> kByPosition = {"Accuracy", "InfogainLoss", "SegAccuracy", "SoftmaxWithLoss",
                                                         "WeightedSoftmaxWithLoss"};
// Readers of a number an item, and which of their bottoms that is.
constexpr std::array<std::pair<std::string_view, int>, 3> kByItem = {
    {{"CenterLoss", 1}, {"ContrastiveLoss", 2}, {"HingeLoss", 1}}};
constexpr std::array<std::string_view, 12> kSpatial = {
    "BatchNorm", "Convolution",   "Convolution3D", "ConvolutionDepthwise",
    "Crop",      "Deconvolution", "Interp",        "LRN",
    "MVN",       "Pooling",       "PReLU",         "Upsample"};
constexpr std::array<std::string_view, 3> kRecurrent = {"ConvLSTM", "LSTM", "RNN"};
// Layers whose bottoms all have the top's shape.
constexpr std::array<std::string_view, 18> kShapeKeeping = {
    "AbsVal", "BN",    "BNLL",  "BatchNorm", "Bias",    "Dropout", "ELU",  "Eltwise",   "Exp",
    "Log",    "PReLU", "Power", "ReLU",      "Sigmoid", "Split",   "TanH", "Threshold", "Scale"};

constexpr int64_t kFeatures = 4096;  // of an item whose features nothing counts: those of AlexNet's and VGG's layers
constexpr int64_t kStreams = 2;      // of sequences that nothing counts
constexpr int64_t kRois = 128;
constexpr int64_t kMostSide = 4096;    // of a map that was pooled
constexpr int64_t kMostRow = 1 << 20;  // values of an item that a Reshape counts

template <class Types>
bool IsOneOf(const Types& types, const std::string& type) {
  return std::ranges::find(types, type) != types.end();
}

int AxisOf(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }
int SliceAxis(const SliceParameter& p, int rank) { return p.has_slice_dim() ? p.slice_dim() : AxisOf(p.axis(), rank); }

// All parts of a Slice as wide as the one before the last cut, or as `last`; 0 if the points do not rise.
int64_t WholeOf(const SliceParameter& p, int64_t last) {
  const int64_t cut = p.slice_point(p.slice_point_size() - 1);
  const int64_t before = p.slice_point_size() > 1 ? int64_t{p.slice_point(p.slice_point_size() - 2)} : 0;
  return cut <= before ? 0 : cut + (last > 0 ? last : cut - before);
}

class Needs {
 public:
  Needs(const NetParameter& net, const NetAttempt& attempt, const DataTops& tops)
      : net_(net), attempt_(attempt), tops_(tops) {
    for (const NetAttempt::Failure& failure : attempt.failures) failed_.insert(failure.layer);
    for (const auto& [name, top] : tops) {
      if (top.is_batch) streams_ = top.shape[0];
    }
  }

  TopShapes Find() {
    for (int i = 0; i < net_.layer_size(); ++i) {
      if (!IsBuilt(i)) Ask(i, net_.layer(i));
    }
    for (int i = net_.layer_size() - 1; i >= 0; --i) {
      if (net_.layer(i).type() == "Slice") AskSlice(i, net_.layer(i));
    }
    return std::move(changes_);
  }

 private:
  bool IsBuilt(int layer) const { return attempt_.is_built[static_cast<size_t>(layer)]; }
  bool HasFailed(int layer) const { return failed_.contains(layer); }
  const Shape* Known(const std::string& blob) const {
    const auto found = attempt_.blobs.find(blob);
    return found == attempt_.blobs.end() ? nullptr : &found->second;
  }
  const Shape* KnownBottom(const LayerParameter& layer, int i) const {
    return i < layer.bottom_size() ? Known(layer.bottom(i)) : nullptr;
  }
  // A data top that may change; null for other blobs.
  const DataTop* Changeable(const std::string& blob) const {
    const auto found = tops_.find(blob);
    return found == tops_.end() || !found->second.can_change ? nullptr : &found->second;
  }

  // False unless the shape leaves alone what is stated of the top.
  bool Change(const std::string& name, const Shape& shape) {
    const DataTop* top = Changeable(name);
    if (top == nullptr || shape == top->shape || shape.rank() < 1) return false;
    if (!top->can_rebatch && shape[0] != top->shape[0]) return false;
    const int rank = top->shape.rank();
    if (!top->can_resize && rank >= 4 && shape.rank() == rank &&
        (shape[rank - 1] != top->shape[rank - 1] || shape[rank - 2] != top->shape[rank - 2])) {
      return false;
    }
    return changes_.emplace(name, shape).second;
  }

  // Whether a Python layer that is not built in makes the blob: its shape is as open as that of data.
  bool IsElsewhere(const LayerParameter& maker, const std::string& blob) const {
    return maker.type() == "Python" && tops_.contains(blob);
  }

  // Layer `reader` needs `blob` to have this shape. Whether that asks anything of a data top.
  bool Require(int reader, const std::string& blob, const Shape& shape) {
    for (int i = reader - 1; i >= 0; --i) {
      const LayerParameter& maker = net_.layer(i);
      if (std::ranges::find(maker.top(), blob) == maker.top().end()) continue;
      if (maker.bottom_size() == 0 || IsElsewhere(maker, blob)) return Change(blob, shape);
      if (maker.type() == "Slice") return RequirePart(blob, shape);
      return RequireBottoms(i, maker, shape);
    }
    return false;
  }

  bool RequirePart(const std::string& blob, const Shape& shape) {
    const Shape* known = Known(blob);
    return (known == nullptr || *known != shape) && parts_.emplace(blob, shape).second;
  }

  bool RequireBottoms(int i, const LayerParameter& maker, const Shape& shape) {
    const int rank = shape.rank();
    bool is_asked = false;
    if (IsOneOf(kShapeKeeping, maker.type())) {
      const bool has_operand = maker.type() == "Scale" || maker.type() == "Bias";
      for (int b = 0; b < (has_operand ? 1 : maker.bottom_size()); ++b)
        is_asked = Require(i, maker.bottom(b), shape) || is_asked;
    } else if (maker.type() == "Flatten" && rank == 2) {
      is_asked = Require(i, maker.bottom(0), shape);
    } else if (maker.type() == "Embed" && rank > 1) {
      is_asked = Require(i, maker.bottom(0), shape.Erased(rank - 1));
    } else if (maker.type() == "InnerProduct" && rank > 1) {
      const int axis = maker.inner_product_param().axis();
      if (axis == -1 || (axis > 1 && axis == rank - 1))
        is_asked = Require(i, maker.bottom(0), shape.With(rank - 1, kFeatures));
    } else if (maker.type() == "Pooling" && rank == 4) {
      const PoolingParameter& p = maker.pooling_param();  // into cells that do not overlap
      const int64_t cell = p.kernel_size_size() == 1 && p.stride_size() == 1 ? p.kernel_size(0) : 0;
      if (cell > 0 && cell == p.stride(0) && shape[2] < kMostSide && shape[3] < kMostSide)
        is_asked = Require(i, maker.bottom(0), shape.With(2, shape[2] * cell).With(3, shape[3] * cell));
    }
    return is_asked;
  }

  void Ask(int i, const LayerParameter& layer) {
    const std::string& type = layer.type();
    const bool is_python_loss = type == "Python" && layer.loss_weight_size() > 0 && layer.bottom_size() == 2;
    if (is_python_loss || IsOneOf(kElementwise, type)) AskElementwise(i, layer);
    if (IsOneOf(kByPosition, type)) AskByPosition(i, layer);
    for (const auto& [reader, bottom] : kByItem) {
      const Shape* x = KnownBottom(layer, 0);
      if (type == reader && x != nullptr && x->rank() > 0 && bottom < layer.bottom_size())
        Require(i, layer.bottom(bottom), {(*x)[0]});
    }
    if (type == "Lstm") AskMarks(i, layer);
    if (type == "InfogainLoss") AskMatrix(i, layer);
    if (type == "Eltwise") AskEltwise(i, layer);
    if (type == "Concat") AskConcat(i, layer);
    if (IsOneOf(kRecurrent, type)) AskRecurrent(i, layer);
    if (!HasFailed(i)) return;
    if (IsOneOf(kSpatial, type)) AskPictures(i, layer);
    if (type == "InnerProduct") AskFeatures(layer);
    if (type == "Permute") AskPermute(layer);
    if (type == "Reshape") AskReshape(i, layer);
    if (type.starts_with("ROI") && layer.bottom_size() > 1) AskRows(layer.bottom(1));
    if (type == "DetectNetTransformation") AskObjects(i, layer);
  }

  void AskElementwise(int i, const LayerParameter& layer) {
    const Shape* a = KnownBottom(layer, 0);
    const Shape* b = KnownBottom(layer, 1);
    if (layer.bottom_size() < 2) return;
    const bool fits = a != nullptr && b != nullptr && a->rank() > 0 && b->rank() > 0 && (*a)[0] == (*b)[0] &&
                      a->Count() == b->Count();
    if (!fits && (a == nullptr || !Require(i, layer.bottom(1), *a)) && b != nullptr) Require(i, layer.bottom(0), *b);
    for (int w = 2; a != nullptr && w < layer.bottom_size(); ++w) Require(i, layer.bottom(w), *a);
  }

  void AskByPosition(int i, const LayerParameter& layer) {
    const Shape* scores = KnownBottom(layer, 0);
    if (scores == nullptr || layer.bottom_size() < 2 || scores->rank() < 1) return;
    const int rank = scores->rank();
    const int axis =
        AxisOf(layer.type() == "Accuracy" ? layer.accuracy_param().axis() : layer.softmax_param().axis(), rank);
    if (axis < 0 || axis >= rank) return;
    const Shape label = axis != 1 ? scores->Erased(axis) : rank == 2 ? Shape{(*scores)[0]} : scores->With(1, 1);
    const Shape* found = KnownBottom(layer, 1);
    if (found == nullptr || found->Count() != label.Count()) Require(i, layer.bottom(1), label);
  }

  // A mark for each row of x.
  void AskMarks(int i, const LayerParameter& layer) {
    const Shape* x = KnownBottom(layer, 0);
    if (x != nullptr && x->rank() > 0 && layer.bottom_size() > 1) Require(i, layer.bottom(1), {(*x)[0]});
  }

  // A number for each pair of classes.
  void AskMatrix(int i, const LayerParameter& layer) {
    const Shape* scores = KnownBottom(layer, 0);
    if (scores == nullptr || layer.bottom_size() < 3) return;
    const int axis = AxisOf(layer.infogain_loss_param().axis(), scores->rank());
    if (axis >= 0 && axis < scores->rank()) Require(i, layer.bottom(2), {(*scores)[axis], (*scores)[axis]});
  }

  // The bottom that the others go by: known, no data top of its own, of the most axes.
  const Shape* Reference(const LayerParameter& layer) const {
    const Shape* best = nullptr;
    bool is_data = false;
    for (const std::string& bottom : layer.bottom()) {
      const Shape* shape = Known(bottom);
      if (shape == nullptr) continue;
      const bool is_data_too = Changeable(bottom) != nullptr;
      const bool is_better =
          best == nullptr || (is_data && !is_data_too) || (is_data == is_data_too && shape->rank() > best->rank());
      if (!is_better) continue;
      best = shape;
      is_data = is_data_too;
    }
    return best;
  }

  void AskEltwise(int i, const LayerParameter& layer) {
    const Shape* reference = Reference(layer);
    for (int b = 0; reference != nullptr && b < layer.bottom_size(); ++b) {
      const Shape* shape = KnownBottom(layer, b);
      if (shape == nullptr || *shape != *reference) Require(i, layer.bottom(b), *reference);
    }
  }

  // As the others but for the axis; numbers an item, which have no axis 1, are put side by side.
  void AskConcat(int i, const LayerParameter& layer) {
    const ConcatParameter& p = layer.concat_param();
    const Shape* reference = Reference(layer);
    if (reference == nullptr) return;
    const int rank = reference->rank();
    const int axis = p.has_concat_dim() ? static_cast<int>(p.concat_dim()) : AxisOf(p.axis(), rank);
    for (int b = 0; b < layer.bottom_size(); ++b) {
      const Shape* shape = KnownBottom(layer, b);
      if (rank == 1 && axis == 1 && shape != nullptr) {
        Require(i, layer.bottom(b), {(*shape)[0], 1});
      } else if (axis >= 0 && axis < rank && (shape == nullptr || shape->rank() < rank)) {
        Require(i, layer.bottom(b), *reference);
      } else if (axis >= 0 && axis < rank && shape->rank() == rank) {
        Require(i, layer.bottom(b), reference->With(axis, (*shape)[axis]));
      }
    }
  }

  // The marks are [steps,streams]; what was embedded item by item has streams too, and is no picture.
  void AskRecurrent(int i, const LayerParameter& layer) {
    const Shape* x = KnownBottom(layer, 0);
    if (x == nullptr || layer.bottom_size() < 2) return;
    for (const LayerParameter& embed : net_.layer()) {
      const DataTop* words = embed.type() == "Embed" && embed.bottom_size() > 0 ? Changeable(embed.bottom(0)) : nullptr;
      if (words != nullptr && words->shape.rank() > 2) Change(embed.bottom(0), {words->shape[0], streams_});
    }
    if (x->rank() == 2) Require(i, layer.bottom(0), x->Inserted(1, streams_));
    if (x->rank() >= 2) Require(i, layer.bottom(1), {(*x)[0], x->rank() == 2 ? streams_ : (*x)[1]});
  }

  // A number an item that a layer of pictures reads is a picture, like its layer's first top.
  void AskPictures(int i, const LayerParameter& layer) {
    for (const std::string& bottom : layer.bottom()) {
      const DataTop* top = SourceOf(i, bottom);
      if (top != nullptr && top->shape.rank() < 4) Require(i, bottom, FirstOf(*top, {top->shape[0], 3, 224, 224}));
    }
  }

  // The data top that a blob is made of by layers that keep its shape; null if there is none.
  const DataTop* SourceOf(int reader, const std::string& blob) const {
    for (int i = reader - 1; i >= 0; --i) {
      const LayerParameter& maker = net_.layer(i);
      if (std::ranges::find(maker.top(), blob) == maker.top().end()) continue;
      if (maker.bottom_size() == 0 || IsElsewhere(maker, blob)) return Changeable(blob);
      return IsOneOf(kShapeKeeping, maker.type()) ? SourceOf(i, maker.bottom(0)) : nullptr;
    }
    return nullptr;
  }

  Shape FirstOf(const DataTop& top, const Shape& fallback) const {
    const auto first = tops_.find(top.first);
    return first == tops_.end() || first->second.shape.rank() < 4 ? fallback : first->second.shape;
  }

  // A number an item that InnerProduct reads is as wide as what the same parameter multiplies elsewhere.
  void AskFeatures(const LayerParameter& layer) {
    const DataTop* top = layer.bottom_size() > 0 ? Changeable(layer.bottom(0)) : nullptr;
    if (top == nullptr || top->shape.rank() != 1 || layer.inner_product_param().axis() != 1) return;
    Shape shape = FirstOf(*top, {top->shape[0], kFeatures});
    const std::string name = layer.param_size() > 0 ? layer.param(0).name() : "";
    for (const LayerParameter& other : net_.layer()) {
      const bool shares = !name.empty() && other.param_size() > 0 && other.param(0).name() == name;
      const Shape* x = shares ? KnownBottom(other, 0) : nullptr;
      if (x != nullptr && x->rank() > 1) shape = *x;
    }
    Change(layer.bottom(0), shape);
  }

  void AskPermute(const LayerParameter& layer) {
    const DataTop* top = layer.bottom_size() > 0 ? Changeable(layer.bottom(0)) : nullptr;
    const int rank = layer.permute_param().order_size();
    if (top == nullptr || top->shape.rank() >= rank) return;
    const Shape first = FirstOf(*top, {});
    if (first.rank() == rank) Change(layer.bottom(0), first);
  }

  void AskRows(const std::string& rois) {
    const DataTop* top = Changeable(rois);
    const bool has_rows = top != nullptr && top->shape.rank() == 2 && top->shape[1] == 5;
    if (top != nullptr && !has_rows) Change(rois, {kRois, 5});
  }

  // DetectNet's labels come from a database of their own: a row that counts and, as DIGITS writes them, 64 boxes of 16
  // numbers.
  void AskObjects(int i, const LayerParameter& layer) {
    const Shape* x = KnownBottom(layer, 0);
    if (x != nullptr && x->rank() > 0 && layer.bottom_size() > 1) Require(i, layer.bottom(1), {(*x)[0], 1, 65, 16});
  }

  // A Reshape whose dims are all given counts its bottom: so many items, or values an item.
  void AskReshape(int i, const LayerParameter& layer) {
    const Shape* x = KnownBottom(layer, 0);
    const ReshapeParameter& p = layer.reshape_param();
    if (x == nullptr || x->rank() < 1 || p.axis() != 0 || p.num_axes() != -1 || p.shape().dim_size() < 1 ||
        p.shape().dim_size() > Shape::kMaxRank) {
      return;
    }
    std::vector<int64_t> dims(p.shape().dim().begin(), p.shape().dim().end());
    if (x->rank() == 1 && std::ranges::count(dims, -1) == 1) {  // numbers an item that are rows
      int64_t row = 1;
      for (const int64_t dim : dims) {
        if (dim > kMostRow / row) return;
        if (dim > 0) row *= dim;
      }
      if (row > 1) Require(i, layer.bottom(0), {(*x)[0], row});
      return;
    }
    const bool keeps_items = dims[0] == 0;
    for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
      int64_t& dim = dims[static_cast<size_t>(d)];
      if (dim == 0 && d < x->rank()) dim = (*x)[d];
      if (dim < 1) return;
    }
    const Shape wanted{std::span<const int64_t>(dims)};
    const int64_t values = (Size((*x)[0]) * wanted.Count()).value();
    if (!keeps_items && values % x->Count() == 0 && Rebatch(i, values / x->Count())) return;
    AskItems(layer.bottom(0), wanted);
  }

  // So many items from the layers whose first dimension is free and that a reader's bottom comes from.
  bool Rebatch(int reader, int64_t items) {
    if (items < 1) return false;
    std::vector<std::string> wanted(net_.layer(reader).bottom().begin(), net_.layer(reader).bottom().end());
    std::vector<std::string> firsts;
    for (int i = reader - 1; i >= 0; --i) {
      const LayerParameter& maker = net_.layer(i);
      const auto is_wanted = [&](const std::string& top) { return std::ranges::find(wanted, top) != wanted.end(); };
      if (std::ranges::none_of(maker.top(), is_wanted)) continue;
      wanted.insert(wanted.end(), maker.bottom().begin(), maker.bottom().end());
      if (maker.bottom_size() == 0) firsts.push_back(maker.top(0));
    }
    bool is_changed = false;
    for (const auto& [name, top] : tops_) {
      if (!top.can_rebatch || !IsOneOf(firsts, top.first) || top.shape[0] != tops_.at(top.first).shape[0]) continue;
      if (top.shape[0] == items) continue;
      is_changed = changes_.emplace(name, top.shape.With(0, items)).second || is_changed;
    }
    return is_changed;
  }

  // A data top that is only put into another shape: with that shape's items, [steps,streams] or [steps*streams,..].
  void AskItems(const std::string& name, const Shape& wanted) {
    const DataTop* top = Changeable(name);
    if (top == nullptr) return;
    if (wanted[0] == top->shape[0]) {
      Shape shape = wanted;
      while (shape.rank() > 2 && shape[shape.rank() - 1] == 1) shape = shape.Erased(shape.rank() - 1);
      Change(name, shape);
    } else if (top->can_rebatch && wanted.rank() > 2) {
      Change(name, wanted.With(1, (Size(wanted[0]) * wanted[1]).value()).Erased(0));
    } else if (wanted.Count() % top->shape[0] == 0) {
      Change(name, {top->shape[0], wanted.Count() / top->shape[0]});
    }
  }

  // The whole as its parts' readers need it, or as the points say.
  void AskSlice(int i, const LayerParameter& layer) {
    if (layer.bottom_size() < 1 || layer.top_size() < 1) return;
    const SliceParameter& p = layer.slice_param();
    const Shape* whole = KnownBottom(layer, 0);
    std::optional<Shape> base;
    for (const std::string& part : layer.top()) {
      const auto need = parts_.find(part);
      if (need != parts_.end() && (!base || need->second.rank() > base->rank())) base = need->second;
    }
    const bool is_asked = base.has_value();
    if (!base && (whole == nullptr || !HasFailed(i))) return;
    if (!base) base = *whole;
    if (base->rank() == 1) base = Shape{(*base)[0], 1};
    const int axis = SliceAxis(p, base->rank());
    if (axis < 1 || axis >= base->rank()) return;
    // 0: nobody needs anything of the part.
    const auto width = [&](const std::string& part) -> int64_t {
      const auto need = parts_.find(part);
      if (need != parts_.end()) return need->second.rank() > axis ? need->second[axis] : 1;
      const Shape* known = HasFailed(i) ? nullptr : Known(part);
      return known != nullptr && known->rank() == base->rank() ? (*known)[axis] : 0;
    };
    int64_t total = 0;
    if (p.slice_point_size() > 0) {
      total = WholeOf(p, width(layer.top(layer.top_size() - 1)));
    } else if (is_asked) {
      for (const std::string& part : layer.top()) total = std::max(total, parts_.contains(part) ? width(part) : 0);
      total = (Size(total) * layer.top_size()).value();
    } else {
      total = (Size((*base)[axis]) * layer.top_size()).value();
    }
    if (total > 0) Require(i, layer.bottom(0), base->With(axis, total));
  }

  const NetParameter& net_;
  const NetAttempt& attempt_;
  const DataTops& tops_;
  std::set<int> failed_;
  std::map<std::string, Shape> parts_;  // needs of tops of Slice
  int64_t streams_ = kStreams;          // as many as pictures, where a net has pictures too
  TopShapes changes_;
};

}  // namespace

TopShapes NeededShapes(const NetParameter& net, const NetAttempt& attempt, const DataTops& tops) {
  return Needs(net, attempt, tops).Find();
}

TopShapes EqualParts(const NetParameter& net, const DataTops& tops) {
  TopShapes shapes;
  for (const LayerParameter& layer : net.layer()) {
    const SliceParameter& p = layer.slice_param();
    if (layer.type() != "Slice" || layer.bottom_size() < 1 || p.slice_point_size() == 0) continue;
    const auto top = tops.find(layer.bottom(0));
    if (top == tops.end() || !top->second.can_change) continue;
    const Shape& shape = top->second.shape;
    const int axis = SliceAxis(p, shape.rank());
    if (axis < 1 || axis >= shape.rank()) continue;
    const int64_t whole = WholeOf(p, 0);
    if (whole > 0 && whole != shape[axis]) shapes[top->first] = shape.With(axis, whole);
  }
  return shapes;
}

}  // namespace moka
