// y = W x + b; from `axis` on the bottom is one vector of K elements. W [num_output, K], or [K, num_output] transposed,
// is a blob or (happynear) the second bottom.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/normalisation/spectral_norm.h"

namespace moka {
namespace {

// Each output's weights divided by their norm (happynear's `normalize`; its `eps`). The fork divides the blob itself
// before each pass; here the blob stays as the solver left it, the values used are the same, and the gradient is exact.
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

// The features of an item where nothing counts them: those of AlexNet's and VGG's layers.
constexpr int64_t kUsualFeatures = 4096;

// A number an item is as wide as what the same parameter multiplies elsewhere.
void NeedsOfInnerProduct(const ShapeReader& reader) {
  const LayerParameter& layer = reader.layer();
  const DataTop* top = reader.has_failed() ? reader.Changeable(0) : nullptr;
  if (top == nullptr || top->shape.rank() != 1 || layer.inner_product_param().axis() != 1) return;
  Shape shape = reader.needs().FirstOf(*top, {top->shape[0], kUsualFeatures});
  const std::string name = layer.param_size() > 0 ? layer.param(0).name() : "";
  for (const LayerParameter& other : reader.needs().net().layer()) {
    const bool shares = !name.empty() && other.param_size() > 0 && other.param(0).name() == name;
    const Shape* x = shares ? reader.needs().KnownBottom(other, 0) : nullptr;
    if (x != nullptr && x->rank() > 1) shape = *x;
  }
  reader.needs().Change(reader.name(0), shape);
}

BottomShapes BottomsOfInnerProduct(const TopNeed& need) {
  const int64_t axis = need.layer.inner_product_param().axis();
  const int rank = need.top.rank();
  const bool is_last = axis == -1 || axis == rank - 1;
  if (rank < 2 || !is_last || (axis >= 0 && axis < 2)) return {};
  const Shape* x = need.x();
  return FirstBottom(need.top.With(rank - 1, x != nullptr && x->rank() == rank ? (*x)[rank - 1] : kUsualFeatures));
}

}  // namespace

LayerDef InnerProductLayer() {
  return {.type = "InnerProduct",
          .max_bottoms = 2,
          .build = BuildInnerProduct,
          .traits = {.drawn_as = DrawnAs::kWeights, .is_product = true},
          .needs = NeedsOfInnerProduct,
          .bottoms = BottomsOfInnerProduct,
          .params = {"inner_product_param", "spectral_norm_param"}};
}

}  // namespace moka
