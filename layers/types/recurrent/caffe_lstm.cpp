// Lstm of github.com/junhyukoh/caffe-lstm: gates i, f, o, g as LSTM's, three blobs, a batch of sequences whose rows lie
// step after step, an optional second bottom of marks (0: a new sequence begins; without it every run begins one), and
// gradients clipped before the gates' nonlinearities. Descendants (CTPN among them) read x [T,N,D] and take N from it.
//
// Where that code's gradients are wrong (rows of other sequences at a step with mark 0, only the first stream of the
// kept state; marks read one stream off when batch_size > 1) these are right.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/recurrent/recurrence.h"

namespace moka {
namespace {

struct Sizes {
  int64_t steps, streams, inputs;
  Shape top;
};

Sizes ReadSizes(const LayerBuilder& l) {
  const LSTMParameter& p = l.param().lstm_param();
  const Shape x = l.shape(0);
  const int64_t outputs = p.num_output();
  l.Check(outputs >= 1 && outputs <= INT32_MAX / 4, "lstm_param.num_output",
          StrCat("lstm_param.num_output must be given, from 1 to ", INT32_MAX / 4, ", found ", outputs));
  l.Check(x.rank() >= 2, "bottom[0]",
          StrCat("x must be [steps*batch_size,..] or [steps,streams,D], found ", x.ToString()));
  if (!p.has_batch_size() && x.rank() == 3) return {x[0], x[1], x[2], {x[0], x[1], outputs}};
  const int64_t streams = p.batch_size();
  l.Check(streams >= 1 && x[0] % streams == 0, "lstm_param.batch_size",
          StrCat("the ", x[0], " rows of x ", x.ToString(), " must be a multiple of lstm_param.batch_size, found ",
                 streams));
  return {x[0] / streams, streams, x.Count(1, x.rank()), {x[0], outputs}};
}

struct Recurrence {
  Sizes s;
  bool has_marks = false;
  ValueId x = kNoId;  // what the inputs add to the gates [T*N,4H]
  ValueId w_h = kNoId;
};

LstmCell KeptCell(LayerBuilder& l, const Recurrence& r) {
  const Shape state{r.s.streams, l.b().shape(r.w_h)[1]};
  return {.c = l.AddKept("c", state), .h = l.AddKept("h", state)};
}

void AllAtOnce(LayerBuilder& l, const Recurrence& r) {
  const GraphBuilder& b = l.b();
  const Sizes& s = r.s;
  const int64_t outputs = b.shape(r.w_h)[1];
  LstmCell first;
  ValueId going = kNoId;
  if (r.has_marks) {
    first = KeptCell(l, r);
    going = b.Reshape(b.Add1("stop_gradient", {l.bottom(1)}), {s.steps, s.streams});
  } else {
    first.c = first.h = b.Full({s.streams, outputs}, 0.0);
    going = b.Full({s.steps, s.streams}, 1.0);
  }
  const ValueId x = b.Reshape(r.x, {s.steps, s.streams, 4 * outputs});
  const std::vector<ValueId> y = b.Add("lstm", {x, going, first.h, first.c, r.w_h});
  l.SetTop(0, b.Reshape(y[0], s.top));
  if (!r.has_marks) return;
  l.AssignKept(first.c, y[2]);
  l.AssignKept(first.h, y[1]);
}

void Unroll(LayerBuilder& l, const Recurrence& r, double threshold) {
  const GraphBuilder& b = l.b();
  const bool has_marks = r.has_marks;
  const std::vector<ValueId> x = StepsOf(l, r.x, r.s.steps);
  std::vector<ValueId> going(x.size(), kNoId);
  LstmCell cell;
  LstmCell kept;
  if (has_marks) {
    going = MarksOf(l, l.bottom(1), r.s.steps);
    kept = cell = KeptCell(l, r);
  }
  std::vector<ValueId> h;
  for (size_t t = 0; t < x.size(); ++t) {
    ValueId gates = x[t];
    if (cell.h != kNoId) {
      const ValueId before = has_marks ? Continued(b, cell.h, going[t]) : cell.h;
      gates = b.Pointwise("x0+x1", {Project(b, before, r.w_h), x[t]});
    }
    if (threshold > 0) gates = b.Add1("clip_gradient", {gates}, {{"threshold", threshold}});
    cell = NextCell(b, gates, cell.c, going[t]);
    h.push_back(cell.h);
  }
  l.SetTop(0, b.Reshape(JoinSteps(b, h), r.s.top));
  if (!has_marks) return;
  l.AssignKept(kept.c, cell.c);
  l.AssignKept(kept.h, cell.h);
}

void BuildCaffeLstm(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const LSTMParameter& p = l.param().lstm_param();
  const Sizes s = ReadSizes(l);
  const int64_t outputs = p.num_output();
  const double threshold = Finite(l, "lstm_param.clipping_threshold", p.clipping_threshold());
  const bool has_marks = l.bottom_count() == 2;
  l.Check(!has_marks || l.shape(1).Count() == s.steps * s.streams, "bottom[1]",
          StrCat("there must be a mark for each of the ", s.steps * s.streams, " rows of x ", l.shape(0).ToString(),
                 ", found ", has_marks ? l.shape(1).ToString() : ""));
  const auto weight = [&](int index, int64_t columns) {
    return l.AddBlob(index, {4 * outputs, columns}, p.weight_filler(), ParameterRole::kWeight,
                     "lstm_param.weight_filler");
  };
  const ValueId w_x = weight(0, s.inputs);
  const ValueId w_h = weight(1, outputs);
  const ValueId bias = l.AddBlob(2, {4 * outputs}, p.bias_filler(), ParameterRole::kBias, "lstm_param.bias_filler");

  const ValueId rows = b.Reshape(l.bottom(0), {s.steps * s.streams, s.inputs});
  const Recurrence r{s, has_marks, Project(b, rows, w_x, bias), w_h};
  // Clipped gradients need every step by itself.
  if (threshold > 0 || (s.steps == 1 && !has_marks)) {
    Unroll(l, r, threshold);
  } else {
    AllAtOnce(l, r);
  }
}

// A mark for each row of x.
void NeedsOfCaffeLstm(const ShapeReader& reader) { NeedNumberAnItem(reader, 1); }

}  // namespace

LayerDef CaffeLstmLayer() {
  return {
      .type = "Lstm", .max_bottoms = 2, .build = BuildCaffeLstm, .needs = NeedsOfCaffeLstm, .params = {"lstm_param"}};
}

}  // namespace moka
