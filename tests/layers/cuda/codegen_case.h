// Cases of pointwise and reduce_sum under the types and layouts that a GPU sees: those of the catalogue, and shapes
// that reach vectors, chunks and every order of kept and summed dimensions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/layers/op_run.h"

namespace moka {

struct CodegenCase {
  const OpDef* op = nullptr;
  OpCase op_case;
  std::string variant;
  std::shared_ptr<OpGraph> built;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;

  std::string name() const;
  KernelQuery query() const;
  std::vector<RefTensor> Values() const { return MakeInputs(op_case, inputs); }
  // Expects the reference's values in the outputs, within what their types hold.
  void ExpectReference(const std::vector<RefTensor>& values, const std::vector<Tensor>& found) const;
};

// The tensors of a case, the inputs filled.
struct Memory {
  explicit Memory(const CodegenCase& subject);
  std::vector<RefTensor> values;
  std::vector<OwnedTensor> owned;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

// Returns cases of pointwise and reduce_sum.
std::vector<CodegenCase> CodegenCases();
// Returns cases of pointwise_group and reduce_group, in float32 and float16.
std::vector<CodegenCase> GroupCases();

}  // namespace moka
