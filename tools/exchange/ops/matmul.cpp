// Gemm of matrices, with a bias if there is one; MatMul of stacks of them.
#include "graph/op.h"
#include "tools/exchange/onnx_op.h"

namespace moka {
namespace {

// The operand with its last two axes exchanged, if the product takes it so.
std::string Operand(OnnxNode& n, int i, bool is_transposed) {
  if (!is_transposed) return n.In(i);
  Ints perm;
  for (int axis = 0; axis < n.x(i).rank(); ++axis) perm.push_back(axis);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return n.Add("Transpose", {n.In(i)}, {{"perm", std::move(perm)}});
}

void WriteMatmul(OnnxNode& n) {
  const Attributes& a = n.attributes();
  if (!a.String("activation").empty()) n.Refuse("a product that was joined with other layers");
  if (n.x(0).rank() == 2 && n.x(1).rank() == 2) {
    return n.Give("Gemm", n.InputsFrom(0),
                  {{"transA", int64_t{a.Bool("transpose_a")}}, {"transB", int64_t{a.Bool("transpose_b")}}});
  }
  const std::string left = Operand(n, 0, a.Bool("transpose_a"));
  const std::string right = Operand(n, 1, a.Bool("transpose_b"));
  if (n.input_count() == 2) return n.Give("MatMul", {left, right});
  n.Give("Add", {n.Add("MatMul", {left, right}), n.In(2)});
}

}  // namespace

OnnxOp OnnxMatmul() { return {.op = "matmul", .write = WriteMatmul}; }

}  // namespace moka
