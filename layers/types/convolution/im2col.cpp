// Each window laid out along the channels: [N, C*K, out..], K positions a window, so that a convolution is a product
// with [outputs, C*K].
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/convolution/spatial_fields.h"

namespace moka {
namespace {

void BuildIm2col(LayerBuilder& l) {
  const ConvolutionParameter& p = l.param().convolution_param();
  const std::string param = "convolution_param";
  const ChannelAxis channels(l);
  const Shape& x = channels.shape();
  const WindowFields window = ReadWindow(l, x, param, p, true);
  SpatialField dilation{.name = param + ".dilation", .name_h = param + ".dilation_h", .values = IntsOf(p.dilation())};
  if (p.has_dilation_h()) dilation.h = p.dilation_h();
  if (p.has_dilation_w()) dilation.w = p.dilation_w();
  dilation.fallback = 1;
  const ValueId y = l.b().Add1("im2col", {channels.Fold(l, l.bottom(0))},
                               {{"kernel", window.kernel},
                                {"stride", window.stride},
                                {"pad_begin", window.pad},
                                {"pad_end", window.pad_end},
                                {"dilation", ReadSpatial(l, dilation, SpatialAxes(l, x))}});
  l.SetTop(0, channels.Unfold(l, y));
}

}  // namespace

LayerDef Im2colLayer() { return {.type = "Im2col", .build = BuildIm2col, .params = {"convolution_param"}}; }

}  // namespace moka
