// Operations of two and more values with numpy's broadcasting. A constant number is a field of a layer, a constant
// along axes a learned blob of Scale or Bias; what these layers do not say is a Formula.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/layer_making.h"

namespace moka {
namespace {

// A text with %a and %b in place of the operands.
std::string FormOf(const std::string& type) {
  static const std::map<std::string, std::string> forms = {{"Add", "%a+%b"},         {"Sub", "%a-%b"},
                                                           {"Mul", "%a*%b"},         {"Div", "%a/%b"},
                                                           {"Pow", "pow(%a,%b)"},    {"Min", "min(%a,%b)"},
                                                           {"Max", "max(%a,%b)"},    {"Less", "lt(%a,%b)"},
                                                           {"Equal", "eq(%a,%b)"},   {"LessOrEqual", "le(%a,%b)"},
                                                           {"Greater", "gt(%a,%b)"}, {"GreaterOrEqual", "ge(%a,%b)"},
                                                           {"And", "%a*%b"},         {"Or", "max(%a,%b)"},
                                                           {"Xor", "abs(%a-%b)"}};
  return forms.at(type);
}

std::string Filled(std::string form, const std::string& a, const std::string& b) {
  form.replace(form.find("%a"), 2, a);
  return form.replace(form.find("%b"), 2, b);
}

LayerParameter PowerLayer(float power, float scale, float shift) {
  LayerParameter layer = LayerOf("Power");
  PowerParameter& p = *layer.mutable_power_param();
  if (power != 1) p.set_power(power);
  if (scale != 1) p.set_scale(scale);
  if (shift != 0) p.set_shift(shift);
  return layer;
}

LayerParameter EltwiseLayer(EltwiseParameter::EltwiseOp operation, const std::vector<float>& coeff = {}) {
  LayerParameter layer = LayerOf("Eltwise");
  layer.mutable_eltwise_param()->set_operation(operation);
  for (const float one : coeff) layer.mutable_eltwise_param()->add_coeff(one);
  return layer;
}

// Finite numbers that fields hold; others are for formulas.
bool IsPlain(float value) { return std::isfinite(value); }

// Whether a number beside a blob is said by a layer that is no formula.
bool GiveWithNumber(ImportNode& n, const std::string& blob, float c, bool is_left) {
  const std::string& type = n.proto().op_type();
  if (!IsPlain(c)) return false;
  if (type == "Add") return n.Give(PowerLayer(1, 1, c), {blob}), true;
  if (type == "Mul" && c != 0) return n.Give(PowerLayer(1, c, 0), {blob}), true;
  if (type == "Sub" && !is_left) return n.Give(PowerLayer(1, 1, -c), {blob}), true;
  if (type == "Sub") return n.Give(PowerLayer(1, -1, c), {blob}), true;
  if (type == "Div" && is_left && c == 1) return n.Give(PowerLayer(-1, 1, 0), {blob}), true;
  if (type == "Pow" && !is_left && c != 0) return n.Give(PowerLayer(c, 1, 0), {blob}), true;
  if (type == "Max" && c == 0) return n.Give(LayerOf("ReLU"), {blob}), true;
  return false;
}

// Whether a constant tensor beside a blob is a learned blob of Scale or Bias.
bool GiveWithTensor(ImportNode& n, int blob, const OnnxTensor& c) {
  const std::string& type = n.proto().op_type();
  const bool adds = type == "Add" || (type == "Sub" && blob == 0);
  if ((!adds && type != "Mul") || c.is_whole || c.dims.size() > n.x(blob).dims.size()) return false;
  const std::optional<OperandAxes> axes = OperandAxesOf(n.x(blob).dims, c);
  if (!axes) return false;
  std::vector<float> values = c.floats;
  if (type == "Sub") {
    for (float& value : values) value = -value;
  }
  LayerParameter layer = LayerOf(adds ? "Bias" : "Scale");
  const auto set = [&](auto& p) {
    if (axes->axis != 1) p.set_axis(axes->axis);
    if (axes->count != 1) p.set_num_axes(axes->count);
  };
  if (adds) set(*layer.mutable_bias_param());
  if (!adds) set(*layer.mutable_scale_param());
  n.Give(layer, {n.In(blob)}, {{axes->shape, std::move(values)}});
  return true;
}

// Layers for two blobs.
bool GiveBlobs(ImportNode& n) {
  const std::string& type = n.proto().op_type();
  const std::vector<std::string> blobs{n.In(0), n.In(1)};
  const bool is_same = n.x(0).dims == n.x(1).dims;
  if (type == "Add") return n.Give(is_same ? EltwiseLayer(EltwiseParameter::SUM) : LayerOf("Add"), blobs), true;
  if (type == "Mul") return n.Give(is_same ? EltwiseLayer(EltwiseParameter::PROD) : LayerOf("Mul"), blobs), true;
  if (type == "Sub" && is_same) return n.Give(EltwiseLayer(EltwiseParameter::SUM, {1, -1}), blobs), true;
  if (type == "Max" && is_same) return n.Give(EltwiseLayer(EltwiseParameter::MAX), blobs), true;
  return false;
}

void GiveFormula(ImportNode& n) {
  std::vector<std::string> blobs;
  std::vector<std::string> operands;
  for (int i = 0; i < 2; ++i) {
    const std::optional<float> number = ScalarOf(n.Constant(i));
    if (number && n.x(i).dims.size() <= n.x(1 - i).dims.size()) {
      operands.push_back(NumberText(*number));
      continue;
    }
    const std::string blob = n.In(i);
    if (blobs.empty() || blobs.front() != blob) blobs.push_back(blob);
    operands.push_back(StrCat("x", blobs.size() - 1));
  }
  n.Give(FormulaOf(Filled(FormOf(n.proto().op_type()), operands[0], operands[1])), blobs);
}

void ReadBinary(ImportNode& n) {
  if (n.proto().input_size() != 2) n.Refuse(StrCat("it has ", n.proto().input_size(), " inputs"));
  for (int i = 0; i < 2; ++i) {
    const OnnxConstant constant = n.Constant(i);
    const Ints& other = n.x(1 - i).dims;
    if (constant == nullptr || n.Constant(1 - i) != nullptr) continue;
    const std::optional<float> number = ScalarOf(constant);
    if (number && constant->dims.size() <= other.size() && GiveWithNumber(n, n.In(1 - i), *number, i == 0)) return;
    if (!number && GiveWithTensor(n, 1 - i, *constant)) return;
    const bool is_plain = !number && (n.proto().op_type() == "Add" || n.proto().op_type() == "Mul");
    return is_plain ? n.Give(LayerOf(n.proto().op_type().c_str()), {n.In(0), n.In(1)}) : GiveFormula(n);
  }
  if (!GiveBlobs(n)) GiveFormula(n);
}

void ReadTruth(ImportNode& n) {
  GiveFormula(n);
  n.MarkWhole(0);
}

// Two at a time, or all by one layer.
void ReadMany(ImportNode& n) {
  const std::string& type = n.proto().op_type();
  const int count = n.proto().input_size();
  const bool is_mean = type == "Mean";
  const bool is_sum = type == "Sum" || is_mean;
  if (count == 2 && !is_sum) return ReadBinary(n);
  bool is_same = count > 0;
  std::vector<std::string> blobs;
  for (int i = 0; i < count; ++i) {
    is_same = is_same && n.x(i).dims == n.x(0).dims;
    blobs.push_back(n.In(i));
  }
  if (!is_same || (type == "Min" && count > 1)) n.Refuse("it joins more than two values of different shapes");
  if (count == 1) return GiveBlob(n, blobs.front());
  std::vector<float> coeff;
  if (is_mean) coeff.assign(static_cast<size_t>(count), 1 / static_cast<float>(count));
  n.Give(EltwiseLayer(is_sum ? EltwiseParameter::SUM : EltwiseParameter::MAX, coeff), blobs);
}

// One of two values where a condition holds.
void ReadWhere(ImportNode& n) {
  std::vector<std::string> blobs;
  std::vector<std::string> operands;
  for (int i = 0; i < 3; ++i) {
    const std::optional<float> number = i == 0 ? std::nullopt : ScalarOf(n.Constant(i));
    if (number && n.x(i).dims.size() <= n.x(0).dims.size()) {
      operands.push_back(NumberText(*number));
      continue;
    }
    const std::string blob = n.In(i);
    auto found = std::ranges::find(blobs, blob);
    if (found == blobs.end()) found = blobs.insert(blobs.end(), blob);
    operands.push_back(StrCat("x", found - blobs.begin()));
  }
  n.Give(FormulaOf(StrCat("select(", operands[0], ",", operands[1], ",", operands[2], ")")), blobs);
  if (n.x(1).is_whole) n.MarkWhole(0);
}

}  // namespace

OnnxImportOp ImportBinary() { return {.types = {"Add", "Sub", "Mul", "Div", "Pow"}, .read = ReadBinary}; }
OnnxImportOp ImportMany() { return {.types = {"Min", "Max", "Sum", "Mean"}, .read = ReadMany}; }
OnnxImportOp ImportTruth() {
  return {.types = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or", "Xor"},
          .read = ReadTruth,
          .takes_whole = true};
}
OnnxImportOp ImportWhere() { return {.types = {"Where"}, .read = ReadWhere, .takes_whole = true}; }

}  // namespace moka
