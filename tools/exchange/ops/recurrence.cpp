// LSTM and GRU. Moka's ops take what the inputs add to the gates, from one product over all steps; ONNX's take the
// inputs and that product's weights. So the product in front is taken in, where there is one of constants, and else the
// weights are the identity. Gates are i, f, o, g here and i, o, f, c there; r, z, n here and z, r, h there. ONNX knows
// no marks of beginnings inside a sequence: sequences that each fill the steps are exported, and such as go on.
#include <algorithm>
#include <optional>

#include "core/text.h"
#include "graph/op.h"
#include "tools/exchange/onnx_op.h"

namespace moka {
namespace {

struct Form {
  const char* type;
  Ints order;       // gate i of ONNX is gate order[i] here
  int weights = 0;  // the input that they are
  int states = 0;   // inputs from 2 on, and the last outputs
};

std::vector<double> ConstantsAt(const OnnxNode& n, ValueId value, std::string_view what) {
  GraphConstants& constants = n.onnx().constants();
  if (!constants.IsConstant(value)) n.Refuse(StrCat(what, " are computed from what the net is given"));
  return constants.At(value).values;
}

// Whether the state before the first step counts: marks are 0 or 1 there, alike for all streams, and 1 at later steps.
bool GoesOn(const OnnxNode& n) {
  const std::vector<double> marks = ConstantsAt(n, n.Input(1), "its marks of beginnings (cont)");
  const auto streams = static_cast<std::ptrdiff_t>(n.x(1)[1]);
  const auto are = [](auto begin, auto end, double mark) {
    return std::all_of(begin, end, [mark](double one) { return one == mark; });
  };
  const auto second = marks.begin() + streams;
  const bool goes_on = are(marks.begin(), second, 1);
  if ((!goes_on && !are(marks.begin(), second, 0)) || !are(second, marks.end(), 1))
    n.Refuse("sequences begin inside the steps (cont), which ONNX does not know");
  return goes_on;
}

// [gates*part] by the gates' order there.
std::vector<float> Reordered(const std::vector<double>& rows, const Ints& order) {
  const size_t part = rows.size() / order.size();
  std::vector<float> out;
  out.reserve(rows.size());
  for (const int64_t gate : order) {
    const auto first = rows.begin() + gate * static_cast<std::ptrdiff_t>(part);
    out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(part));
  }
  return out;
}

// The product that the gates are made of: x [T*N,D] times w [rows,D] transposed, plus a bias [rows].
struct Product {
  ValueId x = kNoId;
  int64_t columns = 0;
  std::vector<double> w;
  std::vector<double> bias;
};

const Node* ProducerOf(const Graph& graph, ValueId value, std::string_view op) {
  const NodeId producer = graph.value(value).producer;
  return producer != kNoId && graph.node(producer).op->name == op ? &graph.node(producer) : nullptr;
}

Product ProductOf(const OnnxNode& n) {
  const Graph& graph = n.onnx().graph();
  GraphConstants& constants = n.onnx().constants();
  const int64_t rows = n.x(0)[2];
  const Node* reshape = ProducerOf(graph, n.Input(0), "reshape");
  const Node* product = reshape == nullptr ? nullptr : ProducerOf(graph, reshape->inputs[0], "matmul");
  const auto is_constant = [&](ValueId value) { return constants.IsConstant(value); };
  const bool is_taken = product != nullptr && product->attributes.Bool("transpose_b") &&
                        !product->attributes.Bool("transpose_a") && product->attributes.String("activation").empty() &&
                        graph.shape(product->inputs[0]).rank() == 2 && graph.shape(product->outputs[0])[1] == rows &&
                        std::all_of(product->inputs.begin() + 1, product->inputs.end(), is_constant);
  Product out{.x = n.Input(0), .columns = rows, .w = {}, .bias = std::vector<double>(static_cast<size_t>(rows), 0.0)};
  if (is_taken) {
    out.x = product->inputs[0];
    out.columns = graph.shape(out.x)[1];
    out.w = constants.At(product->inputs[1]).values;
    if (product->inputs.size() > 2) out.bias = constants.At(product->inputs[2]).values;
    return out;
  }
  out.w.assign(static_cast<size_t>(rows * rows), 0.0);
  for (int64_t i = 0; i < rows; ++i) out.w[static_cast<size_t>(i * rows + i)] = 1;
  return out;
}

std::string AddFloats(OnnxNode& n, std::string_view name, Ints dims, std::vector<float> values) {
  return n.onnx().AddTensor({.name = n.NameWith(name), .dims = std::move(dims), .floats = std::move(values)});
}

// The number of steps of each stream [N]: what is over all steps counts as all.
std::string StepsOfStreams(OnnxNode& n, int input, int64_t steps) {
  const std::string clipped =
      n.Add("Clip", {n.In(input), n.onnx().Scalar(0), n.onnx().Scalar(static_cast<double>(steps))});
  return n.Add("Cast", {clipped}, {{"to", int64_t{OnnxTypeOf(DType::kInt32)}}});
}

// `inner`: the second bias [rows], of the product with the state before, in the order of Moka's gates.
void WriteRecurrence(OnnxNode& n, const Form& form, Product product, const std::vector<double>& inner,
                     Attributes attributes) {
  if (n.onnx().net().other != nullptr) n.Refuse("a recurrence is for one number of steps; --batch N exports it so");
  const Shape gates = n.x(0);
  const int64_t steps = gates[0];
  const int64_t streams = gates[1];
  const int64_t rows = gates[2];
  const int64_t units = rows / std::ssize(form.order);
  const bool goes_on = GoesOn(n);
  const std::vector<double> recurrent = ConstantsAt(n, n.Input(form.weights), "its weights");
  const std::string x = n.Add("Reshape", {n.onnx().Read(product.x), n.List({steps, streams, product.columns})});
  std::vector<float> bias = Reordered(product.bias, form.order);
  const std::vector<float> second = Reordered(inner, form.order);
  bias.insert(bias.end(), second.begin(), second.end());
  std::vector<std::string> inputs = {x, AddFloats(n, "W", {1, rows, product.columns}, Reordered(product.w, form.order)),
                                     AddFloats(n, "R", {1, rows, units}, Reordered(recurrent, form.order)),
                                     AddFloats(n, "B", {1, 2 * rows}, std::move(bias))};
  inputs.push_back(n.input_count() > 5 ? StepsOfStreams(n, 5, steps) : std::string());
  for (int i = 0; goes_on && i < form.states; ++i)
    inputs.push_back(n.Add("Reshape", {n.In(2 + i), n.List({1, streams, units})}));
  if (inputs.back().empty()) inputs.pop_back();
  std::vector<std::string> outputs;
  for (const char* name : {"Y", "Y_h", "Y_c"}) outputs.push_back(n.onnx().Unique(n.NameWith(name)));
  outputs.resize(static_cast<size_t>(form.states) + 1);
  attributes.Set("hidden_size", units);
  n.onnx().AddNode(form.type, n.onnx().Unique(n.NameWith(form.type)), inputs, outputs, attributes);
  n.Give("Reshape", {outputs[0], n.List({steps, streams, units})}, {}, 0);
  for (int i = 0; i < form.states; ++i)
    n.Give("Reshape", {outputs[static_cast<size_t>(i) + 1], n.List({streams, units})}, {}, 1 + i);
}

void WriteLstm(OnnxNode& n) {
  constexpr size_t kForget = 1;
  Product product = ProductOf(n);
  const size_t units = product.bias.size() / 4;
  for (size_t j = 0; j < units; ++j) product.bias[kForget * units + j] += n.attributes().Float("forget_bias");
  const std::vector<double> none(product.bias.size(), 0.0);
  WriteRecurrence(n, {.type = "LSTM", .order = {0, 2, 1, 3}, .weights = 4, .states = 2}, std::move(product), none, {});
}

void WriteGru(OnnxNode& n) {
  Product product = ProductOf(n);
  std::vector<double> inner(product.bias.size(), 0.0);
  const std::vector<double> last = ConstantsAt(n, n.Input(4), "its biases");
  std::ranges::copy(last, inner.end() - std::ssize(last));
  WriteRecurrence(n, {.type = "GRU", .order = {1, 0, 2}, .weights = 3, .states = 1}, std::move(product), inner,
                  {{"linear_before_reset", int64_t{1}}});
}

}  // namespace

OnnxOp OnnxLstm() { return {.op = "lstm", .write = WriteLstm}; }
OnnxOp OnnxLstmForward() { return {.op = "lstm_forward", .write = WriteLstm}; }
OnnxOp OnnxGru() { return {.op = "gru", .write = WriteGru}; }
OnnxOp OnnxGruForward() { return {.op = "gru_forward", .write = WriteGru}; }

}  // namespace moka
