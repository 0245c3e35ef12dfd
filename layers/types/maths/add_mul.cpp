// Sums and products with numpy's broadcasting: axes are matched from the last one on, of size 1 they are repeated. With
// one bottom the second operand is the layer's blob (Mul).
#include <algorithm>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/maths/broadcast.h"

namespace moka {
namespace {

// A shape with ones put before it up to a rank.
Shape Raised(const Shape& shape, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank - shape.rank()), 1);
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(dims);
}

void BuildAdd(LayerBuilder& l) { l.SetTop(0, Broadcast(l, l.bottom(1), "bottom[1]", "x0+x1")); }

void BuildMul(LayerBuilder& l) {
  const auto& dims = l.param().mul_param().mul_shape();
  if (l.bottom_count() == 2) {
    l.Check(dims.empty(), "mul_param.mul_shape", "mul_shape is for a layer of one bottom");
    return l.SetTop(0, Broadcast(l, l.bottom(1), "bottom[1]", "x0*x1"));
  }
  l.Check(!dims.empty() && dims.size() <= Shape::kMaxRank, "mul_param.mul_shape",
          "a Mul of one bottom needs the factor's shape, mul_param.mul_shape");
  const Shape shape(std::vector<int64_t>(dims.begin(), dims.end()));
  FillerParameter one;
  one.set_value(1);
  l.SetTop(0, Broadcast(l, l.AddBlob(0, shape, one, ParameterRole::kWeight), "mul_param.mul_shape", "x0*x1"));
}

}  // namespace

ValueId Broadcast(const LayerBuilder& l, ValueId second, std::string_view field, const std::string& expression) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const Shape y = b.shape(second);
  const int rank = std::max(x.rank(), y.rank());
  const Shape a = Raised(x, rank);
  const Shape c = Raised(y, rank);
  for (int i = 0; i < rank; ++i) {
    l.Check(a[i] == c[i] || a[i] == 1 || c[i] == 1, field,
            StrCat("the operands ", x.ToString(), " and ", y.ToString(), " must agree on axis ", i - rank,
                   ", or one of them have size 1 there"));
  }
  return b.Pointwise(expression, {b.Reshape(l.bottom(0), a), b.Reshape(second, c)});
}

LayerDef AddLayer() {
  return {
      .type = "Add",
      .doc = "The sum of two bottoms whose axes, matched from the last on, are equal or 1 (then repeated).",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildAdd,
      .page = {.formula = "`y = x0 + x1`. The shorter shape is taken with ones before it; on each axis the sizes are "
                          "equal or one of them is 1, whose element is then used all along. The top has the larger "
                          "sizes.",
               .gradient = "Each `dx` is dy, summed over the axes along which x was repeated.",
               .source = "add_layer of Synopsys's Caffe (TensorFlow's add) and Cambricon's.",
               .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 3 dim: 4 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 3 dim: 1 } } }
layer { name: "sum" type: "Add" bottom: "a" bottom: "b" top: "sum" })"}};
}

LayerDef MulLayer() {
  return {
      .type = "Mul",
      .doc =
          "The product of two bottoms whose axes, matched from the last on, are equal or 1 (then repeated); of one "
          "bottom and a blob of shape mul_param.mul_shape, filled with 1.",
      .max_bottoms = 2,
      .build = BuildMul,
      .page = {.params = {"mul_param"},
               .formula = "`y = x0 * x1`, x1 the second bottom or blob 0. The shorter shape is taken with ones before "
                          "it; on each axis the sizes are equal or one of them is 1, whose element is then used all "
                          "along. The top has the larger sizes.",
               .gradient = "`dx0 = dy * x1` and `dx1 = dy * x0`, summed over the axes along which the operand was "
                           "repeated.",
               .source = "mul_layer of Synopsys's Caffe (TensorFlow's multiply). There the blob of a layer with one "
                         "bottom has no filler and comes from the weights' file; here it starts at 1.",
               .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 3 dim: 4 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 1 dim: 4 } } }
layer { name: "product" type: "Mul" bottom: "a" bottom: "b" top: "product" })"}};
}

}  // namespace moka
