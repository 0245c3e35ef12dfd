// Position-sensitive pooling of regions (Dai et al., "R-FCN", 2016; caffe-rfcn's psroi_pooling_layer).
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

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
  return {.type = "PSROIPooling",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildPsroiPooling,
          .needs = NeedRegions,
          .params = {"psroi_pooling_param"}};
}

}  // namespace moka
