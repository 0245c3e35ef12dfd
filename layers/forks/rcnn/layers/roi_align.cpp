// ROIAlign (He et al., "Mask R-CNN", 2017): regions pooled without rounding.
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// MS-CNN's and Cascade R-CNN's layer of this name samples the corners of the bins, one more a side than there are, each
// half a pixel from the map at most. That is roi_align over regions that are half a bin larger, one sample a bin.
void BuildCorners(LayerBuilder& l) {
  const ROIPoolingParameter& p = l.param().roi_pooling_param();
  const double pad_ratio = PadRatioOf(l, "roi_pooling_param", p.pad_ratio());
  Attributes bins = BinsOf(l, "roi_pooling_param", p.pooled_h(), p.pooled_w(), p.spatial_scale());
  std::vector<ValueId> columns = RegionColumns(l);
  const auto enlarged = [&](size_t axis, int64_t count) {
    const std::string parts = StrCat("t0=", Number(pad_ratio), "*(x1-x0+1);t1=t0+(x1-x0+2*t0)/", 2 * count, ";");
    return l.b().Pointwise(Strings{parts + "x0-t1", parts + "x1+t1"}, {columns[axis], columns[axis + 2]});
  };
  const std::vector<ValueId> x = enlarged(1, p.pooled_w());
  const std::vector<ValueId> y = enlarged(2, p.pooled_h());
  // A region without a side gives zeros: no image has it.
  const ValueId image = l.b().Pointwise("select(min(gt(x2,x1),gt(x4,x3)),x0,-1)", {columns[0], x[0], x[1], y[0], y[1]});
  const ValueId rois = l.b().Add1("concat", {image, x[0], y[0], x[1], y[1]}, {{"axis", int64_t{1}}});
  bins.Set("height", int64_t{p.pooled_h()} + 1);
  bins.Set("width", int64_t{p.pooled_w()} + 1);
  bins.Set("sampling_ratio", int64_t{1});
  bins.Set("aligned", true);
  bins.Set("pad_ratio", 0.0);
  bins.Set("margin", 0.5);
  l.SetTop(0, l.b().Add1("roi_align", {l.bottom(0), rois}, bins));
}

void BuildRoiAlign(LayerBuilder& l) {
  CheckRegionBottoms(l);
  if (l.param().has_roi_pooling_param()) {
    l.Check(!l.param().has_roi_align_param(), "roi_pooling_param",
            "there must be one of roi_align_param and roi_pooling_param, found both");
    l.Check(!l.NetHas("FrcnnProposal"), "roi_pooling_param",
            "the ROIAlign of makefile/frcnn, which reads roi_pooling_param, is not built; use roi_align_param");
    return BuildCorners(l);
  }
  const ROIAlignParameter& p = l.param().roi_align_param();
  Attributes bins = BinsOf(l, "roi_align_param", p.pooled_h(), p.pooled_w(), p.spatial_scale());
  const double pad_ratio = PadRatioOf(l, "roi_align_param", p.pad_ratio());
  l.Check(p.sampling_ratio() <= 1024, "roi_align_param.sampling_ratio",
          StrCat("roi_align_param.sampling_ratio must be at most 1024, found ", p.sampling_ratio()));
  bins.Set("sampling_ratio", int64_t{std::max(p.sampling_ratio(), 0)});
  bins.Set("aligned", p.aligned());
  bins.Set("pad_ratio", pad_ratio);
  l.SetTop(0, l.b().Add1("roi_align", {l.bottom(0), Regions(l)}, bins));
}

}  // namespace

LayerDef RoiAlignLayer() {
  return {
      .type = "ROIAlign",
      .doc =
          "The mean of bilinear samples in each of pooled_h x pooled_w bins of the regions in bottom 1 [R,5] (image, "
          "x1, y1, x2, y2 in image pixels) of bottom 0 [N,C,H,W]; the top is [R,C,pooled_h,pooled_w]. Coordinates are "
          "multiplied by spatial_scale and nothing is rounded. sampling_ratio (default 2) samples a bin along each "
          "axis (0: as many as it has pixels). aligned: true shifts coordinates by half a pixel, as later code does; "
          "false (default, as first published) does not, and a region has at least one pixel a side. pad_ratio "
          "enlarges a region by that part of its side at each end. With roi_pooling_param in its place (MS-CNN, "
          "Cascade "
          "R-CNN) the corners of the bins are sampled and the top is [R,C,pooled_h+1,pooled_w+1].",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildRoiAlign,
      .page = {
          .params = {"roi_align_param", "roi_pooling_param"},
          .formula =
              "Along an axis, for a region from a to b of n bins (n = pooled_h or pooled_w): `p = (b - a + 1) "
              "pad_ratio`, `start = (a - p) spatial_scale - o`, `extent = (b + p) spatial_scale - o - start`, "
              "with `o = 0.5` if aligned, else `o = 0` and extent at least 1; `step = extent / n`. Bin j has s "
              "samples at `start + (j + (k + 0.5) / s) step`, k = 0..s-1, where s is sampling_ratio (default 2) "
              "or, if that is not above 0, `ceil(step)`, at most the map's size. `y[r,c,i,j]` is the mean of "
              "the bilinear samples of bin (i, j); one more than a pixel outside the map counts as 0, one less "
              "far outside takes the edge. y is `[R,C,pooled_h,pooled_w]`.\n\nroi_pooling_param: `p` as above with its "
              "pad_ratio, `o = 0.5`, one sample at each `start + j step`, j = 0..n; one more than half a pixel "
              "outside the map counts as 0, so does a region with no extent.",
          .gradient = "x: each dy is added to the pixels that were sampled, times their weights. The regions get none.",
          .source = "He et al., \"Mask R-CNN\", 2017, arXiv 1703.06870, with the sampling of its published code "
                    "(Detectron); `aligned: true` is that of Detectron2. `pad_ratio` is a field of a Caffe fork; "
                    "roi_pooling_param gives the roi_align_layer of mscnn and "
                    "cascade-rcnn.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 4 dim: 5 } } }
layer {
  name: "pool"
  type: "ROIAlign"
  bottom: "x"
  bottom: "rois"
  top: "pool"
  roi_align_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.5 sampling_ratio: 2 }
})"}};
}

}  // namespace moka
