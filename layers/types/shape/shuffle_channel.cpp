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
  return {.type = "ShuffleChannel", .build = BuildShuffleChannel, .params = {"shuffle_channel_param"}};
}

}  // namespace moka
