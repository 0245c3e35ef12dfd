#include "tools/consumer_shapes.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "data/shape_guess.h"

namespace moka {
namespace {

// Losses whose two first bottoms have one count.
constexpr std::array<std::string_view, 6> kElementwise = {
    "EuclideanLoss",           "L1Loss",      "MultiSigmoidCrossEntropyLoss", "SigmoidCrossEntropyBalanceLoss",
    "SigmoidCrossEntropyLoss", "SmoothL1Loss"};
// Readers of a label for each position of scores [N,C,..].
constexpr std::array<std::string_view, 3> kByPosition = {"Accuracy", "SegAccuracy", "SoftmaxWithLoss"};

constexpr std::array<std::string_view, 9> kSpatial = {
    "BatchNorm", "Concat", "Convolution", "ConvolutionDepthwise", "Crop", "Deconvolution", "LRN", "MVN", "Pooling"};
constexpr std::array<std::string_view, 3> kRecurrent = {"LSTM", "Lstm", "RNN"};
// Heights and widths of pictures that public nets take: what classifiers, SegNet, YOLO and fully convolutional nets
// have.
constexpr std::array<std::pair<int64_t, int64_t>, 22> kPictures = {{
    {227, 227}, {256, 256}, {360, 480}, {320, 320}, {448, 448}, {416, 416}, {500, 500}, {512, 512},
    {321, 321}, {384, 384}, {473, 473}, {299, 299}, {300, 300}, {128, 128}, {64, 64},   {48, 48},
    {40, 40},   {32, 32},   {28, 28},   {24, 24},   {12, 12},   {480, 640},
}};

constexpr int64_t kMaxSteps = 10000;  // of sequences whose batch is guessed

template <class Types>
bool IsOneOf(const Types& types, const std::string& type) {
  return std::ranges::find(types, type) != types.end();
}

class Fitter {
 public:
  Fitter(const NetParameter& net, const TopShapes& given, const TryNet& build)
      : net_(net), build_(build), shapes_(given) {
    for (const LayerParameter& layer : net.layer()) {
      const bool is_data = layer.type().ends_with("Data") && layer.type() != "DummyData";
      if (layer.bottom_size() > 0 || (!is_data && layer.type() != "Python")) continue;
      const GuessedTypes guess = GuessTypes(layer);
      if (layer.type() != "HDF5Data" && !guess.types.empty() && guess.types[0].shape.rank() == 4) {
        pictures_ = guess.types[0].shape[0];
      }
      if (!guess.assumed.empty() && layer.top_size() > 0 && !given.contains(layer.top(0)))
        assumed_.insert(layer.top(0));
      for (int i = 0; i < std::min(layer.top_size(), static_cast<int>(guess.types.size())); ++i) {
        // The label of a record or of a program's own data is one number.
        if (i > 0 && (layer.type() == "Data" || layer.type() == "MemoryData")) continue;
        if (given.contains(layer.top(i))) continue;
        guesses_[layer.top(i)] = guess.types[static_cast<size_t>(i)].shape;
        first_tops_[layer.top(i)] = given.contains(layer.top(0)) ? layer.top(i) : layer.top(0);
      }
    }
  }

  // Gray images where HDF5 files do not say how many channels there are; false if none was taken for colour.
  bool MakeGray() {
    bool is_changed = false;
    for (const LayerParameter& layer : net_.layer()) {
      for (const std::string& top : layer.top()) {
        const auto guess = guesses_.find(top);
        if (layer.type() != "HDF5Data" || guess == guesses_.end() || guess->second.rank() != 4) continue;
        if (guess->second[1] != 3) continue;
        guess->second = guess->second.With(1, 1);
        shapes_[top] = guess->second;
        is_changed = true;
      }
    }
    return is_changed;
  }

  // Pictures of another size where nothing says which; false if no top is such a picture.
  bool Resize(int64_t height, int64_t width) {
    for (const std::string& top : assumed_) {
      Shape& guess = guesses_[top];
      const int rank = guess.rank();
      if (rank < 4) continue;
      guess = guess.With(rank - 2, height).With(rank - 1, width);
      shapes_[top] = guess;
    }
    return std::ranges::any_of(assumed_, [&](const std::string& top) { return guesses_[top].rank() >= 4; });
  }

  // As many items as this where a layer in Python says nothing of its batch; false if there is none.
  bool Rebatch(int64_t items) {
    bool is_changed = false;
    for (const LayerParameter& layer : net_.layer()) {
      if (layer.type() != "Python" || layer.python_param().param_str().find("batch_size") != std::string::npos)
        continue;
      for (const std::string& top : layer.top()) {
        const auto guess = guesses_.find(top);
        if (guess == guesses_.end() || guess->second.rank() < 1) continue;
        guess->second = guess->second.With(0, items);
        shapes_[top] = guess->second;
        is_changed = true;
      }
    }
    return is_changed;
  }

  std::optional<TopShapes> Fit() {
    FitFurtherPictures();
    FitSequences();
    for (const auto& [top, guess] : guesses_) {
      if (guess.rank() >= 2 && !IsLabel(top)) FitChannels(top, guess);
    }
    std::optional<TopShapes> known = build_(WithoutLabels(), shapes_);
    if (!known) return std::nullopt;
    for (const auto& [top, guess] : guesses_) {
      if (IsLabel(top)) FitLabel(top, guess, *known);
    }
    if (!build_(net_, shapes_)) return std::nullopt;
    return shapes_;
  }

 private:
  static bool Reads(const LayerParameter& layer, const std::string& blob) {
    return std::ranges::find(layer.bottom(), blob) != layer.bottom().end();
  }
  static bool IsLossLike(const LayerParameter& layer) {
    return layer.type().ends_with("Loss") || layer.type().ends_with("Accuracy") || IsOneOf(kByPosition, layer.type()) ||
           layer.type() == "Slice" || layer.type() == "Silence";
  }

  // Whether losses, Slice and the like are all that read a data top, at least one of them.
  bool IsLabel(const std::string& top) const {
    bool has_loss = false;
    for (const LayerParameter& layer : net_.layer()) {
      if (!Reads(layer, top)) continue;
      if (!IsLossLike(layer)) return false;
      if (layer.type() != "Slice") {
        has_loss = has_loss || layer.type() != "Silence";
        continue;
      }
      for (const std::string& part : layer.top()) has_loss = has_loss || IsLabel(part);
    }
    return has_loss;
  }

  // A layer's further tops were guessed to be numbers; those that layers of pictures read are pictures like its first,
  // those that are cut along axis 1 have such an axis.
  void FitFurtherPictures() {
    for (auto& [top, guess] : guesses_) {
      const Shape& first = guesses_.at(first_tops_.at(top));
      if (guess.rank() != 1 || first.rank() < 4) continue;
      for (const LayerParameter& layer : net_.layer()) {
        if (!Reads(layer, top)) continue;
        if (IsOneOf(kSpatial, layer.type())) guess = first;
        if (layer.type() == "Slice" && layer.slice_param().axis() == 1 && !IsLabel(top)) {
          guess = Shape{guess[0], layer.slice_param().slice_point_size() > 0 ? 1 : layer.top_size()};
        }
      }
      if (guess.rank() == 1) continue;
      shapes_[top] = guess;
    }
  }

  // Words and marks of sequences are [steps,streams]: what Embed reads, and what tells a recurrent layer where a
  // sequence goes on. As many streams as pictures, where a net has pictures too.
  void FitSequences() {
    const int64_t streams = pictures_ > 0 ? pictures_ : 2;
    for (const LayerParameter& layer : net_.layer()) {
      const bool is_recurrent = IsOneOf(kRecurrent, layer.type()) && layer.bottom_size() > 1;
      if (!is_recurrent && layer.type() != "Embed") continue;
      const auto guess = guesses_.find(layer.bottom(is_recurrent ? 1 : 0));
      if (guess == guesses_.end() || guess->second.rank() < 1) continue;
      guess->second = Shape{guess->second[0], streams};
      shapes_[guess->first] = guess->second;
    }
  }

  // The net without the layers that need a label.
  NetParameter WithoutLabels() const {
    std::set<std::string> labels;
    for (const auto& [top, guess] : guesses_) {
      if (IsLabel(top)) labels.insert(top);
    }
    NetParameter rest = net_;
    rest.clear_layer();
    for (const LayerParameter& layer : net_.layer()) {
      if (std::ranges::none_of(layer.bottom(), [&](const std::string& blob) { return labels.contains(blob); })) {
        *rest.add_layer() = layer;
      } else {
        labels.insert(layer.top().begin(), layer.top().end());
      }
    }
    return rest;
  }

  // Channels enough for a Slice of this blob, its last part as wide as the one before; without points all as wide as
  // was guessed of the whole.
  void FitChannels(const std::string& top, const Shape& guess) {
    for (const LayerParameter& layer : net_.layer()) {
      const SliceParameter& p = layer.slice_param();
      if (layer.type() != "Slice" || !Reads(layer, top) || p.axis() != 1) continue;
      if (p.slice_point_size() == 0) {
        if (guess[1] % layer.top_size() != 0) shapes_[top] = guess.With(1, guess[1] * layer.top_size());
        continue;
      }
      const int64_t last = p.slice_point(p.slice_point_size() - 1);
      const int64_t before = p.slice_point_size() > 1 ? int64_t{p.slice_point(p.slice_point_size() - 2)} : 0;
      if (guess[1] <= last && last > before) shapes_[top] = guess.With(1, last + (last - before));
    }
  }

  // The shape that the readers of a label blob need; none if they do not tell.
  std::optional<Shape> Needed(const std::string& label, const TopShapes& known) const {
    for (const LayerParameter& layer : net_.layer()) {
      if (!Reads(layer, label) || layer.bottom_size() < 2) continue;
      const auto scores = known.find(layer.bottom(0) == label ? layer.bottom(1) : layer.bottom(0));
      if (scores == known.end() || scores->second.rank() < 1) continue;
      const Shape& shape = scores->second;
      if (IsOneOf(kElementwise, layer.type())) return shape;
      if (!IsOneOf(kByPosition, layer.type())) continue;
      const int axis = layer.type() == "Accuracy" ? layer.accuracy_param().axis() : layer.softmax_param().axis();
      if (axis != 1 && axis < shape.rank() && axis >= -shape.rank())
        return shape.Erased(axis < 0 ? axis + shape.rank() : axis);
      return shape.rank() > 2 ? shape.With(1, 1) : Shape{shape[0]};
    }
    return std::nullopt;
  }

  void FitLabel(const std::string& top, const Shape& guess, const TopShapes& known) {
    if (const std::optional<Shape> needed = Needed(top, known)) {
      shapes_[top] = *needed;
      return;
    }
    for (const LayerParameter& layer : net_.layer()) {
      if (layer.type() != "Slice" || !Reads(layer, top) || layer.slice_param().axis() != 1) continue;
      // Each part as wide as its loss needs it; slice points win, so only the last part's width counts then.
      int64_t width = 0;
      for (int i = 0; i < layer.top_size(); ++i) {
        const std::optional<Shape> part = Needed(layer.top(i), known);
        const int64_t size = part && part->rank() > 1 ? (*part)[1] : 1;
        const bool has_points = layer.slice_param().slice_point_size() > 0;
        if (has_points && i + 1 < layer.top_size()) continue;
        width = has_points ? int64_t{layer.slice_param().slice_point(layer.slice_param().slice_point_size() - 1)} + size
                           : width + size;
      }
      if (guess.rank() == 4) shapes_[top] = Shape{guess[0], width, 1, 1};
      if (guess.rank() == 1) shapes_[top] = Shape{guess[0], width};
    }
  }

  const NetParameter& net_;
  const TryNet& build_;
  TopShapes shapes_;
  std::map<std::string, Shape> guesses_;           // of data tops that are not given
  std::map<std::string, std::string> first_tops_;  // data top -> the first top of its layer
  std::set<std::string> assumed_;                  // pictures among them whose size no field says
  int64_t pictures_ = 0;                           // of a batch, where a layer of pictures gives them
};

}  // namespace

std::optional<TopShapes> ShapesByConsumers(const NetParameter& net, const TopShapes& given, const TryNet& build) {
  Fitter fitter(net, given, build);
  if (std::optional<TopShapes> found = fitter.Fit()) return found;
  Fitter gray(net, given, build);
  if (gray.MakeGray()) {
    if (std::optional<TopShapes> found = gray.Fit()) return found;
  }
  // Nets of sequences cut a batch into steps and streams.
  for (const LayerParameter& layer : net.layer()) {
    const auto& dims = layer.reshape_param().shape().dim();
    if (layer.type() != "Reshape" || dims.size() < 2 || dims[0] < 1 || dims[1] < 1 || dims[0] > kMaxSteps ||
        dims[1] > kMaxSteps) {
      continue;
    }
    Fitter batched(net, given, build);
    if (!batched.Rebatch(dims[0] * dims[1])) break;
    if (std::optional<TopShapes> found = batched.Fit()) return found;
  }
  for (const auto& [height, width] : kPictures) {
    Fitter fitted(net, given, build);
    if (!fitted.Resize(height, width)) return std::nullopt;
    if (std::optional<TopShapes> found = fitted.Fit()) return found;
  }
  return std::nullopt;
}

}  // namespace moka
