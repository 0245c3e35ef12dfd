// SSD's DetectionOutput: boxes by plain ops from priors that are constants, NonMaxSuppression for each class, the best
// of each image, and rows as the layer has them: image, label, score, xmin, ymin, xmax, ymax, unused ones -1.
//
// Scores of a class are sorted first and the best K taken, as the layer looks at no more; each class of each image is
// then a batch of its own for NonMaxSuppression. What it keeps is marked, so that the best R of an image are found
// among C*K places. Places rise by class, and fall by score within one, which is the layer's order of rows.
#include <algorithm>
#include <array>
#include <limits>

#include "core/text.h"
#include "graph/op.h"
#include "tools/exchange/onnx_op.h"

namespace moka {
namespace {

constexpr double kLowest = -std::numeric_limits<float>::max();

class DetectionWriter {
 public:
  explicit DetectionWriter(OnnxNode& n) : n_(n), classes_(n.attributes().Int("classes")) {
    const Attributes& a = n.attributes();
    if (n.opset() < 12) n.Refuse("it picks boxes for each image, which ONNX knows since opset 12");
    if (n.input_count() > 3) n.Refuse("boxes of two stages (arm_conf, arm_loc)");
    if (a.Bool("polygon")) n.Refuse("polygons");
    if (a.Float("eta") != 1) n.Refuse("a threshold that shrinks (eta)");
    if (!n.onnx().constants().IsConstant(n.Input(2))) n.Refuse("priors that are computed from what the net is given");
    priors_ = n.x(2).Count() / 8;
    for (int64_t c = 0; c < classes_; ++c) {
      if (c != a.Int("background")) labels_.push_back(c);
    }
    if (labels_.empty()) n.Refuse("no class beside the background");
    const int64_t top_k = a.Int("top_k");
    best_ = top_k < 0 ? priors_ : std::min(top_k, priors_);
    places_ = best_ * std::ssize(labels_);
    const int64_t keep = a.Int("keep_top_k");
    rows_ = std::max<int64_t>(1, keep < 0 ? places_ : std::min(keep, places_));
  }

  void Write() {
    FindBest();
    Keep();
    GiveRows();
  }

 private:
  std::string Add(std::string_view type, const std::vector<std::string>& inputs, const Attributes& attributes = {}) {
    return n_.Add(type, inputs, attributes);
  }
  std::string Reshaped(const std::string& value, const Ints& dims) { return Add("Reshape", {value, n_.List(dims)}); }
  std::string Whole(int64_t number) {
    return n_.onnx().AddTensor({.name = n_.NameWith("number"), .dims = {}, .ints = {number}, .is_whole = true});
  }
  std::string Table(std::string_view name, Ints dims, std::vector<float> values) {
    return n_.onnx().AddTensor({.name = n_.NameWith(name), .dims = std::move(dims), .floats = std::move(values)});
  }
  std::string Number(double value) { return n_.onnx().Scalar(value); }
  // Two outputs of a TopK along the last axis.
  std::array<std::string, 2> TopK(const std::string& value, int64_t count, bool largest = true) {
    std::array<std::string, 2> out;
    for (std::string& name : out) name = n_.onnx().Unique(n_.NameWith("TopK"));
    n_.onnx().AddNode("TopK", out[0], {value, n_.List({count})}, {out[0], out[1]},
                      {{"axis", int64_t{-1}}, {"largest", int64_t{largest}}, {"sorted", int64_t{1}}});
    return out;
  }
  std::string Cast(const std::string& value, DType to) {
    return Add("Cast", {value}, {{"to", int64_t{OnnxTypeOf(to)}}});
  }

  // Boxes [N,P,4], or [N,P,classes,4] where each class has its own. The priors are constants as the net has them, so
  // that a reader finds them again; what is computed of them alone runtimes compute once.
  std::string DecodedBoxes(bool is_shared) {
    const Attributes& a = n_.attributes();
    const std::string& code = a.String("code");
    const std::string codes = Reshaped(n_.In(0), is_shared ? Ints{-1, priors_, 4} : Ints{-1, priors_, classes_, 4});
    const std::string prior = PriorTable("prior", 0, is_shared);
    const std::string scaled =
        a.Bool("variance_in_target") ? codes : Add("Mul", {codes, PriorTable("variance", 1, is_shared)});
    if (code == "corner") return Add("Add", {scaled, prior});
    const std::string low = Cut(prior, -1, 0, 2);
    const std::string high = Cut(prior, -1, 2, 4);
    const std::string sides = Add("Sub", {high, low});
    if (code == "corner_size") {
      const std::string units = Add("Concat", {sides, sides}, {{"axis", int64_t{-1}}});
      return Add("Add", {Add("Mul", {scaled, units}), prior});
    }
    const std::string middle = Add("Mul", {Add("Add", {low, high}), Number(0.5)});
    const std::string center = Add("Add", {Add("Mul", {Cut(scaled, -1, 0, 2), sides}), middle});
    const std::string half = Add("Mul", {Add("Exp", {Cut(scaled, -1, 2, 4)}), Add("Mul", {sides, Number(0.5)})});
    return Add("Concat", {Add("Sub", {center, half}), Add("Add", {center, half})}, {{"axis", int64_t{-1}}});
  }

  // A row of the priors [1,2,P*4]: corners, or their variances.
  std::string PriorTable(std::string_view name, int64_t row, bool is_shared) {
    const std::vector<float> values = n_.onnx().constants().FloatsAt(n_.Input(2));
    const auto begin = values.begin() + row * priors_ * 4;
    return Table(name, is_shared ? Ints{1, priors_, 4} : Ints{1, priors_, 1, 4}, {begin, begin + priors_ * 4});
  }

  std::string Cut(const std::string& value, int64_t axis, int64_t begin, int64_t end) {
    return Add("Slice", {value, n_.List({begin}), n_.List({end}), n_.List({axis})});
  }

  // The best K of each class of each image: boxes [N,C,K,4] and scores [N,C,K].
  void FindBest() {
    const bool is_shared = n_.attributes().Bool("share_location");
    const std::string confidences = Reshaped(n_.In(1), {-1, priors_, classes_});
    const std::string by_class = Add("Transpose", {confidences}, {{"perm", Ints{0, 2, 1}}});
    const auto chosen = [&](const std::string& value) {
      if (std::ssize(labels_) == classes_) return value;
      return Add("Gather", {value, n_.List(labels_)}, {{"axis", int64_t{1}}});
    };
    const auto [scores, places] = TopK(chosen(by_class), best_);
    scores_ = scores;
    std::string boxes = DecodedBoxes(is_shared);
    if (!is_shared) boxes = chosen(Add("Transpose", {boxes}, {{"perm", Ints{0, 2, 1, 3}}}));
    const std::string index = Reshaped(places, {-1, std::ssize(labels_), best_, 1});
    boxes_ = Add("GatherND", {boxes, index}, {{"batch_dims", int64_t{is_shared ? 1 : 2}}});
  }

  // The places [N,R] of the rows of each image among C*K, in order; C*K for a row that is not used.
  void Keep() {
    const Attributes& a = n_.attributes();
    const std::string flat_scores = Reshaped(scores_, {-1, 1, best_});
    const std::string kept = Add("NonMaxSuppression", {Reshaped(boxes_, {-1, best_, 4}), flat_scores, Whole(best_),
                                                       Number(a.Float("nms_threshold")),
                                                       Number(std::max(kLowest, a.Float("confidence_threshold")))});
    const auto column = [&](int64_t i) { return Add("Gather", {kept, Whole(i)}, {{"axis", int64_t{1}}}); };
    const std::string at = Add("Add", {Add("Mul", {column(0), Whole(best_)}), column(2)});
    const std::string scores = Reshaped(scores_, {-1});
    const std::string none = Add("Mul", {scores, Number(0)});
    const std::string ones = Add("Expand", {Number(1), Add("Shape", {at})});
    const std::string marks = Add("ScatterElements", {none, at, ones}, {{"axis", int64_t{0}}});
    const std::string key = Add("Where", {Add("Greater", {marks, Number(0)}), scores, Number(kLowest)});
    const auto [values, best] = TopK(Reshaped(key, {-1, places_}), rows_);
    const std::string used = Add("Greater", {values, Number(kLowest)});
    rows_at_ = TopK(Add("Where", {used, best, Whole(places_)}), rows_, false)[0];
  }

  // [N,R] of each image's number.
  std::string ImagesLike(const std::string& values, const std::string& count) {
    const std::string numbers = Add("Range", {Whole(0), count, Whole(1)});
    return Add("Expand", {Reshaped(Cast(numbers, DType::kFloat32), {-1, 1}), Add("Shape", {values})});
  }

  void GiveRows() {
    const std::string used = Add("Less", {rows_at_, Whole(places_)});
    const std::string at = Add("Where", {used, rows_at_, Whole(0)});
    const std::string images = Add("Gather", {Add("Shape", {at}), Whole(0)}, {{"axis", int64_t{0}}});
    std::vector<float> labels;
    for (const int64_t label : labels_)
      labels.insert(labels.end(), static_cast<size_t>(best_), static_cast<float>(label));
    const std::string label = Add("Gather", {Table("labels", {places_}, std::move(labels)), at});
    const std::string score = Add("GatherElements", {Reshaped(scores_, {-1, places_}), at}, {{"axis", int64_t{1}}});
    const std::string boxes = Add("GatherND", {Reshaped(boxes_, {-1, places_, 4}), Reshaped(at, {-1, rows_, 1})},
                                  {{"batch_dims", int64_t{1}}});
    std::vector<std::string> columns;
    for (const std::string& one : {ImagesLike(at, images), label, score}) columns.push_back(Reshaped(one, {-1, 1}));
    columns.push_back(Reshaped(boxes, {-1, 4}));
    const std::string all = Add("Concat", columns, {{"axis", int64_t{1}}});
    if (IsOneImage()) return GiveRowsOfOne(all, used);
    const std::string found = Add("Compress", {all, Reshaped(used, {-1})}, {{"axis", int64_t{0}}});
    const std::string total = Add("Mul", {images, Whole(rows_)});
    const std::string filled = Add("Concat", {found, Filler(found, images, total)}, {{"axis", int64_t{0}}});
    const std::string cut = Add("Slice", {filled, n_.List({0}), Reshaped(total, {1}), n_.List({0})});
    n_.Give("Reshape", {cut, n_.List({1, 1, -1, 7})});
  }

  bool IsOneImage() const { return n_.onnx().net().other == nullptr && n_.x(0)[0] == 1; }

  // Used rows come first in an image, so that those of one image alone are in their place. If not even the first is
  // used, it names the image.
  void GiveRowsOfOne(const std::string& all, const std::string& used) {
    std::vector<float> unused(static_cast<size_t>(rows_ * 7), -1);
    unused[0] = 0;
    const std::string rows =
        Add("Where", {Reshaped(used, {-1, 1}), all, Table("unused", {rows_, 7}, std::move(unused))});
    n_.Give("Reshape", {rows, n_.List({1, 1, -1, 7})});
  }

  // `total` rows of -1; where nothing was found the first ones name the images, as the layer's do.
  std::string Filler(const std::string& found, const std::string& images, const std::string& total) {
    const std::string count = Add("Gather", {Add("Shape", {found}), Whole(0)}, {{"axis", int64_t{0}}});
    const std::string numbers = Add("Range", {Whole(0), total, Whole(1)});
    const std::string names = Add("And", {Add("Equal", {count, Whole(0)}), Add("Less", {numbers, images})});
    const std::string first = Add("Where", {names, Cast(numbers, DType::kFloat32), Number(-1)});
    const std::string column = Reshaped(first, {-1, 1});
    const std::string unused = Add("Sub", {Add("Mul", {column, Number(0)}), Number(1)});
    std::vector<std::string> columns(7, unused);
    columns[0] = column;
    return Add("Concat", columns, {{"axis", int64_t{1}}});
  }

  OnnxNode& n_;
  int64_t classes_;
  int64_t priors_ = 0;  // P
  Ints labels_;         // of C classes, without the background
  int64_t best_ = 0;    // K
  int64_t places_ = 0;  // C*K
  int64_t rows_ = 0;    // R
  std::string boxes_;
  std::string scores_;
  std::string rows_at_;
};

void WriteDetectionOutput(OnnxNode& n) { DetectionWriter(n).Write(); }

}  // namespace

OnnxOp OnnxDetectionOutput() { return {.op = "detection_output", .write = WriteDetectionOutput}; }

}  // namespace moka
