// Channel shuffle (ShuffleNet, arXiv 1707.01083): the channels seen as [group, C/group] are transposed.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildShuffleChannel(LayerBuilder& l) {
  const int64_t group = l.param().shuffle_channel_param().group();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", x.ToString()));
  l.Check(group >= 1 && x[1] % group == 0, "shuffle_channel_param.group",
          StrCat("shuffle_channel_param.group must divide the ", x[1], " channels of the bottom ", x.ToString(),
                 ", found ", group));
  const GraphBuilder& b = l.b();
  const ValueId groups = b.Reshape(l.bottom(0), {x[0], group, x[1] / group, x.Count(2, x.rank())});
  l.SetTop(0, b.Reshape(b.Add1("transpose", {groups}, {{"perm", Ints{0, 2, 1, 3}}}), x));
}

}  // namespace

LayerDef ShuffleChannelLayer() {
  return {
      .type = "ShuffleChannel",
      .doc =
          "The channels of [N,C,..] mixed among shuffle_channel_param.group groups: channel j*group+i of the top "
          "is channel i*(C/group)+j of the bottom.",
      .build = BuildShuffleChannel,
      .page = {
          .params = {"shuffle_channel_param"},
          .formula = "`y[n, j*g + i] = x[n, i*(C/g) + j]` for g = group (default 1), 0 <= i < g and 0 <= j < C/g: "
                     "the channels seen as [g, C/g] are transposed. Shape as the bottom, [N,C,..]; group must "
                     "divide C.",
          .gradient = "`dx[n, i*(C/g) + j] = dy[n, j*g + i]`.",
          .source = "ShuffleNet (Zhang, Zhou, Lin, Sun, arXiv 1707.01083), as the layer of its Caffe ports.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 6 dim: 4 dim: 4 } } }
layer {
  name: "shuffle"
  type: "ShuffleChannel"
  bottom: "x"
  top: "shuffle"
  shuffle_channel_param { group: 3 }
})"}};
}

}  // namespace moka
