// DetectionEvaluate: which detections are right. Caffe's top grows with the detections; here it has the largest size
// and rows that are not used are -1.
#include "core/log.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// Cascade R-CNN's rows of pixel boxes as SSD's: detections (image, x1, y1, x2, y2, class, score) and objects (image,
// x1, y1, x2, y2, class, ignored, difficult). A pixel box ends where its last pixel does.
ValueId SsdRows(const LayerBuilder& l, int bottom, int64_t columns, const std::vector<size_t>& order) {
  const Shape shape = l.shape(bottom);
  l.Check(
      shape.rank() >= 1 && shape.Count(1, shape.rank()) == columns, StrCat("bottom[", bottom, "]"),
      StrCat("bottom \"", l.param().bottom(bottom), "\" must have ", columns, " columns, found ", shape.ToString()));
  const ValueId rows = l.b().Reshape(l.bottom(bottom), Shape{shape[0], columns});
  const std::vector<ValueId> parts =
      l.b().Add("slice", {rows}, {{"axis", int64_t{1}}, {"sizes", Ints(static_cast<size_t>(columns), 1)}});
  std::vector<ValueId> taken;
  for (const size_t from : order) {
    taken.push_back(from == 3 || from == 4 ? l.b().Pointwise("x0+1", {parts[from]}) : parts[from]);
  }
  return l.b().Reshape(l.b().Add1("concat", taken, {{"axis", int64_t{1}}}), Shape{1, 1, shape[0], columns});
}

// The first columns of rows [1,1,R,width].
ValueId FirstColumns(const LayerBuilder& l, int bottom, int64_t kept, int64_t width) {
  const Shape shape = l.shape(bottom);
  l.Check(shape.rank() == 4 && shape[3] == width, StrCat("bottom[", bottom, "]"),
          StrCat("with use_polygon or has_lm bottom \"", l.param().bottom(bottom), "\" must be [1,1,rows,", width,
                 "], found ", shape.ToString()));
  return l.b().Add("slice", {l.bottom(bottom)}, {{"axis", int64_t{3}}, {"sizes", Ints{kept, width - kept}}})[0];
}

void BuildDetectionEvaluate(LayerBuilder& l) {
  const DetectionEvaluateParameter& p = l.param().detection_evaluate_param();
  l.Check(p.num_classes() >= 1, "detection_evaluate_param.num_classes", "num_classes must be given, at least 1");
  l.Check(p.overlap_threshold() > 0, "detection_evaluate_param.overlap_threshold",
          StrCat("overlap_threshold must be above 0, found ", p.overlap_threshold()));
  const bool is_cascade = l.bottom_count() == 3;
  l.Check(!p.has_use_polygon() || p.use_polygon(), "detection_evaluate_param.use_polygon",
          "use_polygon: false means TextBoxes++'s rotated boxes, which are not supported; leave it out for boxes");
  l.Check(!p.use_polygon() || !is_cascade, "detection_evaluate_param.use_polygon",
          "use_polygon goes with two bottoms, found 3");
  l.Check(!p.has_lm() || (!is_cascade && !p.use_polygon()), "detection_evaluate_param.has_lm",
          "has_lm goes with two bottoms of boxes");
  // If it has the images' sizes, Caffe compares boxes in pixels of the images, which differs by the one pixel it adds
  // to each side.
  if (!p.name_size_file().empty()) {
    LogWarning(StrCat("layer \"", l.param().name(), "\": boxes are compared ",
                      is_cascade ? "in pixels of the net's input" : "as fractions of the image",
                      ", without the sizes of ", Printable(p.name_size_file())));
  }
  std::vector<ValueId> inputs = l.bottoms();
  if (is_cascade) inputs = {SsdRows(l, 0, 7, {0, 5, 6, 1, 2, 3, 4}), SsdRows(l, 1, 8, {0, 5, 6, 1, 2, 3, 4, 7})};
  if (p.use_polygon()) inputs = {FirstColumns(l, 0, 7, 15), FirstColumns(l, 1, 8, 16)};
  if (p.has_lm()) inputs = {FirstColumns(l, 0, 7, 17), FirstColumns(l, 1, 8, 19)};
  // Caffe reads the unsigned field into an int: 4294967295 is its -1, no background.
  const auto background = static_cast<int32_t>(p.background_label_id());
  const ValueId top =
      l.b().Add1("detection_evaluate", inputs,
                 {{"classes", int64_t{p.num_classes()}},
                  {"background", int64_t{background}},
                  {"overlap_threshold", Finite(l, "detection_evaluate_param.overlap_threshold", p.overlap_threshold())},
                  {"evaluate_difficult", p.evaluate_difficult_gt()}});
  const int64_t rows = l.b().shape(top)[2];
  l.SetTop(0, is_cascade ? l.b().Reshape(top, Shape{rows, 5, 1, 1}) : top);
}

}  // namespace

LayerDef DetectionEvaluateLayer() {
  return {.type = "DetectionEvaluate",
          .min_bottoms = 2,
          .max_bottoms = 3,
          .build = BuildDetectionEvaluate,
          .traits = {.gives_detections = true},
          .params = {"detection_evaluate_param"}};
}

}  // namespace moka
