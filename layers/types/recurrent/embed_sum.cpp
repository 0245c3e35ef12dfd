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

}  // namespace

LayerDef EmbedSumLayer() {
  return {
      .type = "EmbedSum",
      .doc =
          "Sums of a table's rows: top [..,num_output] holds for the indices along the bottom's last axis [..,words] "
          "the sum of their rows of the weights [input_dim,num_output], each word of a sentence alike or, with "
          "encoding POSITION, by weights that tell the words' order. embed_sum_param.padding is an index that stands "
          "for no word. A second top is the table itself, for layers that share it, with zeros in the padding's row.",
      .max_tops = 2,
      .build = BuildEmbedSum,
      .page = {
          .params = {"embed_sum_param"},
          .formula =
              "`y[p,k] = sum over j of l[j,k] * W[x[p,j],k]` for every position p of the index x `[..,words]`; "
              "y is `[..,num_output]`, blob W `[input_dim,num_output]`. Places whose index is `padding` are "
              "left out, and are not counted as words. SUM: `l = 1`. POSITION: word j of J, both counted from "
              "1, has in column k of d, from 1, `l[j,k] = 1 + 4/(d J) * (k - (d+1)/2) * (j - (J+1)/2)`; J is the "
              "number of words of that sentence. Indices are floats that hold whole numbers from 0 to `input_dim - 1`; "
              "any other value stops the run.\n\nTop 1 is W `[input_dim,num_output]` with zeros in row "
              "`padding`: MatMul with it, transposed, gives scores of words.",
          .gradient = "W: `dW[r,k] = sum of l[j,k] * dy[p,k] over the p, j with x[p,j] = r`, and the second top's "
                      "gradient; none for row `padding`, which stays as it was filled. The index gets none.",
          .source =
              "Moka's own, for the embeddings of Sukhbaatar et al., \"End-to-end memory networks\", 2015, arXiv "
              "1503.08895, section 4.1 (bag of words; position encoding as the authors' code has it, with mean 1).",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "index" type: "Threshold" bottom: "x" top: "index" threshold_param { threshold: 0.5 } }
layer {
  name: "sentence"
  type: "EmbedSum"
  bottom: "index"
  top: "sentence"
  top: "words"
  embed_sum_param {
    input_dim: 2 num_output: 5 padding: 0 encoding: POSITION weight_filler { type: "gaussian" std: 0.1 }
  }
})"}};
}

}  // namespace moka
