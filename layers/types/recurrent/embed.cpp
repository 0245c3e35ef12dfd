// y = the row of a table that each index names, plus a bias: an inner product with one-hot vectors.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"

namespace moka {
namespace {

void BuildEmbed(LayerBuilder& l) {
  const EmbedParameter& p = l.param().embed_param();
  const GraphBuilder& b = l.b();
  const int64_t outputs = p.num_output();
  const int64_t rows = p.input_dim();
  l.Check(outputs >= 1, "embed_param.num_output", "num_output must be given and at least 1");
  l.Check(rows >= 1, "embed_param.input_dim", "input_dim must be given and at least 1");
  l.Check(l.shape(0).rank() < Shape::kMaxRank, "bottom[0]",
          StrCat("the top has one axis more than the bottom ", l.shape(0).ToString(), ", over the limit of ",
                 Shape::kMaxRank));
  const ValueId w =
      l.AddBlob(0, {rows, outputs}, p.weight_filler(), ParameterRole::kWeight, "embed_param.weight_filler");
  ValueId y = b.Add1("embed", {l.bottom(0), w});
  if (p.bias_term()) {
    const ValueId bias = l.AddBlob(1, {outputs}, p.bias_filler(), ParameterRole::kBias, "embed_param.bias_filler");
    const int rank = b.shape(y).rank();
    y = b.Pointwise("x0+x1", {y, b.Reshape(bias, Spread({outputs}, rank - 1, rank))});
  }
  l.SetTop(0, y);
}

BottomShapes BottomsOfEmbed(const TopNeed& need) {
  const int rank = need.top.rank();
  return rank > 1 ? FirstBottom(need.top.Erased(rank - 1)) : BottomShapes{};
}

int64_t RowsOfEmbed(const LayerParameter& layer) { return layer.embed_param().input_dim(); }

}  // namespace

LayerDef EmbedLayer() {
  return {.type = "Embed",
          .build = BuildEmbed,
          .traits = {.embeds_items = true},
          .rows = RowsOfEmbed,
          .bottoms = BottomsOfEmbed,
          .params = {"embed_param"}};
}

}  // namespace moka
