// Position-sensitive pooling of regions (Dai et al., "R-FCN", 2016; caffe-rfcn's psroi_pooling_layer).
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildPsroiPooling(LayerBuilder& l) {
  CheckRegionBottoms(l);
  const PSROIPoolingParameter& p = l.param().psroi_pooling_param();
  const std::string message = "psroi_pooling_param";
  l.Check(p.has_spatial_scale(), message, "psroi_pooling_param.spatial_scale must be given");
  l.Check(p.output_dim() >= 1, message + ".output_dim",
          StrCat("psroi_pooling_param.output_dim must be given and at least 1, found ", p.output_dim()));
  l.Check(p.group_size() >= 1 && p.group_size() <= 4096, message + ".group_size",
          StrCat("psroi_pooling_param.group_size must be given and from 1 to 4096, found ", p.group_size()));
  const int64_t bins = p.group_size();
  const int64_t channels = (Size(p.output_dim()) * bins * bins).value();
  l.Check(l.shape(0)[1] == channels, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" ", l.shape(0).ToString(),
                 " must have output_dim * group_size^2 = ", channels, " channels"));
  l.SetTop(0, l.b().Add1("psroi_pool", {l.bottom(0), Regions(l)},
                         {{"bins", bins}, {"scale", ScaleOf(l, message, p.spatial_scale())}}));
}

}  // namespace

LayerDef PsroiPoolingLayer() {
  return {
      .type = "PSROIPooling",
      .doc =
          "The mean over each of group_size x group_size bins of the regions in bottom 1 [R,5]; bin (i, j) of output "
          "channel c reads channel (c * group_size + i) * group_size + j of bottom 0, which has output_dim * "
          "group_size^2. The top is [R,output_dim,group_size,group_size]. Coordinates are rounded before "
          "spatial_scale, "
          "the last pixel belongs to the region, and an empty bin is 0.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildPsroiPooling,
      .page = {
          .params = {"psroi_pooling_param"},
          .formula = "For region (image n, x1, y1, x2, y2), g = group_size: `start = round(x1) * spatial_scale`, `end "
                     "= (round(x2) + 1) * spatial_scale`, `step = max(end - start, 0.1) / g`; bin j covers pixels "
                     "`floor(start + j step)` to `ceil(start + (j + 1) step)` (excluded), cut to the map; rows "
                     "likewise. `y[r,c,i,j]` is the mean of channel `(c g + i) g + j` of image n over bin (i, j), 0 if "
                     "the bin is empty. y is `[R,output_dim,g,g]`.",
          .gradient = "x: each dy divided by its bin's pixels is added to each of them. The regions get none.",
          .source = "Dai et al., \"R-FCN: Object Detection via Region-based Fully Convolutional Networks\", 2016, "
                    "arXiv 1605.06409; caffe-rfcn's psroi_pooling_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 8 dim: 8 dim: 8 } } }
layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 4 dim: 5 } } }
layer {
  name: "pool"
  type: "PSROIPooling"
  bottom: "x"
  bottom: "rois"
  top: "pool"
  psroi_pooling_param { spatial_scale: 0.5 output_dim: 2 group_size: 2 }
})"}};
}

}  // namespace moka
