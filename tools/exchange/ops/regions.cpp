// Regions [R,5] (image, x1, y1, x2, y2) of a map by RoiAlign, which wants images and corners apart. Both count a sample
// within a pixel outside the map as the edge; where the number of samples follows the bin, they agree for regions whose
// bins are no larger than the map. A region of no image is 0 in the net; in the file it is
// one of the first image, in whose place a Where puts 0, as readers refuse a number of an image that is none.
#include <algorithm>

#include "graph/op.h"
#include "tools/exchange/onnx_op.h"

namespace moka {
namespace {

constexpr int64_t kFirstAlignedOpset = 16;

void WriteRoiAlign(OnnxNode& n) {
  const Attributes& a = n.attributes();
  if (a.Float("pad_ratio") != 0) n.Refuse("regions that are enlarged (pad_ratio)");
  if (a.Float("margin") != 1) n.Refuse("samples at the corners of bins (roi_pooling_param)");
  const bool is_aligned = a.Bool("aligned");
  if (is_aligned && n.opset() < kFirstAlignedOpset)
    n.Refuse("regions that are shifted by half a pixel (aligned), which ONNX knows since opset 16");
  const std::string rois = n.x(1).rank() == 2 ? n.In(1) : n.Add("Reshape", {n.In(1), n.List({-1, 5})});
  const auto columns = [&](int64_t begin, int64_t end) {
    return n.Add("Slice", {rois, n.List({begin}), n.List({end}), n.List({1})});
  };
  const std::string image = columns(0, 1);
  const std::string known = n.Add("Reshape", {n.Add("Max", {image, n.onnx().Scalar(0)}), n.List({-1})});
  const std::string index = n.Add("Cast", {known}, {{"to", int64_t{OnnxTypeOf(DType::kInt64)}}});
  Attributes attributes{{"output_height", a.Int("height")},
                        {"output_width", a.Int("width")},
                        {"sampling_ratio", std::max<int64_t>(0, a.Int("sampling_ratio"))},
                        {"spatial_scale", a.Float("scale")}};
  if (n.opset() >= kFirstAlignedOpset) {
    attributes.Set("coordinate_transformation_mode", std::string(is_aligned ? "half_pixel" : "output_half_pixel"));
  }
  const std::string pooled = n.Add("RoiAlign", {n.In(0), columns(1, 5), index}, attributes);
  const std::string is_none = n.Add("Less", {image, n.onnx().Scalar(0)});
  const std::string none = n.Add("Reshape", {is_none, n.List({-1, 1, 1, 1})});
  n.Give("Where", {none, n.onnx().Scalar(0), pooled});
}

}  // namespace

OnnxOp OnnxRoiAlign() { return {.op = "roi_align", .write = WriteRoiAlign}; }

}  // namespace moka
