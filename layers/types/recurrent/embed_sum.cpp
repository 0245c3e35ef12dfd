// y = the sum of the rows of a table that the indices along the last axis name: sentences from words.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// The table with zeros in the row of the padding, so that what else reads it sees an index that stands for nothing.
ValueId TableWithoutPadding(const GraphBuilder& b, ValueId table, int64_t padding) {
  if (padding < 0) return table;
  const int64_t rows = b.shape(table)[0];
  const int64_t columns = b.shape(table)[1];
  Ints sizes;
  if (padding > 0) sizes.push_back(padding);
  sizes.push_back(1);
  if (padding + 1 < rows) sizes.push_back(rows - padding - 1);
  std::vector<ValueId> parts = b.Add("slice", {table}, {{"axis", int64_t{0}}, {"sizes", sizes}});
  parts[padding > 0 ? 1 : 0] = b.Full({1, columns}, 0);
  return parts.size() == 1 ? parts[0] : b.Add1("concat", parts, {{"axis", int64_t{0}}});
}

void BuildEmbedSum(LayerBuilder& l) {
  const EmbedSumParameter& p = l.param().embed_sum_param();
  const GraphBuilder& b = l.b();
  const int64_t columns = p.num_output();
  const int64_t rows = p.input_dim();
  l.Check(columns >= 1, "embed_sum_param.num_output", "num_output must be given and at least 1");
  l.Check(rows >= 1, "embed_sum_param.input_dim", "input_dim must be given and at least 1");
  l.Check(l.shape(0).rank() >= 1, "bottom[0]", "the bottom needs an axis of words, found []");
  const int64_t padding = p.padding();
  l.Check(padding >= -1 && padding < rows, "embed_sum_param.padding",
          StrCat("padding is ", padding, ", expected a row of the table, 0..", rows - 1, ", or -1 for none"));
  const ValueId table =
      l.AddBlob(0, {rows, columns}, p.weight_filler(), ParameterRole::kWeight, "embed_sum_param.weight_filler");
  l.SetTop(0, b.Add1("embed_sum", {l.bottom(0), table},
                     {{"padding", padding}, {"position", p.encoding() == EmbedSumParameter::POSITION}}));
  if (l.top_count() == 2) l.SetTop(1, TableWithoutPadding(b, table, padding));
}

int64_t RowsOfEmbedSum(const LayerParameter& layer) { return layer.embed_sum_param().input_dim(); }

}  // namespace

LayerDef EmbedSumLayer() {
  return {
      .type = "EmbedSum", .max_tops = 2, .build = BuildEmbedSum, .rows = RowsOfEmbedSum, .params = {"embed_sum_param"}};
}

}  // namespace moka
