// y = the row of a table that each index names, plus a bias: an inner product with one-hot vectors.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

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

}  // namespace

LayerDef EmbedLayer() {
  return {.type = "Embed",
          .doc =
              "The rows of a table: top [..,num_output] holds for each index of the bottom [..] its row of the weights "
              "[input_dim,num_output], plus a bias [num_output] unless bias_term is false. Indices are whole numbers "
              "from 0 to input_dim - 1; another one stops the run with its value and position. The index gets no "
              "gradient.",
          .build = BuildEmbed,
          .page = {
              .params = {"embed_param"},
              .formula = "`y[p,:] = W[x[p],:] + b` for every position p of the index x `[..]`; y is `[..,num_output]`. "
                         "Blobs: W `[input_dim,num_output]`, b `[num_output]` (none with `bias_term: false`). Indices "
                         "are floats that hold whole numbers from 0 to `input_dim - 1`; any other value stops the run.",
              .gradient = "W: `dW[k,:] = sum of dy[p,:] over the p with x[p] = k`. b: `db = sum over p of dy[p,:]`. "
                          "The index gets none.\n\nWhere the solver's update leaves a weight without gradient as it is "
                          "(SGD without momentum, decay and averages of weights; no clipping by the norm of all "
                          "gradients), a training updates only the rows that the indices of a step name, with the same "
                          "bits as updating all of W; any other update reads the whole dW.",
              .source = "BVLC Caffe's embed_layer. An index outside the table stops the run in every build; the "
                        "original checks it only in debug builds.",
              .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer {
  name: "index"
  type: "Threshold"
  bottom: "x"
  top: "index"
  threshold_param { threshold: 0.5 }
}
layer {
  name: "embed"
  type: "Embed"
  bottom: "index"
  top: "embed"
  embed_param { input_dim: 2 num_output: 5 weight_filler { type: "uniform" min: -0.1 max: 0.1 } }
})"}};
}

}  // namespace moka
