// y = W x + b; from `axis` on the bottom is one vector of K elements. W [num_output, K], or [K, num_output] transposed,
// is a blob or (happynear) the second bottom.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/normalisation/spectral_norm.h"

namespace moka {
namespace {

// Each output's weights divided by their norm (happynear's normalize; its eps). The fork divides the blob itself before
// each pass; here the blob stays as the solver left it, the values used are the same, and the gradient is exact.
ValueId UnitRows(const LayerBuilder& l, ValueId w) {
  const int64_t inputs_axis = l.param().inner_product_param().transpose() ? 0 : 1;
  const ValueId squares = l.b().Add1("reduce_sum", {w}, {{"expr", std::string("x0*x0")}, {"axes", Ints{inputs_axis}}});
  return l.b().Pointwise("x0/sqrt(x1+1e-6)", {w, squares});
}

// The weights of the second bottom, whose first axis counts the outputs.
ValueId GivenWeights(const LayerBuilder& l, int64_t length) {
  const InnerProductParameter& p = l.param().inner_product_param();
  const Shape w = l.shape(1);
  l.Check(!p.transpose() && !p.bias_term(), "inner_product_param",
          "with weights in the second bottom bias_term and transpose must be false");
  l.Check(w.rank() >= 1 && w.Count() == w[0] * length, "bottom[1]",
          StrCat("the weights must be [num_output,", length, "], found ", w.ToString()));
  l.Check(!p.has_num_output() || p.num_output() == w[0], "inner_product_param.num_output",
          StrCat("num_output is ", p.num_output(), " but the second bottom has ", w[0], " rows"));
  return l.b().Reshape(l.bottom(1), {w[0], length});
}

void BuildInnerProduct(LayerBuilder& l) {
  const InnerProductParameter& p = l.param().inner_product_param();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "inner_product_param.axis", p.axis(), x);
  const bool is_given = l.bottom_count() == 2;
  const int64_t outputs = is_given && l.shape(1).rank() > 0 ? l.shape(1)[0] : int64_t{p.num_output()};
  if (outputs < 1) {
    l.Fail("inner_product_param.num_output", "num_output must be given and at least 1",
           p.has_num_output() ? ""
                              : StrCat("write it, or give it on the command line: 'layer[", l.param().name(),
                                       "].inner_product_param.num_output=CLASSES'"));
  }
  const int64_t rows = x.Count(0, axis);
  const int64_t length = x.Count(axis, x.rank());
  const Shape weight = p.transpose() ? Shape{length, outputs} : Shape{outputs, length};
  const ValueId w =
      is_given ? GivenWeights(l, length)
               : l.AddBlob(0, weight, p.weight_filler(), ParameterRole::kWeight, "inner_product_param.weight_filler");
  std::vector<ValueId> inputs{l.b().Reshape(l.bottom(0), {rows, length}), p.normalize() ? UnitRows(l, w) : w};
  if (p.bias_term()) {
    inputs.push_back(l.AddBlob(1, {outputs}, p.bias_filler(), ParameterRole::kBias, "inner_product_param.bias_filler"));
  }
  l.Check(!l.param().has_spectral_norm_param() || (!is_given && !p.normalize()), "spectral_norm_param",
          "weights are normalised in one way only, and only those of the layer itself");
  inputs[1] = SpectrallyNormal(l, inputs[1], p.transpose() ? 1 : 0, p.bias_term() ? 2 : 1);
  const ValueId y = l.b().Add1("matmul", inputs, {{"transpose_a", false}, {"transpose_b", !p.transpose()}});
  const ValueId top = l.b().Reshape(y, Joined(Part(x, 0, axis), {outputs}));
  l.SetTop(0, Activated(l, top, "inner_product_param", p.relu(), p.negative_slope()));
}

}  // namespace

LayerDef InnerProductLayer() {
  return {
      .type = "InnerProduct",
      .doc =
          "The fully connected layer: from axis on the bottom is one vector of K elements; weights [num_output, K] "
          "(transpose: [K, num_output]) and a bias. normalize: each output's weights divided by their norm; relu: a "
          "ReLU follows. With a second bottom [num_output, K] that is the weights, and there is no bias.",
      .max_bottoms = 2,
      .build = BuildInnerProduct,
      .page = {
          .params = {"inner_product_param", "spectral_norm_param"},
          .formula =
              "x's axes from axis (default 1) on are one vector of K elements: `y[.., k] = b[k] + sum over j of W[k,j] "
              "* x[.., j]`. W (blob 0) is [num_output, K], with transpose [K, num_output]; b (blob 1) is [num_output] "
              "and absent without bias_term. y is x's dimensions before axis, then num_output.\n\nnormalize: W[k,j] is "
              "`W[k,j] / sqrt(sum over j of W[k,j]^2 + 1e-6)`. relu: `y < 0` becomes `negative_slope * "
              "y`.\n\nspectral_norm_param: W is `W / s` with s about its largest singular value as a matrix "
              "[num_output, K], by the power method; its vector u [num_output] is one blob more, behind the bias, a "
              "statistic that TRAIN renews by `v = W^T u / |W^T u|, u = W v / |W v|` (iterations times a run, default "
              "1) and TEST only reads; `s = u^T W v`.\n\nIn "
              "training by several ranks Intel's `multinode { model_parts: 0 }` splits the outputs among them "
              "(docs/distributed.md).",
          .gradient =
              "`dx[.., j] = sum over k of dy[.., k] * W[k,j]`; `dW[k,j] = sum of dy[.., k] * x[.., j]` and `db[k] = "
              "sum of dy[.., k]` over the dimensions before axis. With relu dy counts where `y > 0`, elsewhere times "
              "negative_slope. With normalize dW is that of the unit weights, led on through their division. With "
              "spectral_norm_param the gradient goes through s, u and v being fixed.",
          .source =
              "Spectral normalisation: Miyato et al., arXiv 1802.05957. BVLC Caffe's inner_product_layer; relu and "
              "negative_slope are Intel's, normalize and the second bottom "
              "happynear's. happynear's layer divides the blob itself before each pass; here the blob stays as the "
              "solver left it, the values used are the same, and the gradient is exact.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 } } }
layer {
  name: "fc"
  type: "InnerProduct"
  bottom: "x"
  top: "fc"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } }
})"}};
}

}  // namespace moka
