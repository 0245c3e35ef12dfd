// The part that the recurrent ops share: where a row's values stand in their tensors, what a mark does to the state
// before, and the states that the gradient of the recurrent weights is made of.
#pragma once

#include <cmath>
#include <cstdint>

#include "graph/graph.h"
#include "graph/op.h"

namespace moka {

// Steps, rows and units of gates [steps, rows, gate_count * units].
struct RecurrentSizes {
  int64_t steps, rows, units;
};
inline RecurrentSizes RecurrentSizesOf(const Shape& gates, int64_t gate_count) {
  return {gates[0], gates[1], gates[2] / gate_count};
}

// Marks [T,N], recurrent weights [G*H,H] and, where given, lengths [N] as the references read them.
class RecurrentRows {
 public:
  RecurrentRows(const Shape& gates, int64_t gate_count, const RefTensor& going, const RefTensor& w,
                const RefTensor* lengths)
      : s_(RecurrentSizesOf(gates, gate_count)),
        gates_(gate_count),
        going_(going.values.data()),
        w_(w.values.data()),
        lengths_(lengths == nullptr ? nullptr : lengths->values.data()) {}

  int64_t steps() const { return s_.steps; }
  int64_t rows() const { return s_.rows; }
  int64_t units() const { return s_.units; }
  bool HasEnded(int64_t t, int64_t row) const {
    return lengths_ != nullptr && !(static_cast<double>(t) < std::trunc(lengths_[row]));
  }
  double going(int64_t t, int64_t row) const { return going_[t * s_.rows + row]; }
  double w(int64_t gate_row, int64_t unit) const { return w_[gate_row * s_.units + unit]; }
  size_t At(int64_t t, int64_t row, int64_t unit) const {
    return static_cast<size_t>((t * s_.rows + row) * s_.units + unit);
  }
  size_t Gate(int64_t t, int64_t row, int64_t gate, int64_t unit) const {
    return static_cast<size_t>(((t * s_.rows + row) * gates_ + gate) * s_.units + unit);
  }
  // m times the state; nothing at all where m is 0.
  double Kept(int64_t t, int64_t row, double state) const { return going(t, row) == 0 ? 0 : going(t, row) * state; }

 private:
  RecurrentSizes s_;
  int64_t gates_;
  const double* going_;
  const double* w_;
  const double* lengths_;
};

// Errors: kConfig unless every input is of the type of `gates`; the weights may be of a half type where that is
// float32. Then products with a state may round that to it, too; sums, gates and states stay float32.
void CheckRecurrentTypes(std::string_view op, const char* name, const TensorType& gates,
                         std::span<const TensorType> inputs, size_t weights);

// For OpDef::takes_half: that input alone.
template <size_t kInput>
bool IsInput(const Attributes&, int input) {
  return static_cast<size_t>(input) == kInput;
}

// Gives a case of `rows` rows lengths from 0 to `longest` as its next input; 0: none.
void AddLengths(int64_t rows, int64_t longest, OpCase& op_case);

inline double ReferenceSigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The states before each step, as they enter it: [T*N,H], of y [T,N,H], the state before the first step [N,H] and the
// marks [T,N].
ValueId StatesBefore(const GraphBuilder& b, ValueId y, ValueId first, ValueId going);

}  // namespace moka
