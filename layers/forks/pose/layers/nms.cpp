// Nms: the peaks of heat maps.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildNms(LayerBuilder& l) {
  const NmsParameter& p = l.param().nms_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  l.Check(p.num_parts() >= 1 && p.num_parts() <= x[1], "nms_param.num_parts",
          StrCat("num_parts must be from 1 to the bottom's ", x[1], " maps, found ", p.num_parts()));
  l.Check(p.max_peaks() >= 1 && p.max_peaks() <= INT32_MAX / 2, "nms_param.max_peaks",
          StrCat("max_peaks must be at least 1, found ", p.max_peaks()));
  l.SetTop(0, l.b().Add1("heat_peaks", {l.bottom(0)},
                         {{"threshold", Finite(l, "nms_param.threshold", p.threshold())},
                          {"parts", int64_t{p.num_parts()}},
                          {"peaks", int64_t{p.max_peaks()}}}));
}

}  // namespace

LayerDef NmsLayer() {
  return {
      .type = "Nms",
      .doc =
          "Peaks of the first num_parts maps of [N,C,H,W]: [N,num_parts,max_peaks+1,3]. Row 0 of a map is (number of "
          "peaks, 0, 0), which may be above max_peaks; then a row (x, y, score) for each of the first max_peaks "
          "peaks, top to bottom and left to right; unused rows are 0. A peak is above threshold and above its eight "
          "neighbours; the border has none. No gradient.",
      .build = BuildNms,
      .page = {
          .params = {"nms_param"},
          .formula = "Pixel (i, j), 0 < i < H-1 and 0 < j < W-1, is a peak when its value is above threshold (default "
                     "0.5) and above that of each of its eight neighbours. Its row is `(sum v x / sum v, sum v y / sum "
                     "v, value)` over the positive values v of the 7 x 7 pixels around it whose x is from 1 to W-1 and "
                     "y from 1 to the lesser of H-1 and W-1.",
          .gradient = "None: the bottom gets none.",
          .source = "The nms_layer of the Caffe of Cao, Simon, Wei, Sheikh, \"Realtime Multi-Person 2D Pose Estimation "
                    "using Part Affinity Fields\", arXiv 1611.08050, as it computes on GPUs. There rows that are not "
                    "used keep older values, and with H below W the 7 x 7 pixels reach into the next map; here they "
                    "are 0 and end with the map. num_peak is read and not used, as there.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 8 dim: 8 } } }
layer {
  name: "nms"
  type: "Nms"
  bottom: "x"
  top: "joints"
  nms_param { threshold: 0.2 max_peaks: 4 num_parts: 2 }
})"}};
}

}  // namespace moka
