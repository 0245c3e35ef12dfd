// The states before each step are the first state and all but the last of the results, masked by the marks and put into
// one matrix, so that the weights' gradient is one product.
#include "layers/ops/recurrent/steps.h"

#include "core/types.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"

namespace moka {

void CheckRecurrentTypes(std::string_view op, const char* name, const TensorType& gates,
                         std::span<const TensorType> inputs, size_t weights) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_rounded = i == weights && gates.dtype == DType::kFloat32 && IsHalf(inputs[i].dtype);
    if (!is_rounded) CheckSameDType(op, name, gates, "input", inputs[i]);
  }
}

void AddLengths(int64_t rows, int64_t longest, OpCase& op_case) {
  if (longest == 0) return;
  op_case.ranges.push_back({static_cast<int>(op_case.inputs.size()), 0, static_cast<double>(longest)});
  op_case.inputs.push_back(Float32({rows}));
}

ValueId StatesBefore(const GraphBuilder& b, ValueId y, ValueId first, ValueId going) {
  const Shape shape = b.shape(y);
  ValueId before = b.Reshape(first, Shape{1, shape[1], shape[2]});
  if (shape[0] > 1) {
    const std::vector<ValueId> parts = b.Add("slice", {y}, {{"axis", int64_t{0}}, {"sizes", Ints{shape[0] - 1, 1}}});
    before = b.Add1("concat", {before, parts[0]}, {{"axis", int64_t{0}}});
  }
  const ValueId marks = b.Reshape(going, Shape{shape[0], shape[1], 1});
  const ValueId kept = b.Pointwise("select(eq(x1,0),0,x0*x1)", {before, marks});
  return b.Reshape(kept, Shape{shape[0] * shape[1], shape[2]});
}

}  // namespace moka
