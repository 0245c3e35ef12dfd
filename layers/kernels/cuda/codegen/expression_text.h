// Pieces of generated text: statements of expressions, index arithmetic.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/kernels/cuda/codegen/nest.h"

namespace moka::cuda {

// "const Wide t3 = t1 * t2;" for each instruction, a line each, in order; instruction i is named t<i>. `input` gives
// the text that reads an input as Wide, `index` the logical index; keys of rand are named seed<input>.
std::string Statements(const Expression& expression, std::string_view indent,
                       const std::function<std::string(int)>& input, std::string_view index);
// Inputs that are keys of rand, in order.
std::vector<int> KeysOf(const Expression& expression);
// Whether an input is read otherwise than as a key.
bool ReadsValue(const Expression& expression, int input);

// "const Index d2 = rest % 64u; ..." for some dimensions, from the number `rest` of an index into them; d<dimension>.
std::string SplitText(const std::vector<int64_t>& extents, const std::vector<int>& dims, std::string_view number,
                      std::string_view indent);
// "d0 * 128u + d2" over some dimensions; "0u" where every stride is 0.
std::string OffsetText(const std::vector<int64_t>& strides, const std::vector<int>& dims);

}  // namespace moka::cuda
