// Questions that an expression answers as it is, and its value.
#include "graph/expression.h"

#include <algorithm>

#include "core/error.h"
#include "core/rng.h"
#include "graph/scalar_op.h"

namespace moka {

int Expression::input_count() const {
  int count = 0;
  for (const Instruction& instruction : instructions_) count = std::max(count, instruction.input + 1);
  return count;
}

bool Expression::UsesInput(int input) const {
  return std::any_of(instructions_.begin(), instructions_.end(),
                     [&](const Instruction& instruction) { return instruction.input == input; });
}

bool Expression::IsRandom() const {
  return std::any_of(instructions_.begin(), instructions_.end(),
                     [](const Instruction& instruction) { return instruction.op == ScalarOp::kRand; });
}

// The reference: one element in double. Each thread keeps a buffer, as this is called for every element.
void Expression::Evaluate(std::span<const double> inputs, uint64_t index, std::span<double> out) const {
  Require(static_cast<int>(inputs.size()) >= input_count(), "Evaluate has a value for every input");
  Require(out.size() == results_.size(), "Evaluate has room for every result");
  thread_local std::vector<double> values;
  values.clear();
  const auto value = [&](int32_t i) { return i < 0 ? 0.0 : values[static_cast<size_t>(i)]; };
  for (const Instruction& instruction : instructions_) {
    switch (instruction.op) {
      case ScalarOp::kInput: values.push_back(inputs[static_cast<size_t>(instruction.input)]); break;
      case ScalarOp::kConstant: values.push_back(instruction.constant); break;
      case ScalarOp::kRand: {
        const auto seed = static_cast<uint64_t>(static_cast<int64_t>(value(instruction.a)));
        values.push_back(UnitFloat(RandomWord(seed, static_cast<uint64_t>(instruction.constant), index)));
        break;
      }
      default:
        values.push_back(ValueOf(instruction.op, value(instruction.a), value(instruction.b), value(instruction.c)));
    }
  }
  for (size_t r = 0; r < out.size(); ++r) out[r] = value(results_[r]);
}

}  // namespace moka
