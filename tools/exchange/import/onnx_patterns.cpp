// Each pattern begins at the node whose result stays, looks backwards at the nodes that make its inputs, and asks that
// nothing else reads what is between. Nodes are replaced in place; those that no output needs any more are left out at
// the end.
#include "tools/exchange/import/onnx_patterns.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "tools/exchange/import/detection_form.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/shape_rules.h"

namespace moka {
namespace {

using Node = onnx::NodeProto;
constexpr double kNear = 1e-4;  // of constants that exporters write with few digits

// Computes what needs no input. What cannot be computed is told when the node is turned into layers.
void FoldConstants(OnnxFile& file) {
  constexpr int64_t kElements = int64_t{1} << 22;
  FoldBudget budget(kElements);
  for (const Node& node : file.nodes) {
    std::vector<const OnnxTensor*> in;
    bool is_constant = IsMainOp(node) && node.output_size() == 1 && node.op_type() != "Expand" &&
                       !file.layers.contains(node.output(0));
    for (const std::string& input : node.input()) {
      const auto found = file.constants.find(input);
      is_constant = is_constant && (input.empty() || found != file.constants.end());
      in.push_back(found == file.constants.end() ? nullptr : found->second.get());
    }
    if (!is_constant) continue;
    if (node.op_type() == "Identity" && node.input_size() == 1) {
      file.constants[node.output(0)] = file.constants.at(node.input(0));  // shared, however many names it has
      continue;
    }
    try {
      std::optional<std::vector<OnnxTensor>> folded =
          Fold({.node = node, .opset = file.opset, .in = std::move(in), .budget = budget});
      if (!folded) continue;
      folded->front().name = node.output(0);
      file.constants[node.output(0)] = std::make_shared<OnnxTensor>(std::move(folded->front()));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConfig && error.kind() != ErrorKind::kBadData) throw;
    }
  }
  std::erase_if(file.nodes,
                [&](const Node& node) { return node.output_size() == 1 && file.constants.contains(node.output(0)); });
}

class Patterns {
 public:
  explicit Patterns(OnnxFile& file) : file_(file) { Index(); }

  void Apply() {
    for (Node& node : file_.nodes) {
      if (!IsMainOp(node) || file_.layers.contains(node.output(0))) continue;
      try {
        Try(node);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kConfig) throw;  // an attribute of a wrong type is told at its node, later
      }
    }
    KeepNeeded(file_);
  }

 private:
  void Index() {
    for (Node& node : file_.nodes) {
      for (const std::string& output : node.output()) makers_[output] = &node;
      for (const std::string& input : node.input()) readers_[input].push_back(&node);
    }
    // An output is read from outside.
    for (const OnnxPort& output : file_.outputs) readers_[output.name].push_back(nullptr);
  }

  // Inputs that a node of the type has; what has others is left alone.
  static bool HasInputs(const Node& node) {
    static const std::set<std::string> two = {"Add", "Div", "MatMul", "Mul", "Pow", "Sub"};
    const bool is_convolution = node.op_type() == "Conv" || node.op_type() == "ConvTranspose";
    return two.contains(node.op_type()) ? node.input_size() == 2 : node.input_size() >= (is_convolution ? 2 : 1);
  }
  // The node of this type that makes the value; null for another one.
  Node* Maker(const std::string& value, const std::string& type) const {
    const auto found = makers_.find(value);
    if (found == makers_.end() || found->second->op_type() != type || found->second->output_size() != 1) return nullptr;
    if (!HasInputs(*found->second)) return nullptr;
    return IsMainOp(*found->second) ? found->second : nullptr;
  }
  // The same, if nothing else reads the value.
  Node* OwnMaker(const std::string& value, const std::string& type) const {
    Node* maker = Maker(value, type);
    return maker != nullptr && readers_.at(value).size() == 1 ? maker : nullptr;
  }
  OnnxConstant Constant(const std::string& value) const {
    const auto found = file_.constants.find(value);
    return found == file_.constants.end() ? nullptr : found->second;
  }
  std::optional<double> Number(const std::string& value) const {
    const OnnxConstant constant = Constant(value);
    if (constant == nullptr || CountOf(constant->dims) != 1 || constant->is_whole) return std::nullopt;
    return constant->floats[0];
  }
  bool IsNumber(const std::string& value, double number) const {
    const std::optional<double> found = Number(value);
    return found && std::abs(*found - number) <= kNear * std::abs(number);
  }
  // The other input of a node of two, of which one is the number.
  std::optional<std::string> Beside(const Node& node, double number) const {
    if (node.input_size() != 2) return std::nullopt;
    for (int i = 0; i < 2; ++i) {
      if (IsNumber(node.input(i), number)) return node.input(1 - i);
    }
    return std::nullopt;
  }

  static void Become(Node& node, const char* type, const std::vector<std::string>& inputs) {
    node.set_op_type(type);
    node.clear_input();
    node.clear_attribute();
    for (const std::string& input : inputs) node.add_input(input);
  }
  static void SetFloat(Node& node, const char* name, double value) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(value));
  }

  void Try(Node& node) {
    const std::string& type = node.op_type();
    if (type == "Mul") TryProducts(node);
    if (type == "Add") TryLayerNorm(node);
    if (type == "Add") TryBias(node);
    if (type == "Gemm") TryFlatten(node);
    if (type == "Cast") TryIndex(node);
  }

  void TryProducts(Node& node) {
    if (node.input_size() != 2) return;
    if (!TrySwish(node) && !TryGelu(node) && !TryLrn(node)) TryShares(node);
  }

  // x * Sigmoid(x), x * Sigmoid(beta * x).
  bool TrySwish(Node& node) {
    for (int i = 0; i < 2; ++i) {
      const std::string x = node.input(1 - i);
      const Node* sigmoid = OwnMaker(node.input(i), "Sigmoid");
      if (sigmoid == nullptr) continue;
      if (sigmoid->input(0) == x) {
        Become(node, "Swish", {x});
        return true;
      }
      const Node* scaled = OwnMaker(sigmoid->input(0), "Mul");
      if (scaled == nullptr || scaled->input_size() != 2) continue;
      for (int j = 0; j < 2; ++j) {
        const std::optional<double> beta = Number(scaled->input(j));
        if (!beta || scaled->input(1 - j) != x) continue;
        Become(node, "Swish", {x});
        SetFloat(node, "alpha", *beta);
        return true;
      }
    }
    return false;
  }

  // The factors of a product, with those of products that only it reads.
  void Factors(const Node& node, int depth, std::vector<std::string>& factors) const {
    for (const std::string& input : node.input()) {
      const Node* inner = depth > 0 ? OwnMaker(input, "Mul") : nullptr;
      if (inner != nullptr && inner->input_size() == 2) Factors(*inner, depth - 1, factors);
      if (inner == nullptr || inner->input_size() != 2) factors.push_back(input);
    }
  }

  // 0.5 * x * (1 + Erf(x / sqrt(2))), in any order.
  bool TryGelu(Node& node) {
    std::vector<std::string> factors;
    Factors(node, 2, factors);
    if (factors.size() != 3) return false;
    const auto half = std::ranges::find_if(factors, [&](const std::string& f) { return IsNumber(f, 0.5); });
    if (half == factors.end()) return false;
    factors.erase(half);
    for (size_t i = 0; i < 2; ++i) {
      const std::string& x = factors[1 - i];
      const Node* sum = OwnMaker(factors[i], "Add");
      const std::optional<std::string> erf_value = sum == nullptr ? std::nullopt : Beside(*sum, 1);
      const Node* erf = erf_value ? OwnMaker(*erf_value, "Erf") : nullptr;
      if (erf == nullptr) continue;
      const Node* quotient = OwnMaker(erf->input(0), "Div");
      const bool divides = quotient != nullptr && quotient->input_size() == 2 && quotient->input(0) == x &&
                           IsNumber(quotient->input(1), std::sqrt(2.0));
      const Node* product = OwnMaker(erf->input(0), "Mul");
      const bool multiplies = product != nullptr && Beside(*product, std::sqrt(0.5)) == x;
      if (!divides && !multiplies) continue;
      Become(node, "Gelu", {x});
      return true;
    }
    return false;
  }

  // x * (1 + alpha * the mean of squares around it)^-beta: what the exporter makes of an LRN within channels.
  bool TryLrn(Node& node) {
    for (int i = 0; i < 2; ++i) {
      const std::string x = node.input(1 - i);
      const Node* power = OwnMaker(node.input(i), "Pow");
      const Node* sum = power == nullptr ? nullptr : OwnMaker(power->input(0), "Add");
      const std::optional<std::string> scaled = sum == nullptr ? std::nullopt : Beside(*sum, 1);
      const Node* product = scaled ? OwnMaker(*scaled, "Mul") : nullptr;
      if (product == nullptr || !Number(power->input(1))) continue;
      for (int j = 0; j < 2; ++j) {
        const Node* mean = OwnMaker(product->input(j), "AveragePool");
        const std::optional<double> alpha = Number(product->input(1 - j));
        const Node* square = mean == nullptr || !alpha ? nullptr : OwnMaker(mean->input(0), "Mul");
        if (square == nullptr || square->input(0) != x || square->input(1) != x) continue;
        const std::optional<int64_t> size = SizeAround(*mean);
        if (!size) continue;
        const double beta = -*Number(power->input(1));
        Become(node, "LrnWithinChannels", {x});
        SetFloat(node, "alpha", *alpha);
        SetFloat(node, "beta", beta);
        onnx::AttributeProto& attribute = *node.add_attribute();
        attribute.set_name("size");
        attribute.set_type(onnx::AttributeProto::INT);
        attribute.set_i(*size);
        return true;
      }
    }
    return false;
  }

  // The side of the square of pixels around each that a pooling takes the mean of, pads counted.
  static std::optional<int64_t> SizeAround(const Node& pool) {
    const NodeAttributes a(pool);
    const Ints kernel = a.List("kernel_shape");
    if (kernel.size() != 2 || kernel[0] < 1 || kernel[0] % 2 == 0 || kernel[1] != kernel[0]) return std::nullopt;
    const bool is_around = a.List("pads") == Ints(4, kernel[0] / 2) && a.List("strides", {1, 1}) == Ints{1, 1} &&
                           a.Int("count_include_pad", 0) != 0 && a.Int("ceil_mode", 0) == 0;
    return is_around ? std::optional(kernel[0]) : std::nullopt;
  }

  // An AveragePool times a constant for each window: what Caffe's divisor is made of.
  void TryShares(Node& node) {
    for (int i = 0; i < 2; ++i) {
      const OnnxConstant shares = Constant(node.input(1 - i));
      Node* pool = OwnMaker(node.input(i), "AveragePool");
      if (pool == nullptr || shares == nullptr || shares->is_whole || shares->dims.size() < 3) continue;
      if (shares->dims[0] != 1 || shares->dims[1] != 1 || pool->input_size() != 1) continue;
      const std::string share_name = node.input(1 - i);
      const std::string output = node.output(0);
      const std::string name = node.name();
      node = *pool;
      node.set_name(name);
      node.set_output(0, output);
      node.add_input(share_name);
      return;
    }
  }

  // The steps that exporters before opset 17 make of a layer norm:
  //   d = x - mean(x);  y = d / sqrt(mean(d^2) + eps) * scale + shift.
  void TryLayerNorm(Node& node) {
    if (node.input_size() != 2) return;
    for (int i = 0; i < 2; ++i) {
      const OnnxConstant shift = Constant(node.input(1 - i));
      const Node* scaled = OwnMaker(node.input(i), "Mul");
      if (shift == nullptr || scaled == nullptr || scaled->input_size() != 2) continue;
      for (int j = 0; j < 2; ++j) {
        const OnnxConstant scale = Constant(scaled->input(1 - j));
        const Node* quotient = OwnMaker(scaled->input(j), "Div");
        if (scale == nullptr || quotient == nullptr || scale->dims != shift->dims || scale->dims.size() != 1) continue;
        std::string x;
        const std::optional<double> eps = EpsOf(*quotient, x);
        if (!eps) continue;
        Become(node, "LayerNormalization", {x, scaled->input(1 - j), node.input(1 - i)});
        SetFloat(node, "epsilon", *eps);
        return;
      }
    }
  }

  // Returns eps of d / sqrt(mean(d^2) + eps); sets x.
  std::optional<double> EpsOf(const Node& quotient, std::string& x) const {
    const Node* difference = Maker(quotient.input(0), "Sub");
    const Node* root = OwnMaker(quotient.input(1), "Sqrt");
    const Node* sum = root == nullptr ? nullptr : OwnMaker(root->input(0), "Add");
    if (difference == nullptr || sum == nullptr || sum->input_size() != 2) return std::nullopt;
    const bool is_turned = Number(sum->input(0)).has_value();
    const std::optional<double> eps = Number(sum->input(is_turned ? 0 : 1));
    const Node* variance = OwnMaker(sum->input(is_turned ? 1 : 0), "ReduceMean");
    if (!eps || variance == nullptr || !IsOverLast(*variance)) return std::nullopt;
    const Node* power = OwnMaker(variance->input(0), "Pow");
    const Node* square = OwnMaker(variance->input(0), "Mul");
    const std::string& d = quotient.input(0);
    const bool is_square = (power != nullptr && power->input(0) == d && IsNumber(power->input(1), 2)) ||
                           (square != nullptr && square->input(0) == d && square->input(1) == d);
    x = difference->input(0);
    const Node* mean = Maker(difference->input(1), "ReduceMean");
    if (!is_square || mean == nullptr || mean->input(0) != x || !IsOverLast(*mean)) return std::nullopt;
    return eps;
  }

  bool IsOverLast(const Node& node) const {
    const NodeAttributes a(node);
    Ints axes = a.List("axes");
    if (node.input_size() > 1) {
      const OnnxConstant given = Constant(node.input(1));
      if (given == nullptr || !given->is_whole) return false;
      axes = given->ints;
    }
    return axes == Ints{-1} && a.Int("keepdims", 1) != 0;
  }

  // A constant that is added behind a product with constants, or behind a convolution that adds none.
  void TryBias(Node& node) {
    if (node.input_size() != 2) return;
    for (int i = 0; i < 2; ++i) {
      const OnnxConstant bias = Constant(node.input(1 - i));
      if (bias == nullptr || bias->is_whole) continue;
      const std::string name = node.input(1 - i);
      if (const Node* product = OwnMaker(node.input(i), "MatMul"); product != nullptr && IsRowOf(*product, *bias))
        return Become(node, "MatMulBias", {product->input(0), product->input(1), name});
      for (const char* type : {"Conv", "ConvTranspose"}) {
        const Node* convolution = OwnMaker(node.input(i), type);
        if (convolution != nullptr && convolution->input_size() == 2 && TakeBias(node, *convolution, name, *bias))
          return;
      }
    }
  }

  // Whether a constant has one number for each column of a product's right matrix.
  bool IsRowOf(const Node& product, const OnnxTensor& bias) const {
    if (product.input_size() != 2 || Constant(product.input(0)) != nullptr) return false;
    const OnnxConstant matrix = Constant(product.input(1));
    return matrix != nullptr && matrix->dims.size() == 2 && bias.dims.size() == 1 && bias.dims[0] == matrix->dims[1];
  }

  // [1,C,1,..] or [C,1,..] becomes the third input, [C].
  bool TakeBias(Node& node, const Node& convolution, const std::string& name, const OnnxTensor& bias) {
    const OnnxConstant weight = Constant(convolution.input(1));
    if (weight == nullptr || weight->dims.size() < 3) return false;
    const int64_t group = NodeAttributes(convolution).Int("group", 1);
    const int64_t channels =
        convolution.op_type() == "Conv" ? weight->dims[0] : weight->dims[1] * std::clamp<int64_t>(group, 1, 1 << 20);
    Ints dims(weight->dims.size(), 1);
    dims[1] = channels;
    const bool has_batch = bias.dims == dims;
    dims.erase(dims.begin());
    if (!has_batch && bias.dims != dims) return false;
    OnnxTensor flat = bias;
    flat.dims = {channels};
    const std::string flat_name = name + "/bias";
    file_.constants[flat_name] = std::make_shared<OnnxTensor>(std::move(flat));
    const std::string output = node.output(0);
    node = convolution;
    node.set_output(0, output);
    node.add_input(flat_name);
    return true;
  }

  // InnerProduct flattens by itself.
  void TryFlatten(Node& node) {
    if (node.input_size() < 2) return;
    const Node* flatten = OwnMaker(node.input(0), "Flatten");
    if (flatten == nullptr || NodeAttributes(*flatten).Int("axis", 1) != 1) return;
    if (NodeAttributes(node).Int("transA", 0) != 0 || Constant(node.input(1)) == nullptr) return;
    node.set_input(0, flatten->input(0));
  }

  // The type that a Cast makes; 0 where it does not say one.
  static int64_t ToOf(const Node& node) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.name() == "to") return attribute.i();
    }
    return 0;
  }

  // Numbers of rows that are only looked up need no rounding.
  void TryIndex(Node& node) {
    if (node.input_size() != 1 || node.output_size() != 1) return;
    const int64_t to = ToOf(node);
    if (to != onnx::TensorProto::INT64 && to != onnx::TensorProto::INT32) return;
    for (const Node* reader : readers_[node.output(0)]) {
      const bool looks_up = reader != nullptr && reader->op_type() == "Gather" && reader->input_size() == 2 &&
                            reader->input(1) == node.output(0) && reader->input(0) != node.output(0);
      if (!looks_up) return;
    }
    Become(node, "WholeNumbers", {node.input(0)});
  }

  OnnxFile& file_;
  std::map<std::string, Node*> makers_;
  std::map<std::string, std::vector<Node*>> readers_;
};

}  // namespace

void SimplifyOnnx(OnnxFile& file) {
  JoinDetections(file);
  FoldConstants(file);
  Patterns(file).Apply();
}

}  // namespace moka
