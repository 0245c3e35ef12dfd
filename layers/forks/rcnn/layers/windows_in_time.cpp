// R-C3D's Python layers (Xu, Das, Saenko, ICCV 2017): proposals and targets of windows in time, [first frame, last
// frame], where py-faster-rcnn has boxes. A window is a box of a strip that is one row of cells high: all boxes share
// the rows, so overlaps, moves and suppression are those of the windows, and the ops over boxes serve. What the
// originals read from tdcnn.config has the values most of its recipes share.
#include <algorithm>

#include "core/text.h"
#include "layers/forks/rcnn/layers/region_values.h"
#include "layers/forks/rcnn/layers/rpn.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

// The strip: scores [1,2A,L,1,1] and where its cells lie.
struct Strip {
  int64_t anchors;
  int64_t length;
  Attributes attributes;  // anchors and stride, boxes from row 0 to `rows` - 1
};

// The originals' anchors: 8 * scale frames around the middle of the first cell.
Strip StripOf(const LayerBuilder& l, const PythonFields& fields, double rows) {
  const Shape scores = l.shape(0);
  const Doubles scales = fields.Numbers("scales", {2, 4, 5, 6, 8, 9, 10, 12, 14, 16});
  l.Check(std::ranges::all_of(scales, [](double v) { return v > 0; }), "python_param.param_str",
          "python_param.param_str: 'scales' must be greater than 0");
  const auto anchors = static_cast<int64_t>(scales.size());
  const bool fits = scores.rank() == 5 && scores[0] == 1 && scores[1] == 2 * anchors && scores.Count(3, 5) == 1;
  l.Check(fits, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [1,", 2 * anchors, ",L,1,1] (two scores of each of ",
                 anchors, " windows), found ", scores.ToString()));
  Doubles boxes;
  for (const double scale : scales) {
    const double reach = 0.5 * (8 * scale - 1);
    for (const double v : {3.5 - reach, 0.0, 3.5 + reach, rows - 1}) boxes.push_back(v);
  }
  const auto stride = static_cast<double>(fields.Count("feat_stride", 1));
  return {anchors, scores[2], Attributes{{"anchors", std::move(boxes)}, {"stride", stride}}};
}

// im_info of a strip: [1,3] height, width and scale 1.
ValueId SizeOf(const GraphBuilder& b, double rows, double frames) {
  const Shape one{1, 1};
  return Beside(b, {b.Full(one, rows), b.Full(one, frames), b.Full(one, 1)});
}

// Deltas [1,2A,L,1,1] of middle and length as those of boxes, [1,4A,1,L].
ValueId AsBoxDeltas(const LayerBuilder& l, const Strip& strip) {
  const GraphBuilder& b = l.b();
  l.Check(l.shape(1) == l.shape(0), "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must be ", l.shape(0).ToString(),
                 " (middle and length of each window), found ", l.shape(1).ToString()));
  const std::vector<ValueId> parts = Columns(b, b.Reshape(l.bottom(1), Shape{strip.anchors, 2, strip.length}));
  const ValueId zero = b.Full(Shape{strip.anchors, 1, strip.length}, 0);
  return b.Reshape(Beside(b, {parts[0], zero, parts[1], zero}), Shape{1, 4 * strip.anchors, 1, strip.length});
}

// Columns 0 and 2 of groups of four, [..,4,..] -> [..,2,..].
ValueId TimePart(const GraphBuilder& b, ValueId x) {
  const std::vector<ValueId> columns = Columns(b, x);
  return Beside(b, {columns[0], columns[2]});
}

// Two numbers of a field of the configuration as four of boxes, `other` for the rows.
Doubles Pair(const LayerBuilder& l, const PythonFields& fields, std::string_view key, const Doubles& fallback,
             double other) {
  const Doubles pair = fields.Numbers(key, fallback);
  l.Check(pair.size() == 2, "python_param.param_str",
          StrCat("python_param.param_str: '", key, "' must have 2 numbers, found ", pair.size()));
  return {pair[0], other, pair[1], other};
}

}  // namespace

void BuildProposalInTime(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const bool is_short = l.phase() == TEST;
  const double least = fields.Number("min_size", 8);
  const double rows = std::max(least, 1.0);
  Strip strip = StripOf(l, fields, rows);
  Attributes& attributes = strip.attributes;
  attributes.Set("pre_nms", fields.Count("pre_nms_topn", is_short ? 6000 : 12000, 0));
  attributes.Set("post_nms", fields.Count("post_nms_topn", is_short ? 300 : 2000, 1));
  attributes.Set("nms_threshold", fields.Number("nms_thresh", 0.7));
  attributes.Set("min_size", least);
  const double frames = static_cast<double>(strip.length) * attributes.Float("stride");
  const ValueId scores = b.Reshape(l.bottom(0), Shape{1, 2 * strip.anchors, 1, strip.length});
  const std::vector<ValueId> found =
      b.Add("proposals", {scores, AsBoxDeltas(l, strip), SizeOf(b, rows, frames)}, attributes);
  const std::vector<ValueId> columns = Columns(b, found[0]);
  l.SetTop(0, Beside(b, {columns[0], columns[1], columns[3]}));
  if (l.top_count() > 1) l.SetTop(1, found[1]);
}

void BuildAnchorTargetInTime(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  Strip strip = StripOf(l, fields, 1);
  const Shape truth = l.shape(1);
  const Shape clip = l.shape(2);
  l.Check(truth.rank() == 2 && truth[1] == 3, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must be [G,3] (first frame, last frame, class), found ",
                 truth.ToString()));
  l.Check(clip.rank() == 5, "bottom[2]",
          StrCat("bottom \"", l.param().bottom(2), "\" must be the clips [1,C,frames,H,W], found ", clip.ToString()));
  strip.attributes.Set("height", int64_t{1});
  strip.attributes.Set("width", strip.length);
  SetSampling(l, fields, 64, strip.attributes);
  l.Check(strip.attributes.Float("allowed_border") >= 0, "python_param.param_str",
          "python_param.param_str: 'allowed_border' must be at least 0");
  const std::vector<ValueId> columns = Columns(b, l.bottom(1));
  const ValueId row = b.Full(Shape{truth[0], 1}, 0);
  const ValueId boxes = Beside(b, {columns[0], row, columns[1], row, columns[2]});
  const ValueId size = SizeOf(b, 1, static_cast<double>(clip[2]));
  const std::vector<ValueId> made = b.Add("anchor_targets", {boxes, size, l.RandomKey()}, strip.attributes);
  l.SetTop(0, b.Reshape(made[0], Shape{1, 1, strip.anchors * strip.length, 1, 1}));
  for (int i = 1; i < l.top_count(); ++i) {
    const ValueId four = b.Reshape(made[static_cast<size_t>(i)], Shape{strip.anchors, 4, strip.length});
    l.SetTop(i, b.Reshape(TimePart(b, four), Shape{1, 2 * strip.anchors, strip.length, 1, 1}));
  }
}

void BuildProposalTargetInTime(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const int64_t regions = l.shape(0)[0];
  const Shape truth = l.shape(1);
  l.Check(truth.rank() == 2 && truth[1] == 3, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must be [G,3] (first frame, last frame, class), found ",
                 truth.ToString()));
  l.Check(!fields.Has("sample"), "python_param.param_str",
          "python_param.param_str: 'sample' is not built; regions are drawn at random, as without it");
  const int64_t classes = fields.Count("num_classes", 2);
  const Attributes attributes{{"rows", fields.Count("batch_size", 128, 1)},
                              {"classes", classes},
                              {"fg_fraction", Doubles{fields.Number("fg_fraction", 0.25)}},
                              {"fg_low", Doubles{fields.Number("fg_thresh", 0.5)}},
                              {"bg_low", Doubles{fields.Number("bg_thresh_lo", 0)}},
                              {"bg_high", Doubles{fields.Number("bg_thresh_hi", 0.5)}},
                              {"means", Pair(l, fields, "twin_normalize_means", {0, 0}, 0)},
                              {"stds", Pair(l, fields, "twin_normalize_stds", {0.1, 0.2}, 1)},
                              {"weights", Pair(l, fields, "twin_inside_weights", {1, 1}, 0)},
                              {"stream", StreamOf(l)}};
  const std::vector<ValueId> region = Columns(b, l.bottom(0));
  const std::vector<ValueId> window = Columns(b, l.bottom(1));
  const ValueId no_row = b.Full(Shape{regions, 1}, 0);
  const ValueId row = b.Full(Shape{truth[0], 1}, 0);
  const ValueId rois = Beside(b, {region[0], region[1], no_row, region[2], no_row});
  const ValueId boxes = Beside(b, {window[0], row, window[1], row, window[2]});
  const std::vector<ValueId> made = b.Add("proposal_targets", {rois, boxes, l.RandomKey()}, attributes);
  const std::vector<ValueId> taken = Columns(b, made[0]);
  l.SetTop(0, Beside(b, {taken[0], taken[1], taken[3]}));
  l.SetTop(1, made[1]);
  const int64_t rows = b.shape(made[1])[0];
  for (int i = 2; i < l.top_count(); ++i) {
    const ValueId four = b.Reshape(made[static_cast<size_t>(i)], Shape{rows * classes, 4});
    l.SetTop(i, b.Reshape(TimePart(b, four), Shape{rows, 2 * classes}));
  }
}

}  // namespace moka
