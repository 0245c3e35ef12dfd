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
  return {.type = "DepthToSpace", .build = BuildDepthToSpace, .params = {"depth_to_space_param"}};
}

}  // namespace moka
