// DetectNet's Python layers (caffe.layers.detectnet): lists of boxes from the grid, their match with the truth, and
// mean average precision as NVIDIA counts it. param_str is a list of numbers without names: "1248, 352, 16, 0.06, ..".
#include <algorithm>
#include <charconv>

#include "core/text.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

constexpr std::string_view kParam = "python_param.param_str";

// The numbers of param_str by their place.
class NumberList {
 public:
  explicit NumberList(const LayerBuilder& l) : l_(l) {
    const std::string_view text = l.param().python_param().param_str();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      parts_.push_back(Trim(text.substr(begin, end - begin)));
      begin = end + 1;
    }
  }

  bool Has(size_t i) const { return i < parts_.size(); }
  double Number(size_t i, std::string_view name) const { return Read<double>(i, name, "a number"); }
  int64_t Whole(size_t i, std::string_view name, int64_t least) const {
    const auto number = Read<int64_t>(i, name, "a whole number");
    l_.Check(number >= least && number <= INT32_MAX, kParam,
             StrCat(kParam, ": number ", i + 1, ", ", name, ", must be at least ", least, ", found ", number));
    return number;
  }

 private:
  template <class T>
  T Read(size_t i, std::string_view name, std::string_view kind) const {
    const std::string_view text = Has(i) ? parts_[i] : std::string_view();
    T number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_number = !text.empty() && error == std::errc() && end == text.data() + text.size();
    l_.Check(is_number, kParam,
             StrCat(kParam, ": number ", i + 1, " must be ", kind, ", ", name, ", found ",
                    text.empty() ? std::string("none") : StrCat("\"", Printable(text), "\"")));
    return number;
  }

  const LayerBuilder& l_;
  std::vector<std::string_view> parts_;
};

// The first three numbers, which both clusterings share.
Attributes GridFields(const NumberList& list) {
  return {{"image_width", list.Whole(0, "the image's width", 1)},
          {"image_height", list.Whole(1, "the image's height", 1)},
          {"stride", list.Whole(2, "the stride", 1)}};
}

// A top a class.
void Cluster(LayerBuilder& l, const NumberList& list, Attributes attributes, size_t classes_at) {
  const int64_t classes = list.Has(classes_at) ? list.Whole(classes_at, "the classes", 1) : 1;
  const Shape x = l.shape(0);
  l.Check(l.top_count() == classes, kParam,
          StrCat(kParam, ": there must be a top for each of ", classes, " classes, found ", l.top_count()));
  l.Check(x.rank() == 4 && x[1] == classes, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must have the coverage of ", classes, " classes, [N,", classes,
                 ",H,W], found ", x.ToString()));
  for (int64_t c = 0; c < classes; ++c) {
    attributes.Set("channel", c);
    l.SetTop(static_cast<int>(c), l.b().Add1("cluster_boxes", l.bottoms(), attributes));
  }
}

void BuildDetections(LayerBuilder& l, const PythonFields&) {
  const NumberList list(l);
  Attributes attributes = GridFields(list);
  attributes.Set("threshold", list.Number(3, "the least coverage"));
  attributes.Set("group_threshold", list.Whole(4, "the cells that are too few", 0));
  attributes.Set("group_eps", list.Number(5, "the rectangles' eps"));
  attributes.Set("least_height", list.Whole(6, "the least height", 0));
  Cluster(l, list, std::move(attributes), 7);
}

void BuildTruth(LayerBuilder& l, const PythonFields&) {
  const NumberList list(l);
  Attributes attributes = GridFields(list);
  attributes.Set("is_truth", true);
  Cluster(l, list, std::move(attributes), 3);
}

void BuildScores(LayerBuilder& l, const PythonFields&) { l.SetTop(0, l.b().Add1("score_boxes", l.bottoms())); }

// Builds the scores of all images together: precision tp / (tp + fp), recall tp / (tp + missed), in per cent, and their
// product.
void BuildPrecision(LayerBuilder& l, const PythonFields&) {
  const Shape x = l.shape(0);
  l.Check(x.rank() == 3 && x[2] == 5, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be scored boxes [N,boxes,5], found ", x.ToString()));
  const GraphBuilder& b = l.b();
  const ValueId marks = b.Add("slice", {l.bottom(0)}, {{"axis", int64_t{2}}, {"sizes", Ints{4, 1}}})[1];
  const auto count = [&](int mark) { return b.Reshape(b.SumAll(Computed(b, Term::Of(marks) == mark)), Shape{1}); };
  const std::string percent = "x0*100/max(x0+x1,1)";
  const ValueId hits = count(1);
  const ValueId precision = b.Pointwise(percent, {hits, count(2)});
  const ValueId recall = b.Pointwise(percent, {hits, count(3)});
  l.SetTop(0, b.Pointwise("x0*x1/100", {precision, recall}));
  l.SetTop(1, precision);
  l.SetTop(2, recall);
}

}  // namespace

std::vector<PythonLayerDef> DetectNetPythonLayers() {
  const std::string clustering = "caffe.layers.detectnet.clustering";
  const std::string mean_ap = "caffe.layers.detectnet.mean_ap";
  return {
      {.module = clustering,
       .layer = "ClusterDetections",
       .doc =
           "coverage [N,classes,H,W] and corners [N,4,H,W] from each cell -> for each class [N,50,5]: x1, y1, x2, y2, "
           "confidence of OpenCV's groupRectangles; param_str is \"width, height, stride, least coverage, group "
           "threshold, group eps, least height, classes\" (classes 1 if left out). Zero rows are padding; of more than "
           "50 boxes, an error in the original, the first stay. The boxes are NVIDIA Caffe 0.17's: 0.15 and 0.16 hand "
           "the right and bottom edge to groupRectangles as width and height.",
       .min_bottoms = 2,
       .max_bottoms = 2,
       .max_tops = INT32_MAX,
       .reads_list = true,
       .build = BuildDetections},
      {.module = clustering,
       .layer = "ClusterGroundtruth",
       .doc =
           "coverage labels [N,classes,H,W] and box labels [N,4,H,W] -> for each class [N,50,5]: every box once, in "
           "the order of the cells (a Python set's in the original); param_str is \"width, height, stride, classes\".",
       .min_bottoms = 2,
       .max_bottoms = 2,
       .max_tops = INT32_MAX,
       .reads_list = true,
       .build = BuildTruth},
      {.module = mean_ap,
       .layer = "ScoreDetections",
       .doc =
           "true boxes and detections [N,50,5] -> [N,50,5]: x1, y1, x2, y2 and 1 for a detection that overlaps a true "
           "box by 0.7 or more, 2 for another, 3 for a true box without one; of more than 50 rows, an error in the "
           "original, the first stay.",
       .min_bottoms = 2,
       .max_bottoms = 2,
       .reads_list = true,
       .build = BuildScores},
      {.module = mean_ap,
       .layer = "mAP",
       .doc =
           "scored boxes [N,50,5] -> mAP, precision and recall [1], in per cent: the first is the product of the other "
           "two.",
       .min_bottoms = 1,
       .max_bottoms = 1,
       .min_tops = 3,
       .max_tops = 3,
       .reads_list = true,
       .build = BuildPrecision}};
}

}  // namespace moka
