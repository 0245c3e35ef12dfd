// LSTM whose products are convolutions, over maps [T,N,C,H,W] (Shi et al., arXiv 1506.04214), as agethen's ConvLSTM for
// Caffe has it; ConvLSTMReLU has ReLUs where that has tanh.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/recurrent/recurrence.h"

namespace moka {
namespace {

// One of the two convolutions.
struct Field {
  const LSTMConvolutionParameter* p;
  std::string name;  // "lstm_conv_param[0]"
};

struct Fields {
  Field input;
  Field hidden;
  int64_t channels;  // of the hidden state
};

Fields ReadFields(const LayerBuilder& l) {
  const int given = l.param().lstm_conv_param_size();
  l.Check(given >= 1 && given <= 2, "lstm_conv_param",
          StrCat("lstm_conv_param is given once for x and h, or once each, found ", given, " times"));
  const auto field = [&](int i) { return Field{&l.param().lstm_conv_param(i), StrCat("lstm_conv_param[", i, "]")}; };
  const auto is = [&](int i, std::string_view type) { return field(i).p->type() == type; };
  if (given == 1) {
    l.Check(is(0, "all"), "lstm_conv_param[0].type",
            StrCat("one lstm_conv_param is of type \"all\", found \"", Printable(field(0).p->type()), "\""));
  } else {
    l.Check((is(0, "input") && is(1, "hidden")) || (is(0, "hidden") && is(1, "input")), "lstm_conv_param[1].type",
            StrCat("two lstm_conv_param are of the types \"input\" and \"hidden\", found \"",
                   Printable(field(0).p->type()), "\" and \"", Printable(field(1).p->type()), "\""));
  }
  const int input = given == 2 && field(0).p->type() == "hidden" ? 1 : 0;
  const int hidden = given == 2 && field(0).p->type() == "input" ? 1 : 0;
  const Fields fields{field(input), field(hidden), int64_t{field(0).p->num_output()}};
  l.Check(fields.channels >= 1 && fields.channels <= INT32_MAX / 4, "lstm_conv_param[0].num_output",
          StrCat("num_output must be given, from 1 to ", INT32_MAX / 4, ", found ", fields.channels));
  for (int i = 0; i < given; ++i) {
    l.Check(field(i).p->num_output() == fields.channels, StrCat("lstm_conv_param[", i, "].num_output"),
            "both lstm_conv_param must have one num_output");
  }
  return fields;
}

// A value for height and width each, of a repeated field or its _h and _w spellings.
template <class Values>
Ints Pair(const LayerBuilder& l, const std::string& name, const Values& values, bool has_hw, int64_t h, int64_t w,
          int64_t fallback) {
  if (has_hw) {
    l.Check(values.empty(), name, StrCat("both ", name, " and its _h and _w spellings are given; give one of them"));
    return {h, w};
  }
  l.Check(values.size() <= 2, name, StrCat(name, " takes one value, or one for height and width each"));
  if (values.empty()) return {fallback, fallback};
  return {int64_t{values.Get(0)}, int64_t{values.Get(values.size() - 1)}};
}

// Kernel [h,w] and the attributes of a convolution that keeps the maps' size.
struct Window {
  Ints kernel;
  Attributes attributes;
};
Window ReadWindow(const LayerBuilder& l, const Field& field) {
  const LSTMConvolutionParameter& p = *field.p;
  const std::string& name = field.name;
  const Ints kernel = Pair(l, name + ".kernel_size", p.kernel_size(), p.has_kernel_h() || p.has_kernel_w(),
                           p.kernel_h(), p.kernel_w(), 0);
  const Ints pad = Pair(l, name + ".pad", p.pad(), p.has_pad_h() || p.has_pad_w(), p.pad_h(), p.pad_w(), 0);
  const Ints stride =
      Pair(l, name + ".stride", p.stride(), p.has_stride_h() || p.has_stride_w(), p.stride_h(), p.stride_w(), 1);
  const Ints dilation = Pair(l, name + ".dilation", p.dilation(), false, 1, 1, 1);
  for (size_t i = 0; i < 2; ++i) {
    l.Check(kernel[i] >= 1 && dilation[i] >= 1 && stride[i] == 1, name,
            "kernel_size must be given and at least 1, dilation at least 1, stride 1");
    l.Check(2 * pad[i] == dilation[i] * (kernel[i] - 1), name + ".pad",
            StrCat("the maps must keep their size: pad must be dilation * (kernel_size - 1) / 2, found pad ", pad[i],
                   " for kernel ", kernel[i], " and dilation ", dilation[i]));
  }
  l.Check(p.group() >= 1, name + ".group", "group must be at least 1");
  return {kernel,
          {{"stride", stride},
           {"pad_begin", pad},
           {"pad_end", pad},
           {"dilation", dilation},
           {"groups", int64_t{p.group()}}}};
}

// Blob `index` [4C, inputs/group, kernel..].
ValueId AddWeight(LayerBuilder& l, int index, const Field& field, const Window& window, int64_t channels,
                  int64_t inputs) {
  const int64_t groups = field.p->group();
  l.Check(inputs % groups == 0 && 4 * channels % groups == 0, field.name + ".group",
          StrCat("group must divide the ", inputs, " channels read and the ", 4 * channels, " made, found ", groups));
  return l.AddBlob(index, {4 * channels, inputs / groups, window.kernel[0], window.kernel[1]}, field.p->weight_filler(),
                   ParameterRole::kWeight, field.name + ".weight_filler");
}

struct Bottoms {
  Shape x;
  bool has_fixed = false;
  bool exposes = false;
  std::vector<ValueId> first = {};  // h, c before the first step, [N,C,H,W]
  std::vector<ValueId> kept = {};
};

Bottoms ReadBottoms(LayerBuilder& l, int64_t channels) {
  Bottoms bottoms{.x = l.shape(0)};
  const Shape& x = bottoms.x;
  bottoms.exposes = l.param().recurrent_param().expose_hidden();
  const int states = bottoms.exposes ? 2 : 0;
  bottoms.has_fixed = l.bottom_count() == 3 + states;
  l.Check(l.bottom_count() == 2 + states || bottoms.has_fixed, "bottom",
          StrCat(l.param().type(), bottoms.exposes ? " with" : " without", " expose_hidden takes ", 2 + states, " or ",
                 3 + states, " bottoms, found ", l.bottom_count()));
  l.Check(l.top_count() == 1 + states, "top",
          StrCat(l.param().type(), bottoms.exposes ? " with" : " without", " expose_hidden has ", 1 + states,
                 " top(s), found ", l.top_count()));
  l.Check(x.rank() == 5 && x.Count() >= 1, "bottom[0]",
          StrCat("x must be [steps,streams,channels,height,width], found ", x.ToString()));
  const Shape cont = l.shape(1);
  l.Check(cont.rank() == 2 && cont[0] == x[0] && cont[1] == x[1], "bottom[1]",
          StrCat("cont must be [", x[0], ",", x[1], "], a mark for each step and stream of x ", x.ToString(),
                 ", found ", cont.ToString()));
  const Shape state{x[1], channels, x[3], x[4]};
  for (int i = 0; i < 2; ++i) {
    if (!bottoms.exposes) {
      bottoms.kept.push_back(l.AddKept(i == 0 ? "h" : "c", state));
      bottoms.first.push_back(bottoms.kept.back());
      continue;
    }
    const int bottom = l.bottom_count() - 2 + i;
    l.Check(l.shape(bottom) == Joined({1}, state), StrCat("bottom[", bottom, "]"),
            StrCat("the first state must be ", Joined({1}, state).ToString(), ", found ", l.shape(bottom).ToString()));
    bottoms.first.push_back(l.b().Reshape(l.bottom(bottom), state));
  }
  return bottoms;
}

// The three peepholes, spread over [N,C,H,W]; none with disable_hadamard.
std::vector<ValueId> ReadPeepholes(LayerBuilder& l, int index, const Shape& state) {
  const LSTMDebugParameter& p = l.param().lstm_debug_param();
  if (p.disable_hadamard()) return {};
  const int64_t axis = p.axis_hadamard();
  const int64_t count = p.num_axes_hadamard();
  l.Check(axis >= 1 && count >= 0 && axis + count <= 5, "lstm_debug_param.axis_hadamard",
          StrCat("axis_hadamard and num_axes_hadamard must lie in the 5 axes after the first, found ", axis, " and ",
                 count));
  const int begin = static_cast<int>(axis) - 1;
  const Shape shape = Part(state, begin, begin + static_cast<int>(count));
  FillerParameter one;
  one.set_value(1);
  std::vector<ValueId> peepholes;
  for (int i = 0; i < 3; ++i) {
    const ValueId blob = l.AddBlob(index + i, shape, one, ParameterRole::kWeight);
    peepholes.push_back(l.b().Reshape(blob, Spread(shape, begin, 4)));
  }
  return peepholes;
}

// One step: gates [N,4C,H,W] in the order i, f, o, g.
LstmCell Step(const GraphBuilder& b, ValueId gates, ValueId c, ValueId going, const std::vector<ValueId>& peepholes,
              bool is_relu) {
  const int64_t channels = b.shape(gates)[1] / 4;
  std::vector<ValueId> inputs = b.Add("slice", {gates}, {{"axis", int64_t{1}}, {"sizes", Ints(4, channels)}});
  inputs.push_back(c);
  inputs.push_back(going);
  inputs.insert(inputs.end(), peepholes.begin(), peepholes.end());
  const auto gate = [&](size_t i) {
    const Term sum = Term::Of(inputs[i]);
    return Sigmoid(peepholes.empty() ? sum : sum + Term::Of(c) * Term::Of(peepholes[i]));
  };
  const auto bent = [&](const Term& x) { return is_relu ? Max(x, 0) : Tanh(x); };
  const Term mark = Term::Of(going);
  const Term kept = Select(mark == 0, 0, mark * gate(1) * Term::Of(c));
  const Term next = gate(0) * bent(Term::Of(inputs[3])) + kept;
  const std::vector<ValueId> outs = b.Pointwise(std::vector<Term>{next, gate(2) * bent(next)}, inputs);
  return {.c = outs[0], .h = outs[1]};
}

// Returns the shape of the bottom that is the same in every step, [N,C,H,W].
Shape FixedShape(const LayerBuilder& l, const Shape& x) {
  const Shape s = l.shape(2);
  const Shape maps = s.rank() == 5 ? Part(s, 1, 5) : s;
  l.Check(s.Count() == maps.Count() && maps.rank() == 4 && maps.With(1, x[2]) == Part(x, 1, 5), "bottom[2]",
          StrCat("x_static must be [1,", x[1], ",channels,", x[3], ",", x[4], "], found ", s.ToString()));
  return maps;
}

void BuildCell(LayerBuilder& l, bool is_relu) {
  const GraphBuilder& b = l.b();
  const Fields fields = ReadFields(l);
  const LSTMDebugParameter& debug = l.param().lstm_debug_param();
  l.Check(debug.expose_size() == 0, "lstm_debug_param.expose", "inner blobs cannot be given as tops");
  const Bottoms in = ReadBottoms(l, fields.channels);
  const Shape& x = in.x;
  const Shape state{x[1], fields.channels, x[3], x[4]};
  const Window input = ReadWindow(l, fields.input);
  const Window hidden = ReadWindow(l, fields.hidden);
  int index = 0;
  std::vector<ValueId> steps;
  ValueId fixed = kNoId;
  l.Check(x[0] <= kMaxSteps, "bottom[0]", StrCat("the sequence has ", x[0], " steps; the limit is ", kMaxSteps));
  if (!debug.ignore_x()) {
    const ValueId w = AddWeight(l, index++, fields.input, input, fields.channels, x[2]);
    const ValueId maps = b.Reshape(l.bottom(0), {x[0] * x[1], x[2], x[3], x[4]});
    steps = StepsOf(l, b.Add1("convolution", {maps, w}, input.attributes), x[0]);
    if (in.has_fixed) {
      const Shape maps_of_s = FixedShape(l, x);
      const ValueId w_fixed = AddWeight(l, index++, fields.input, input, fields.channels, maps_of_s[1]);
      fixed = b.Add1("convolution", {b.Reshape(l.bottom(2), maps_of_s), w_fixed}, input.attributes);
    }
  }
  const ValueId w_h = AddWeight(l, index++, fields.hidden, hidden, fields.channels, fields.channels);
  std::vector<ValueId> parameters{w_h};
  if (fields.hidden.p->bias_term()) {
    parameters.push_back(l.AddBlob(index++, {4 * fields.channels}, fields.hidden.p->bias_filler(), ParameterRole::kBias,
                                   fields.hidden.name + ".bias_filler"));
  }
  const std::vector<ValueId> peepholes = ReadPeepholes(l, index, state);
  const std::vector<ValueId> marks = MarksOf(l, l.bottom(1), x[0]);
  LstmCell cell{.c = in.first[1], .h = in.first[0]};
  std::vector<ValueId> outputs;
  for (size_t t = 0; t < static_cast<size_t>(x[0]); ++t) {
    const ValueId going = b.Reshape(marks[t], {x[1], 1, 1, 1});
    std::vector<ValueId> inputs{Continued(b, cell.h, going)};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    const ValueId of_state = b.Add1("convolution", inputs, hidden.attributes);
    Term sum = Term::Of(of_state);
    if (!steps.empty()) sum = sum + Term::Of(steps[t]);
    if (fixed != kNoId) sum = sum + Term::Of(fixed);
    const ValueId gates = steps.empty() && fixed == kNoId ? of_state : Computed(b, sum);
    cell = Step(b, gates, cell.c, going, peepholes, is_relu);
    outputs.push_back(cell.h);
  }
  l.SetTop(0, b.Reshape(JoinSteps(b, outputs), Joined({x[0]}, state)));
  const ValueId last[] = {cell.h, cell.c};
  for (int i = 0; i < 2; ++i) {
    if (in.exposes) {
      l.SetTop(1 + i, b.Reshape(last[i], Joined({1}, state)));
    } else {
      l.AssignKept(in.kept[static_cast<size_t>(i)], last[i]);
    }
  }
}

// Maps [T,C,H,W] have streams, or, with as many streams as a state [1,N,C,H,W], channels; the state says their size,
// the marks how many steps there are.
void NeedsOfConvLstm(const ShapeReader& reader) {
  const Shape* x = reader.bottom(0);
  if (x == nullptr || reader.bottom_count() < 2) return;
  if (x->rank() != 4) return NeedSteps(reader);
  NeedStreamsOfWords(reader);
  const Shape* marks = reader.bottom(1);
  const Shape* state = reader.bottom(2);
  const bool has_state = state != nullptr && state->rank() == 5;
  const int64_t steps = marks != nullptr && marks->rank() > 0 ? (*marks)[0] : (*x)[0];
  const int64_t streams = has_state ? (*state)[1] : reader.needs().streams();
  const int64_t channels = has_state && (*x)[1] == streams ? 1 : (*x)[1];
  reader.Require(0, {steps, streams, channels, has_state ? (*state)[3] : (*x)[2], has_state ? (*state)[4] : (*x)[3]});
  reader.Require(1, {steps, streams});
}

LayerDef Row(const std::string& type, void (*build)(LayerBuilder&)) {
  return {.type = type,
          .min_bottoms = 2,
          .max_bottoms = 5,
          .max_tops = 3,
          .build = build,
          .needs = NeedsOfConvLstm,
          .bottoms = BottomsOfRecurrence,
          .params = {"lstm_conv_param", "lstm_debug_param", "recurrent_param"}};
}

}  // namespace

LayerDef ConvLstmLayer() {
  return Row("ConvLSTM", [](LayerBuilder& l) { BuildCell(l, false); });
}

LayerDef ConvLstmReluLayer() {
  return Row("ConvLSTMReLU", [](LayerBuilder& l) { BuildCell(l, true); });
}

}  // namespace moka
