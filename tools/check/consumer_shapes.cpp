// A need of a blob's shape starts at a layer that could not be built and has some bottom known, and runs upwards
// (shape_needs.h) until it reaches a data top. Slices wait until all their parts have been asked.
#include "tools/check/consumer_shapes.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/check/bottom_shapes.h"
#include "tools/check/shape_needs.h"

namespace moka {
namespace {

// Losses whose two first bottoms have one count; further ones are weights of that shape.
constexpr std::array<std::string_view, 14> kElementwise = {"AbsLoss",
                                                           "CosineSimilarityLoss",
                                                           "DiceCoefLoss",
                                                           "EuclideanLoss",
                                                           "EuclideanLoss6",
                                                           "L1Loss",
                                                           "ManhattanLoss",
                                                           "MultiSigmoidCrossEntropyLoss",
                                                           "RelevantLoss",
                                                           "SigmoidCrossEntropyBalanceLoss",
                                                           "SigmoidCrossEntropyLoss",
                                                           "SmoothL1Loss",
                                                           "WeightedEuclideanLoss",
                                                           "YoloSeg"};
// Readers of a label for each position of scores [N,C,..].
constexpr std::array<std::string_view, 5> kByPosition = {"Accuracy", "InfogainLoss", "SegAccuracy", "SoftmaxWithLoss",
                                                         "WeightedSoftmaxWithLoss"};
// Those whose third bottom weighs each position.
constexpr std::array<std::string_view, 2> kWeighsPositions = {"SoftmaxWithLoss", "WeightedSoftmaxWithLoss"};
// Readers of a number an item, and which of their bottoms that is.
constexpr std::array<std::pair<std::string_view, int>, 3> kByItem = {
    {{"CenterLoss", 1}, {"ContrastiveLoss", 2}, {"HingeLoss", 1}}};
constexpr std::array<std::string_view, 12> kSpatial = {
    "BatchNorm", "Convolution",   "Convolution3D", "ConvolutionDepthwise",
    "Crop",      "Deconvolution", "Interp",        "LRN",
    "MVN",       "Pooling",       "PReLU",         "Upsample"};
constexpr std::array<std::string_view, 5> kConsumerShapesRecurrent = {"ConvLSTM", "ConvLSTMReLU", "GRU", "LSTM", "RNN"};
constexpr int64_t kConsumerShapesFeatures =
    4096;                        // of an item whose features nothing counts: those of AlexNet's and VGG's layers
constexpr int64_t kStreams = 2;  // of sequences that nothing counts
constexpr int64_t kRois = 128;
constexpr int64_t kTriplet = 3;         // the least rows of anchors, positives and negatives
constexpr int64_t kMostSquares = 4096;  // along a side
constexpr int64_t kMostRow = 1 << 20;   // values of an item that a Reshape counts

template <class Types>
bool IsOneOf(const Types& types, const std::string& type) {
  return std::ranges::find(types, type) != types.end();
}

int ConsumerShapesAxisOf(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }
int SliceAxis(const SliceParameter& p, int rank) {
  return p.has_slice_dim() ? static_cast<int>(p.slice_dim()) : ConsumerShapesAxisOf(p.axis(), rank);
}

// All parts of a Slice as wide as the one before the last cut, or as `last`; 0 if the points do not rise.
int64_t WholeOf(const SliceParameter& p, int64_t last) {
  const int64_t cut = p.slice_point(p.slice_point_size() - 1);
  const int64_t before = p.slice_point_size() > 1 ? int64_t{p.slice_point(p.slice_point_size() - 2)} : 0;
  return cut <= before ? 0 : cut + (last > 0 ? last : cut - before);
}

class Readers : ShapeNeeds {
 public:
  Readers(const NetParameter& net, const NetAttempt& attempt, const DataTops& tops)
      : ShapeNeeds(net, attempt, tops), net_(net), attempt_(attempt) {
    for (const auto& [name, top] : tops) {
      if (top.is_batch) streams_ = top.shape[0];
    }
  }

  TopShapes Find() {
    for (int i = 0; i < net_.layer_size(); ++i) {
      if (!attempt_.is_built[static_cast<size_t>(i)]) Ask(i, net_.layer(i));
    }
    for (int i = net_.layer_size() - 1; i >= 0; --i) {
      if (net_.layer(i).type() == "Slice") AskSlice(i, net_.layer(i));
    }
    return TakeChanges();
  }

 private:
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
    if (type == "CTCLoss") AskSequences(i, layer);
    if (type == "InfogainLoss") AskMatrix(i, layer);
    if (type == "DetectionLoss" && !layer.detection_loss_param().has_cls_num())
      AskSquares(i, layer, layer.detection_loss_param().side());
    if (type == "EvalDetection" && layer.eval_detection_param().biases().empty())
      AskSquares(i, layer, layer.eval_detection_param().side());
    if (type == "Eltwise") AskEltwise(i, layer);
    if (type == "Concat") AskConcat(i, layer);
    if (IsOneOf(kConsumerShapesRecurrent, type)) AskRecurrent(i, layer);
    if (!HasFailed(i)) return;
    if (IsOneOf(kSpatial, type)) AskPictures(i, layer);
    if (type == "InnerProduct") AskFeatures(layer);
    if (type == "Permute") AskPermute(layer);
    if (WindowAxes(layer) > 2) AskVolume(i, layer, WindowAxes(layer));
    if (type == "ContrastiveLoss") AskPair(i, layer);
    if (type == "Python" && layer.python_param().layer().starts_with("TripletSelect")) AskTriplets(i, layer);
    if (type == "MultiBoxLoss" && layer.bottom_size() > 3) AskBoxes(i, layer.bottom(3));
    if (type == "Reshape") AskReshape(i, layer);
    if (type.find("ROI") != std::string::npos && layer.bottom_size() > 1) AskRows(layer.bottom(1));
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
    const int axis = ConsumerShapesAxisOf(
        layer.type() == "Accuracy" ? layer.accuracy_param().axis() : layer.softmax_param().axis(), rank);
    if (axis < 0 || axis >= rank) return;
    const Shape label = axis != 1 ? scores->Erased(axis) : rank == 2 ? Shape{(*scores)[0]} : scores->With(1, 1);
    const Shape* found = KnownBottom(layer, 1);
    if (found == nullptr || found->Count() != label.Count()) Require(i, layer.bottom(1), label);
    if (!IsOneOf(kWeighsPositions, layer.type()) || layer.bottom_size() < 3) return;
    const Shape* weights = KnownBottom(layer, 2);
    if (weights == nullptr || weights->Count() != label.Count()) Require(i, layer.bottom(2), label);
  }

  // Marks and labels of every step for scores [T,N,C].
  void AskSequences(int i, const LayerParameter& layer) {
    const Shape* scores = KnownBottom(layer, 0);
    if (scores == nullptr || scores->rank() < 2) return;
    for (int b = 1; b < layer.bottom_size(); ++b) Require(i, layer.bottom(b), {(*scores)[0], (*scores)[1]});
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
    const int axis = ConsumerShapesAxisOf(layer.infogain_loss_param().axis(), scores->rank());
    if (axis < 0 || axis >= scores->rank()) return;
    const int64_t classes = (*scores)[axis];
    const Shape* found = KnownBottom(layer, 2);
    if (found != nullptr && found->rank() > 0 && (*found)[0] == 1) {
      Require(i, layer.bottom(2), {1, 1, classes, classes});
    } else {
      Require(i, layer.bottom(2), {classes, classes});
    }
  }

  // YOLO v1: seven numbers for each of side x side squares.
  void AskSquares(int i, const LayerParameter& layer, int64_t side) {
    const Shape* label = KnownBottom(layer, 1);
    if (label != nullptr && label->rank() > 0 && side > 0 && side < kMostSquares)
      Require(i, layer.bottom(1), {(*label)[0], side * side * 7});
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

  // One shape for all: that of the reference, or if that asks nothing of a data top the other one.
  void AskEltwise(int i, const LayerParameter& layer) {
    const Shape* reference = Reference(layer);
    bool is_asked = false;
    for (int b = 0; reference != nullptr && b < layer.bottom_size(); ++b) {
      const Shape* shape = KnownBottom(layer, b);
      if (shape == nullptr || *shape != *reference) is_asked = Require(i, layer.bottom(b), *reference) || is_asked;
    }
    if (reference == nullptr || is_asked || !HasFailed(i)) return;
    for (int b = 0; b < layer.bottom_size(); ++b) {
      const Shape* other = KnownBottom(layer, b);
      if (other == nullptr || *other == *reference) continue;
      for (int a = 0; a < layer.bottom_size(); ++a) {
        const Shape* shape = KnownBottom(layer, a);
        if (shape != nullptr && *shape == *reference) Require(i, layer.bottom(a), *other);
      }
      return;
    }
  }

  // As the others but for the axis; numbers an item, which have no axis 1, are put side by side.
  void AskConcat(int i, const LayerParameter& layer) {
    const ConcatParameter& p = layer.concat_param();
    const Shape* reference = Reference(layer);
    if (reference == nullptr) return;
    const int rank = reference->rank();
    const int axis = p.has_concat_dim() ? static_cast<int>(p.concat_dim()) : ConsumerShapesAxisOf(p.axis(), rank);
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
    if (layer.type().starts_with("ConvLSTM") && x->rank() == 4) return AskMaps(i, layer, *x);
    if (x->rank() == 2) Require(i, layer.bottom(0), x->Inserted(1, streams_));
    if (x->rank() >= 2) Require(i, layer.bottom(1), {(*x)[0], x->rank() == 2 ? streams_ : (*x)[1]});
  }

  // Maps [T,C,H,W] have streams, or, with as many streams as a state [1,N,C,H,W], channels; the state says their size,
  // the marks how many steps there are.
  void AskMaps(int i, const LayerParameter& layer, const Shape& x) {
    const Shape* marks = KnownBottom(layer, 1);
    const Shape* state = KnownBottom(layer, 2);
    const bool has_state = state != nullptr && state->rank() == 5;
    const int64_t steps = marks != nullptr && marks->rank() > 0 ? (*marks)[0] : x[0];
    const int64_t streams = has_state ? (*state)[1] : streams_;
    const int64_t channels = has_state && x[1] == streams ? 1 : x[1];
    Require(i, layer.bottom(0),
            {steps, streams, channels, has_state ? (*state)[3] : x[2], has_state ? (*state)[4] : x[3]});
    Require(i, layer.bottom(1), {steps, streams});
  }

  // A kernel of so many axes has as many under it: where pictures were taken, cubes.
  void AskVolume(int i, const LayerParameter& layer, int axes) {
    const Shape* x = KnownBottom(layer, 0);
    if (x == nullptr || x->rank() < 4 || axes != 3) return;
    const int channels = layer.type() == "Convolution" ? layer.convolution_param().axis() : 1;
    const std::string source = SourceOf(i, layer.bottom(0), true);
    const DataTop* top = Changeable(source);
    const int rank = x->rank();
    if (top == nullptr || rank != channels + axes || top->shape.rank() != rank) return;
    Change(source, top->shape.Inserted(rank - 2, top->shape[rank - 2]));
  }

  // Two rows of one length.
  void AskPair(int i, const LayerParameter& layer) {
    const Shape* a = KnownBottom(layer, 0);
    const Shape* b = KnownBottom(layer, 1);
    if (a != nullptr && b != nullptr && a->rank() > b->rank()) Require(i, layer.bottom(1), *a);
  }

  void AskTriplets(int i, const LayerParameter& layer) {
    const Shape* x = KnownBottom(layer, 0);
    if (x != nullptr && x->rank() > 0 && (*x)[0] == 1) Rebatch(i, 1, kTriplet);
  }

  // SSD's boxes: rows of 8 numbers, here one an item.
  void AskBoxes(int i, const std::string& boxes) {
    const DataTop* top = Changeable(boxes);
    if (top != nullptr && top->shape.rank() < 4) Require(i, boxes, {1, 1, top->shape[0], 8});
  }

  // A number an item that a layer of pictures reads is a picture, like its layer's first top; what a map is cropped to
  // is as large as the map.
  void AskPictures(int i, const LayerParameter& layer) {
    for (const std::string& bottom : layer.bottom()) {
      const DataTop* top = Changeable(SourceOf(i, bottom));
      if (top == nullptr || top->shape.rank() >= 4) continue;
      const Shape* map = layer.type() == "Crop" ? KnownBottom(layer, 0) : nullptr;
      const bool is_window = map != nullptr && map->rank() == 4 && bottom != layer.bottom(0);
      Require(i, bottom, is_window ? map->With(1, 1) : FirstOf(*top, {top->shape[0], 3, 224, 224}));
    }
  }

  // A number an item that InnerProduct reads is as wide as what the same parameter multiplies elsewhere.
  void AskFeatures(const LayerParameter& layer) {
    const DataTop* top = layer.bottom_size() > 0 ? Changeable(layer.bottom(0)) : nullptr;
    if (top == nullptr || top->shape.rank() != 1 || layer.inner_product_param().axis() != 1) return;
    Shape shape = FirstOf(*top, {top->shape[0], kConsumerShapesFeatures});
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

  // A Reshape with one open dim: numbers an item are rows, other items are so many that the dims divide them.
  void AskRowsOf(int i, const LayerParameter& layer, const std::vector<int64_t>& dims, const Shape& x) {
    int64_t row = 1;
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t dim = dims[d] == 0 && d < static_cast<size_t>(x.rank()) ? x[static_cast<int>(d)] : dims[d];
      if (dim > kMostRow / row) return;
      if (dim > 0 && (dims[d] > 0 || x.rank() > 1)) row *= dim;
    }
    if (x.rank() == 1) {
      if (row > 1) Require(i, layer.bottom(0), {x[0], row});
    } else if (const int64_t values = x.Count(); row > 0 && values > 0 && values % row != 0) {
      Rebatch(i, 1, row / std::gcd(row, values));
    }
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
    if (std::ranges::count(dims, -1) == 1) return AskRowsOf(i, layer, dims, *x);
    const bool keeps_items = dims[0] == 0;
    for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
      int64_t& dim = dims[static_cast<size_t>(d)];
      if (dim == 0 && d < x->rank()) dim = (*x)[d];
      if (dim < 1) return;
    }
    const Shape wanted{std::span<const int64_t>(dims)};
    const int64_t values = (Size((*x)[0]) * wanted.Count()).value();
    if (!keeps_items && values % x->Count() == 0 && Rebatch(i, (*x)[0], values / x->Count())) return;
    const int maker = MakerOf(i, layer.bottom(0));
    if (maker >= 0 && net_.layer(maker).type() == "Permute") {
      Require(i, layer.bottom(0), WithoutOnes(wanted, net_.layer(maker).permute_param().order_size()));
    } else {
      AskItems(layer.bottom(0), wanted);
    }
  }

  // The shape with axes of one element left out until so many axes are left, or no more can be.
  static Shape WithoutOnes(Shape shape, int rank) {
    for (int axis = shape.rank() - 1; axis > 0 && shape.rank() > rank; --axis) {
      if (shape[axis] == 1) shape = shape.Erased(axis);
    }
    return shape;
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

  // A Slice of the items: its parts' readers say the other axes, the points how many items there are at least.
  void AskSliceOfItems(int i, const LayerParameter& layer, const Shape& whole, const Shape* part) {
    if (part != nullptr) Require(i, layer.bottom(0), part->With(0, whole[0]));
    if (!HasFailed(i)) return;
    const SliceParameter& p = layer.slice_param();
    const int64_t parts = layer.top_size();
    const int64_t total = p.slice_point_size() > 0 ? WholeOf(p, 0) : std::lcm(whole[0], parts);
    if (total > whole[0]) Rebatch(i, whole[0], total);
  }

  // The whole as its parts' readers need it, or as the points say.
  void AskSlice(int i, const LayerParameter& layer) {
    if (layer.bottom_size() < 1 || layer.top_size() < 1) return;
    const SliceParameter& p = layer.slice_param();
    const Shape* whole = KnownBottom(layer, 0);
    std::optional<Shape> base;
    for (const std::string& part : layer.top()) {
      const auto need = parts().find(part);
      if (need != parts().end() && (!base || need->second.rank() > base->rank())) base = need->second;
    }
    const bool is_asked = base.has_value();
    if (!base && (whole == nullptr || !HasFailed(i))) return;
    if (!base) base = *whole;
    if (base->rank() == 1) base = Shape{(*base)[0], 1};
    const int axis = SliceAxis(p, base->rank());
    if (axis == 0 && whole != nullptr) return AskSliceOfItems(i, layer, *whole, is_asked ? &*base : nullptr);
    if (axis < 1 || axis >= base->rank()) return;
    // 0: nobody needs anything of the part.
    const auto width = [&](const std::string& part) -> int64_t {
      const auto need = parts().find(part);
      if (need != parts().end()) return need->second.rank() > axis ? need->second[axis] : 1;
      const Shape* known = HasFailed(i) ? nullptr : Known(part);
      return known != nullptr && known->rank() == base->rank() ? (*known)[axis] : 0;
    };
    int64_t total = 0;
    if (p.slice_point_size() > 0) {
      total = WholeOf(p, width(layer.top(layer.top_size() - 1)));
    } else if (is_asked) {
      for (const std::string& part : layer.top()) total = std::max(total, parts().contains(part) ? width(part) : 0);
      total = (Size(total) * layer.top_size()).value();
    } else {
      total = (Size((*base)[axis]) * layer.top_size()).value();
    }
    if (total > 0) Require(i, layer.bottom(0), base->With(axis, total));
  }

  const NetParameter& net_;
  const NetAttempt& attempt_;
  int64_t streams_ = kStreams;  // as many as pictures, where a net has pictures too
};

}  // namespace

TopShapes NeededShapes(const NetParameter& net, const NetAttempt& attempt, const DataTops& tops) {
  return Readers(net, attempt, tops).Find();
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
