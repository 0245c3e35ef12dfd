// The part that the recurrent layers share: the steps of a time-major sequence, the state carried over them, and the
// LSTM cell (Hochreiter, Schmidhuber 1997; with forget gates: Gers, Schmidhuber, Cummins 2000). LSTM and GRU take all
// steps in one op (layers/ops/recurrent), the others are unrolled: a step is a few nodes. Gradients end at the first
// step of a batch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layers/net/layer.h"

namespace moka {

// Unrolled steps a layer may have; more would make a graph that takes minutes to plan.
constexpr int64_t kMaxSteps = 8192;

// The parameters of GRU, LSTM and RNN; older branches of Caffe call LSTM's lstm_param.
struct RecurrentFields {
  std::string name;     // "recurrent_param"
  int64_t outputs = 0;  // H
  bool exposes_hidden = false;
  double forget_bias = 0;            // LSTM: added to the forget gate's sum
  bool fixed_only_at_start = false;  // LSTM: x_static counts in the first step only
  bool takes_lengths = false;        // GRU and LSTM: rows may end before the last step
  FillerParameter weight_filler;
  FillerParameter bias_filler;

  std::string weight_field() const { return name + ".weight_filler"; }
  std::string bias_field() const { return name + ".bias_filler"; }
};

// A sequence as GRU, LSTM and RNN read it.
struct Sequence {
  int64_t steps = 0;           // T
  int64_t streams = 0;         // N
  ValueId x = kNoId;           // [T*N,D]
  ValueId fixed = kNoId;       // [N,S], the same at every step; kNoId: none
  ValueId lengths = kNoId;     // [N], steps of each stream; kNoId: all
  std::vector<ValueId> going;  // a step: [N,1], 0 where a new sequence begins
  std::vector<ValueId> first;  // the states before the first step, [N,H] each
  std::vector<ValueId> kept;   // where they are kept between runs; empty with expose_hidden
};

// Bottoms x [T,N,..], cont [T,N], optionally x_static [N,..], optionally lengths [N] (one axis: that tells the two
// apart) where the fields take them, with expose_hidden one [1,N,H] for each of `states`. Errors: kConfig for counts
// and shapes that do not fit.
RecurrentFields ReadRecurrentFields(const LayerBuilder& l, size_t state_count);
Sequence ReadSequence(LayerBuilder& l, const RecurrentFields& fields, const std::vector<std::string>& states);
// Tops after the first, or the kept states, take the states after the last step ([N,H] each).
void EndSequence(LayerBuilder& l, const Sequence& sequence, const std::vector<ValueId>& last);

// x [T*N,K] cut into T parts [N,K]. Errors: kConfig at bottom 0 if T is over kMaxSteps.
std::vector<ValueId> StepsOf(const LayerBuilder& l, ValueId x, int64_t steps);
// The [N,H] of every step one after another: [T*N,H].
ValueId JoinSteps(const GraphBuilder& b, const std::vector<ValueId>& steps);
// The marks as a column for each step, [N,1]; no gradient goes into them, as in Caffe.
std::vector<ValueId> MarksOf(const LayerBuilder& l, ValueId marks, int64_t steps);
// x [M,K] times w [n,K] transposed, plus an optional bias [n].
ValueId Project(const GraphBuilder& b, ValueId x, ValueId w, ValueId bias = kNoId);

// Adds x_static's part [N,K] to x [T,N,K], at every step or at the first.
ValueId WithFixed(const GraphBuilder& b, ValueId x, ValueId fixed, bool only_at_start = false);

// state * going where going is not 0, else 0 (whatever the state is there).
ValueId Continued(const GraphBuilder& b, ValueId state, ValueId going);

// c' = going f c + i g, h = o tanh(c'); i, f, o = sigmoid and g = tanh of the parts of gates [N,4H]. Where going is 0,
// or c is kNoId, the cell starts from 0. forget_bias is added to f's sum.
struct LstmCell {
  ValueId c = kNoId;  // [N,H]
  ValueId h = kNoId;  // [N,H]
};
LstmCell NextCell(const GraphBuilder& b, ValueId gates, ValueId c, ValueId going, double forget_bias = 0);

}  // namespace moka
