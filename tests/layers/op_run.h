// Running one op on made-up data: what the catalogue test is written with.
#pragma once

#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace moka {

// Whether inputs of whole numbers (labels, indices, masks) become another floating type with the rest.
enum class WholeInputs : uint8_t { kFollow, kFloat32 };

// A graph of one node: an input for each of the case's, all float32 turned into `dtype` but those that the op keeps
// (OpDef::takes_half).
struct OpGraph {
  Graph graph;
  NodeId node;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
};
OpGraph BuildOp(const OpDef& op, const OpCase& op_case, DType dtype, WholeInputs whole = WholeInputs::kFollow);

// Deterministic values for each input of a case (graph/op.h says how low, high, ranges and min_gap are meant), already
// rounded to the element type.
std::vector<RefTensor> MakeInputs(const OpCase& op_case, const std::vector<TensorType>& types);
// Whether an input holds whole numbers only (labels, indices, ties).
bool IsWhole(const OpCase& op_case, int input, DType dtype);

// The op's outputs by its reference. `fill` is what they hold before.
std::vector<RefTensor> RunReference(const OpDef& op, const Attributes& attributes, std::span<const RefTensor> inputs,
                                    const std::vector<TensorType>& outputs, double fill = 0);

// A tensor of the given type (dtype and layout) with these values, and back.
OwnedTensor ToTensor(const RefTensor& values, const TensorType& type);
RefTensor FromTensor(const Tensor& tensor);
// Whether everything a blocked layout adds to the shape is zero.
bool PaddingIsZero(const Tensor& tensor);

}  // namespace moka
