// ImResize: heat maps of a picture at several scales brought to one size and averaged.
#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildImResize(LayerBuilder& l) {
  const ImResizeParameter& p = l.param().imresize_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  const double factor = Finite(l, "imresize_param.factor", p.factor());
  l.Check(factor >= 0, "imresize_param.factor", StrCat("factor must not be negative, found ", factor));
  constexpr double kMost = 1 << 15;
  const auto side = [&](int64_t target, int64_t pixels) {
    const double size = factor > 0 ? static_cast<double>(pixels) * factor : static_cast<double>(target);
    l.Check(size >= 1 && size <= kMost, "imresize_param",
            StrCat("the maps' sides must become 1 to ", kMost, " pixels, found ", size));
    return static_cast<int64_t>(size);
  };
  l.SetTop(0, l.b().Add1("cubic_mean", {l.bottom(0)},
                         {{"height", side(p.target_spatial_height(), x[2])},
                          {"width", side(p.target_spatial_width(), x[3])},
                          {"start_scale", Finite(l, "imresize_param.start_scale", p.start_scale())},
                          {"scale_gap", Finite(l, "imresize_param.scale_gap", p.scale_gap())}}));
}

}  // namespace

LayerDef ImResizeLayer() {
  return {
      .type = "ImResize",
      .doc =
          "Bicubic resizing of maps [N,C,H,W] to factor times their size, or target_spatial_height and width; the N "
          "items are one picture at several scales, padded to one size, and the top [1,C,height,width] is the mean "
          "of their unpadded parts. For inference: no gradient.",
      .build = BuildImResize,
      .page = {
          .params = {"imresize_param"},
          .formula = "Item n has a border of `p_w = floor(floor(W/2) * (1 - start_scale + n * scale_gap))` columns on "
                     "each side (rows likewise) and w = W - 2 p_w columns between. Column j of the top is sampled at "
                     "`(j - (width / w / 2 - 1/2)) * w / width` of these: with k its whole part (not below 0) and d "
                     "the rest, from v_0 ... v_3 at k-1, k, k+1, k+2, bounded to the part, as `(-v_0/2 + 3/2 v_1 - "
                     "3/2 v_2 + v_3/2) d^3 + (v_0 - 5/2 v_1 + 2 v_2 - v_3/2) d^2 + (v_2 - v_0)/2 d + v_1`; rows "
                     "likewise. The top is the mean over the items; the sides are factor * H and factor * W, rounded "
                     "down, when factor is above 0.",
          .gradient = "None: the layer is for inference.",
          .source = "The imresize_layer of the Caffe of Cao, Simon, Wei, Sheikh, \"Realtime Multi-Person 2D Pose "
                    "Estimation using Part Affinity Fields\", arXiv 1611.08050, as it computes on GPUs (its CPU code "
                    "takes another kernel and no mean).",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 6 } } }
layer { name: "resize" type: "ImResize" bottom: "x" top: "resized" imresize_param { factor: 2 } })"}};
}

}  // namespace moka
