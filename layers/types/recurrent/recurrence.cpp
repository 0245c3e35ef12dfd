// Reads the bottoms (x, going, x_static, lengths, exposed states) of all recurrent layers by one rule and cuts a
// sequence into steps.
#include "layers/types/recurrent/recurrence.h"

#include "core/text.h"
#include "layers/net/fields.h"

namespace moka {
namespace {

void CheckCounts(const LayerBuilder& l, const RecurrentFields& fields, int states) {
  const int exposed = fields.exposes_hidden ? states : 0;
  const std::string with = fields.exposes_hidden ? "with" : "without";
  const int most = (fields.takes_lengths ? 4 : 3) + exposed;
  l.Check(
      l.bottom_count() >= 2 + exposed && l.bottom_count() <= most, "bottom",
      StrCat(l.param().type(), " ", with, " expose_hidden takes ", 2 + exposed, fields.takes_lengths ? " to " : " or ",
             most, " bottoms (x, cont, optionally x_static", fields.takes_lengths ? ", optionally lengths" : "",
             exposed > 0 ? ", then the first hidden states" : "", "), found ", l.bottom_count()));
  l.Check(l.top_count() == 1 + exposed, "top",
          StrCat(l.param().type(), " ", with, " expose_hidden has ", 1 + exposed, exposed > 0 ? " tops" : " top",
                 ", found ", l.top_count()));
}

// The fields of DSCLRCN's fork: LSTM has two of them, GRU and RNN none.
void CheckForkFields(const LayerBuilder& l, const RecurrentParameter& p) {
  l.Check(!p.has_rnn_recweight_filler(), "recurrent_param.rnn_recweight_filler",
          "a filler of the recurrent weights alone is not part of Moka; leave it out");
  l.Check(p.rnn_actvfunc() == "TanH", "recurrent_param.rnn_actvfunc",
          StrCat("rnn_actvfunc must be \"TanH\", found \"", p.rnn_actvfunc(), "\""));
  if (l.param().type() == "LSTM") return;
  l.Check(p.lstm_additional_forget_bias() == 0 && !p.static_input_only_start(), "recurrent_param",
          "lstm_additional_forget_bias and static_input_only_start belong to LSTM");
}

// The bottoms that x_static and lengths are; -1: not there.
struct Optional {
  int fixed = -1;
  int lengths = -1;
};

Optional FindOptional(const LayerBuilder& l, const RecurrentFields& fields, int exposed) {
  const int count = l.bottom_count() - 2 - exposed;
  if (count == 2) return {2, 3};
  if (count == 0) return {};
  return fields.takes_lengths && l.shape(2).rank() == 1 ? Optional{-1, 2} : Optional{2, -1};
}

void CheckShapes(const LayerBuilder& l, const Optional& optional) {
  const Shape x = l.shape(0);
  const Shape cont = l.shape(1);
  l.Check(x.rank() >= 3, "bottom[0]",
          StrCat("x must be [steps,streams,..] with at least three axes, found ", x.ToString()));
  l.Check(cont.rank() == 2 && cont[0] == x[0] && cont[1] == x[1], "bottom[1]",
          StrCat("cont must be [", x[0], ",", x[1], "], a mark for each step and stream of x ", x.ToString(),
                 ", found ", cont.ToString()));
  if (optional.lengths >= 0) {
    const Shape lengths = l.shape(optional.lengths);
    l.Check(lengths == Shape{x[1]}, StrCat("bottom[", optional.lengths, "]"),
            StrCat("lengths must be [", x[1], "], a number of steps for each stream of x ", x.ToString(), ", found ",
                   lengths.ToString(), " (first hidden states need expose_hidden)"));
  }
  if (optional.fixed < 0) return;
  const Shape fixed = l.shape(optional.fixed);
  l.Check(fixed.rank() >= 2 && fixed[0] == x[1], "bottom[2]",
          StrCat("x_static must be [", x[1], ",..], a row for each stream of x ", x.ToString(), ", found ",
                 fixed.ToString()));
}

}  // namespace

RecurrentFields ReadRecurrentFields(const LayerBuilder& l, size_t state_count) {
  RecurrentFields fields;
  if (l.param().type() != "GRU" && !l.param().has_recurrent_param() && l.param().has_lstm_param()) {
    const LSTMParameter& p = l.param().lstm_param();
    l.Check(p.clipping_threshold() == 0, "lstm_param.clipping_threshold",
            StrCat(l.param().type(), " does not clip its gates' gradients; the layer of type Lstm does"));
    fields.name = "lstm_param";
    fields.outputs = p.num_output();
    fields.weight_filler = p.weight_filler();
    fields.bias_filler = p.bias_filler();
  } else {
    const RecurrentParameter& p = l.param().recurrent_param();
    fields = {.name = "recurrent_param",
              .outputs = int64_t{p.num_output()},
              .exposes_hidden = p.expose_hidden(),
              .forget_bias = Finite(l, "recurrent_param.lstm_additional_forget_bias", p.lstm_additional_forget_bias()),
              .fixed_only_at_start = p.static_input_only_start(),
              .takes_lengths = false,
              .weight_filler = p.weight_filler(),
              .bias_filler = p.bias_filler()};
    CheckForkFields(l, p);
  }
  fields.takes_lengths = l.param().type() != "RNN";
  // Four gates' rows must still be counted in 32 bits, as Caffe's files do.
  l.Check(fields.outputs >= 1 && fields.outputs <= INT32_MAX / 4, fields.name + ".num_output",
          StrCat(fields.name, ".num_output must be given, from 1 to ", INT32_MAX / 4, ", found ", fields.outputs));
  CheckCounts(l, fields, static_cast<int>(state_count));
  return fields;
}

Sequence ReadSequence(LayerBuilder& l, const RecurrentFields& fields, const std::vector<std::string>& states) {
  const int exposed = fields.exposes_hidden ? static_cast<int>(states.size()) : 0;
  const Optional optional = FindOptional(l, fields, exposed);
  CheckShapes(l, optional);
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  Sequence s;
  s.steps = x[0];
  s.streams = x[1];
  s.x = b.Reshape(l.bottom(0), {x[0] * x[1], x.Count(2, x.rank())});
  if (optional.fixed >= 0) {
    const Shape fixed = l.shape(optional.fixed);
    s.fixed = b.Reshape(l.bottom(optional.fixed), {fixed[0], fixed.Count(1, fixed.rank())});
  }
  if (optional.lengths >= 0) s.lengths = b.Add1("stop_gradient", {l.bottom(optional.lengths)});
  s.going = MarksOf(l, l.bottom(1), s.steps);
  const Shape state{s.streams, fields.outputs};
  for (size_t i = 0; i < states.size(); ++i) {
    if (!fields.exposes_hidden) {
      s.kept.push_back(l.AddKept(states[i], state));
      s.first.push_back(s.kept.back());
      continue;
    }
    const int bottom = l.bottom_count() - exposed + static_cast<int>(i);
    l.Check(l.shape(bottom) == Shape({1, s.streams, fields.outputs}), StrCat("bottom[", bottom, "]"),
            StrCat("the first ", states[i], " must be [1,", s.streams, ",", fields.outputs, "], found ",
                   l.shape(bottom).ToString()));
    s.first.push_back(b.Reshape(l.bottom(bottom), state));
  }
  return s;
}

void EndSequence(LayerBuilder& l, const Sequence& sequence, const std::vector<ValueId>& last) {
  for (size_t i = 0; i < last.size(); ++i) {
    if (!sequence.kept.empty()) {
      l.AssignKept(sequence.kept[i], last[i]);
    } else {
      l.SetTop(1 + static_cast<int>(i), l.b().Reshape(last[i], Joined({1}, l.b().shape(last[i]))));
    }
  }
}

std::vector<ValueId> StepsOf(const LayerBuilder& l, ValueId x, int64_t steps) {
  l.Check(steps <= kMaxSteps, "bottom[0]",
          StrCat("the sequence has ", steps, " steps; the limit is ", kMaxSteps,
                 " (cut it into shorter ones: the hidden state is carried over)"));
  if (steps == 1) return {x};
  const Ints sizes(static_cast<size_t>(steps), l.b().shape(x)[0] / steps);
  return l.b().Add("slice", {x}, {{"axis", int64_t{0}}, {"sizes", sizes}});
}

std::vector<ValueId> MarksOf(const LayerBuilder& l, ValueId marks, int64_t steps) {
  const GraphBuilder& b = l.b();
  return StepsOf(l, b.Reshape(b.Add1("stop_gradient", {marks}), {b.shape(marks).Count(), 1}), steps);
}

ValueId JoinSteps(const GraphBuilder& b, const std::vector<ValueId>& steps) {
  return steps.size() == 1 ? steps.front() : b.Add1("concat", steps, {{"axis", int64_t{0}}});
}

ValueId Project(const GraphBuilder& b, ValueId x, ValueId w, ValueId bias) {
  std::vector<ValueId> inputs{x, w};
  if (bias != kNoId) inputs.push_back(bias);
  return b.Add1("matmul", inputs, {{"transpose_a", false}, {"transpose_b", true}});
}

ValueId WithFixed(const GraphBuilder& b, ValueId x, ValueId fixed, bool only_at_start) {
  const Shape shape = b.shape(x);
  const ValueId part = b.Reshape(fixed, Shape{1, shape[1], shape[2]});
  if (!only_at_start || shape[0] == 1) return b.Pointwise("x0+x1", {x, part});
  const std::vector<ValueId> steps = b.Add("slice", {x}, {{"axis", int64_t{0}}, {"sizes", Ints{1, shape[0] - 1}}});
  const ValueId first = b.Pointwise("x0+x1", {steps[0], part});
  return b.Add1("concat", {first, steps[1]}, {{"axis", int64_t{0}}});
}

ValueId Continued(const GraphBuilder& b, ValueId state, ValueId going) {
  return b.Pointwise("select(eq(x1,0),0,x0*x1)", {state, going});
}

LstmCell NextCell(const GraphBuilder& b, ValueId gates, ValueId c, ValueId going, double forget_bias) {
  const int64_t outputs = b.shape(gates)[1] / 4;
  std::vector<ValueId> inputs = b.Add("slice", {gates}, {{"axis", int64_t{1}}, {"sizes", Ints(4, outputs)}});
  const auto gate = [&](size_t i) { return Term::Of(inputs[i]); };
  Term next = Sigmoid(gate(0)) * Tanh(gate(3));
  if (c != kNoId) {
    const Term f = Sigmoid(forget_bias == 0 ? gate(1) : gate(1) + Decimal(forget_bias));
    inputs.push_back(c);
    if (going == kNoId) {
      next = next + f * Term::Of(c);
    } else {
      const Term mark = Term::Of(going);
      inputs.push_back(going);
      next = next + Select(mark == 0, 0, mark * f * Term::Of(c));
    }
  }
  const Term hidden = Sigmoid(gate(2)) * Tanh(next);
  const std::vector<ValueId> outs = b.Pointwise(std::vector<Term>{next, hidden}, inputs);
  return {.c = outs[0], .h = outs[1]};
}

}  // namespace moka
