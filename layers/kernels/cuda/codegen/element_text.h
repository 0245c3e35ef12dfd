// Text that both kinds of generated kernels share: their types, the reading of a few neighbouring elements and the
// expression over them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layers/kernels/cuda/codegen/expression_text.h"

namespace moka::cuda {

// The expressions as comments, Wide (double where an output is float64), Index, and struct Operands {x0.. y0..}.
std::string DeclarationsText(const Expression& expression, const Nest& nest);
// Reads of the keys of rand from `operands`, once a thread.
std::string SeedsText(const Expression& expression, const Nest& nest, std::string_view operands,
                      std::string_view indent);
// Reads of kLength elements of each input the expression uses, from the indices d0.. on along the last dimension: dense
// inputs at once.
std::string LoadsText(const Expression& expression, const Nest& nest, std::string_view operands,
                      std::string_view indent);
// Returns the text that reads element j of an input so loaded, as Wide.
std::string ElementText(const Nest& nest, int input);
// The logical index of element j; empty where nothing is random.
std::string IndexText(const Expression& expression, const Nest& nest);
// Whether an operand is dense, still (repeated) along the last dimension.
bool IsDense(const NestOperand& operand);
bool IsStill(const NestOperand& operand);
// 0, 1, .. of the nest.
std::vector<int> AllDims(const Nest& nest);

}  // namespace moka::cuda
