// Channels spread over squares of r x r pixels: TensorFlow's depth_to_space and PyTorch's pixel shuffle, which order
// the channels differently.
#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/shape/moves.h"

namespace moka {

ValueId PixelShuffled(const LayerBuilder& l, std::string_view field, ValueId x, int64_t r, bool depth_first) {
  const GraphBuilder& b = l.b();
  const Shape in = b.shape(x);
  l.Check(in.rank() == 4, "bottom[0]", StrCat("the bottom must have four axes, found ", in.ToString()));
  l.Check(r >= 1 && r <= INT16_MAX && in[1] % (r * r) == 0, field,
          StrCat("squares of ", r, " x ", r, " pixels do not divide the ", in[1], " channels of ", in.ToString()));
  const int64_t c = in[1] / (r * r);
  const Ints apart = depth_first ? Ints{in[0], r, r, c, in[2], in[3]} : Ints{in[0], c, r, r, in[2], in[3]};
  const Ints perm = depth_first ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3};
  const ValueId moved = b.Add1("transpose", {b.Reshape(x, Shape(apart))}, {{"perm", perm}});
  return b.Reshape(moved, {in[0], c, (Size(in[2]) * r).value(), (Size(in[3]) * r).value()});
}

namespace {

void BuildDepthToSpace(LayerBuilder& l) {
  const DepthToSpaceParameter& p = l.param().depth_to_space_param();
  const std::string& format = p.data_format();
  l.Check(format == "NHWC" || format == "NCHW" || format == "DCR" || format == "CRD",
          "depth_to_space_param.data_format",
          StrCat("data_format must be NHWC, NCHW, DCR or CRD, found \"", format, "\""));
  const bool is_last = format == "NHWC";
  ValueId x = l.bottom(0);
  l.Check(l.shape(0).rank() == 4, "bottom[0]", StrCat("the bottom must have four axes, found ", l.shape(0).ToString()));
  if (is_last) x = l.b().Add1("transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}});
  ValueId y = PixelShuffled(l, "depth_to_space_param.block_size", x, p.block_size(), format != "CRD");
  if (is_last) y = l.b().Add1("transpose", {y}, {{"perm", Ints{0, 2, 3, 1}}});
  l.SetTop(0, y);
}

}  // namespace

LayerDef DepthToSpaceLayer() {
  return {
      .type = "DepthToSpace",
      .doc =
          "Channels spread over squares of block_size pixels a side: [N,C,H,W] becomes [N,C/r^2,H r,W r] (data_format "
          "NCHW or DCR: block first in the channels; CRD: channel first, a pixel shuffle), or [N,H,W,C] likewise "
          "(NHWC, the default).",
      .build = BuildDepthToSpace,
      .page = {
          .params = {"depth_to_space_param"},
          .formula = "With r = `block_size`, D = C / r^2, channel d of the top and `i, j` from 0 to r - 1: `y[n, d, "
                     "h r + i, w r + j] = x[n, (i r + j) D + d, h, w]` for NCHW and DCR, `x[n, d r^2 + i r + j, h, "
                     "w]` for CRD. NHWC is the first with the channels as last axis.",
          .gradient = "`dx` is dy moved back.",
          .source = "TensorFlow's depth_to_space, as depth_to_space_layer of Synopsys's Caffe has it.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 8 dim: 3 dim: 4 } } }
layer {
  name: "spread"
  type: "DepthToSpace"
  bottom: "x"
  top: "spread"
  depth_to_space_param { block_size: 2 data_format: "NCHW" }
})"}};
}

}  // namespace moka
