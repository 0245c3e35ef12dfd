// Made-up inputs within the ranges of an op's case, whole numbers where it reads indices.
#include "tests/layers/op_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/rng.h"
#include "core/text.h"
#include "layers/net/catalog.h"

namespace moka {

OpGraph BuildOp(const OpDef& op, const OpCase& op_case, DType dtype, WholeInputs whole) {
  OpGraph built{Graph(StandardCatalog()), kNoId, {}, {}};
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const auto input = static_cast<int>(i);
    TensorType type = op_case.inputs[i];
    const bool stays = (whole == WholeInputs::kFloat32 && IsWhole(op_case, input, type.dtype)) ||
                       (is_half && op.takes_half != nullptr && !op.takes_half(op_case.attributes, input));
    if (type.dtype == DType::kFloat32 && !stays) type.dtype = dtype;
    built.inputs.push_back(built.graph.AddInput(StrCat("x", i), type));
  }
  const Node& node = built.graph.AddNode(op.name, built.inputs, op_case.attributes, {op_case.name, {}, "test"});
  built.node = node.id;
  built.outputs = node.outputs;
  return built;
}

namespace {

struct Bounds {
  double low;
  double high;
  bool whole;
};

Bounds BoundsOf(const OpCase& op_case, int input, DType dtype) {
  for (const OpCase::Range& range : op_case.ranges) {
    if (range.input != input) continue;
    return {range.low, range.high, range.low == std::floor(range.low) && range.high == std::floor(range.high)};
  }
  return {op_case.low, op_case.high, !IsFloat(dtype)};
}

}  // namespace

bool IsWhole(const OpCase& op_case, int input, DType dtype) { return BoundsOf(op_case, input, dtype).whole; }

std::vector<RefTensor> MakeInputs(const OpCase& op_case, const std::vector<TensorType>& types) {
  std::vector<RefTensor> inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    const auto [low, high, whole] = BoundsOf(op_case, static_cast<int>(i), types[i].dtype);
    const auto count = static_cast<uint64_t>(types[i].shape.Count());
    RefTensor x{types[i], std::vector<double>(count)};
    RandomStream random(StableHash(op_case.name), i);
    const Permutation shuffled(std::max<uint64_t>(count, 1), StableHash(op_case.name), i);
    const double step = (high - low) / static_cast<double>(count);
    const bool spaced = op_case.min_gap > 0 && !whole;
    Require(!spaced || count == 0 || step >= op_case.min_gap, StrCat(op_case.name, ": min_gap fits the range"));
    for (uint64_t j = 0; j < count; ++j) {
      const auto place = static_cast<double>(shuffled(j));
      double value = spaced ? low + (place + 0.25) * step : random.Uniform(low, high);
      if (whole) value = low + static_cast<double>(random.Below(static_cast<uint64_t>(high - low) + 1));
      x.values[j] = value;
    }
    inputs.push_back(FromTensor(ToTensor(x, types[i]).tensor()));
  }
  return inputs;
}

std::vector<RefTensor> RunReference(const OpDef& op, const Attributes& attributes, std::span<const RefTensor> inputs,
                                    const std::vector<TensorType>& outputs, double fill) {
  std::vector<RefTensor> results;
  for (const TensorType& type : outputs) {
    results.push_back({type, std::vector<double>(static_cast<size_t>(type.shape.Count()), fill)});
  }
  op.reference(attributes, inputs, results);
  return results;
}

OwnedTensor ToTensor(const RefTensor& values, const TensorType& type) {
  const TensorType plain{DType::kFloat64, type.shape, {}};
  std::vector<double> copy = values.values;
  OwnedTensor tensor(type);
  CopyTensor(Tensor(plain, copy.data()), tensor.tensor());
  return tensor;
}

RefTensor FromTensor(const Tensor& tensor) {
  const TensorType plain{DType::kFloat64, tensor.shape(), {}};
  RefTensor values{{tensor.type().dtype, tensor.shape(), {}},
                   std::vector<double>(static_cast<size_t>(tensor.shape().Count()))};
  CopyTensor(tensor, Tensor(plain, values.values.data()));
  return values;
}

bool PaddingIsZero(const Tensor& tensor) {
  const TensorType& type = tensor.type();
  if (type.StoredCount() == type.shape.Count()) return true;
  std::vector<bool> is_element(static_cast<size_t>(type.StoredCount()), false);
  std::vector<int64_t> index(static_cast<size_t>(type.shape.rank()), 0);
  for (int64_t i = 0; i < type.shape.Count(); ++i) {
    is_element[static_cast<size_t>(type.layout.Offset(type.shape, index))] = true;
    for (int axis = type.shape.rank() - 1; axis >= 0; --axis) {
      if (++index[static_cast<size_t>(axis)] < type.shape[axis]) break;
      index[static_cast<size_t>(axis)] = 0;
    }
  }
  const auto* bytes = static_cast<const char*>(tensor.raw());
  const int64_t width = BytesOf(type.dtype);
  for (int64_t i = 0; i < type.StoredCount() * width; ++i) {
    if (!is_element[static_cast<size_t>(i / width)] && bytes[i] != 0) return false;
  }
  return true;
}

}  // namespace moka
