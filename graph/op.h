// Ops and the catalogue. An op is a row: its meaning (plain loops in double), types, gradient and test cases stand in
// one file of layers/ops. A catalogue lists ops and kernels explicitly; the kernels of one op fastest first.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/kernel.h"

namespace moka {

// How the precision pass may treat an op.
enum class Precision : uint8_t {
  kPrefer16,  // compute in the half type (matrix products, convolutions)
  kFollow,    // take the type of the inputs
  kKeep32,    // losses, norms, statistics, updates
};

// How an op whose results have the images on axis 0 works on parts of a batch (graph/passes/batch_parts.h).
enum class ByImage : uint8_t {
  kNever,          // an image's results need other images, or the op moves whole images
  kOfImages,       // every operand has the images on axis 0
  kWithWeights,    // fixed operands go into each part as they are
  kWithBroadcast,  // those fixed operands do that have one value for all images
};

struct AttributeSpec {
  std::string name;
  std::optional<AttributeValue> fallback;  // none: must be given
  std::string doc;
};

// A tensor of the reference: row-major values in double, whatever the dtype (integers are exact below 2^53).
struct RefTensor {
  TensorType type;
  std::vector<double> values;
};

// The view that a gradient rule has: dy of each output (kNoId where nothing flowed), which inputs want a gradient, and
// a builder whose origin is the forward node's with pass "autodiff".
class GradientContext {
 public:
  GradientContext(const GraphBuilder& builder, const Node& node, std::span<const ValueId> dy, std::vector<bool> wanted)
      : b_(builder), node_(node), dy_(dy), wanted_(std::move(wanted)), dx_(node.inputs.size(), kNoId) {}

  const GraphBuilder& b() const { return b_; }
  const Attributes& attributes() const { return node_.attributes; }
  ValueId x(int i) const { return node_.inputs[static_cast<size_t>(i)]; }
  ValueId y(int i) const { return node_.outputs[static_cast<size_t>(i)]; }
  // kNoId when no gradient reaches output i.
  ValueId dy(int i) const { return dy_[static_cast<size_t>(i)]; }
  int input_count() const { return static_cast<int>(node_.inputs.size()); }
  bool wants(int i) const { return wanted_[static_cast<size_t>(i)]; }
  // Sets dLoss/dx(i), of x(i)'s shape. Leaving it unset means zero.
  void SetDx(int i, ValueId dx) { dx_[static_cast<size_t>(i)] = dx; }
  const std::vector<ValueId>& dx() const { return dx_; }

 private:
  const GraphBuilder& b_;
  // A copy: adding nodes moves the graph's storage.
  Node node_;
  std::span<const ValueId> dy_;
  std::vector<bool> wanted_;
  std::vector<ValueId> dx_;
};

// One test case: the catalogue test makes inputs of these types with values in [low, high] (integers inclusive),
// runs reference, kernels and gradient on them.
struct OpCase {
  std::string name;
  std::vector<TensorType> inputs;
  Attributes attributes;
  double low = -1;
  double high = 1;
  // Overrides for single inputs: {index, low, high}; whole bounds make whole values (labels, indices, ties).
  struct Range {
    int input;
    double low;
    double high;
  };
  std::vector<Range> ranges = {};
  // Smallest distance between any two values of an input (keeps ties and kinks away from differences); 0: none.
  double min_gap = 0;
  // Relative tolerance of float32 kernels against the reference, of the largest output magnitude.
  double tolerance = 1e-5;
};

struct OpDef {
  std::string name;
  std::string doc;
  std::vector<AttributeSpec> attributes;
  // Output types (plain layout) from input types. Errors: kConfig with the shapes and the rule that failed.
  std::vector<TensorType> (*infer)(const Attributes&, std::span<const TensorType> inputs) = nullptr;
  // The meaning. outputs come typed and sized.
  void (*reference)(const Attributes&, std::span<const RefTensor> inputs, std::span<RefTensor> outputs) = nullptr;
  // Null: not differentiable (its inputs get no gradient).
  void (*gradient)(GradientContext&) = nullptr;
  // Whether output may be written over input (same elements, read before written).
  bool (*may_overwrite)(const Attributes&, int input, int output) = nullptr;
  // Whether output shares input 0's memory as it is (reshape of a plain tensor); no kernel runs then, unless the op has
  // kernels, which only wait for what comes to lie there.
  bool is_alias = false;
  // Whether equal inputs give equal outputs within a run (false for nothing today but collectives; random ops are
  // keyed).
  bool is_pure = true;
  // How parts of a batch are computed, whose results have this rank; null: never.
  ByImage (*by_image)(const Attributes&, int rank) = nullptr;
  // Whether the one result is the one input as it is, given that both have one shape and dtype; null: never.
  bool (*repeats)(const Attributes&) = nullptr;
  Precision precision = Precision::kFollow;
  // Why GPUs have no kernel for it: "it sorts and suppresses one box after another"; then programs of GPUs have the CPU
  // do it, and say why. Empty: some device's kernels take it.
  std::string on_host = {};
  // Returns whether a floating input may be of a half type where the op takes one (statistics and parameters of
  // normalisations stay float32); null: all.
  bool (*takes_half)(const Attributes&, int input) = nullptr;
  // Floating-point operations of one run; null: one per output element.
  int64_t (*flops)(const Attributes&, std::span<const TensorType> inputs,
                   std::span<const TensorType> outputs) = nullptr;
  std::vector<OpCase> (*cases)() = nullptr;
};

class Catalog {
 public:
  // Errors: kInternal if two ops share a name or a kernel names no op.
  Catalog(std::vector<OpDef> ops, std::vector<KernelDef> kernels);

  // Null if there is none.
  const OpDef* FindOp(std::string_view name) const;
  const OpDef& Op(std::string_view name) const;
  const std::vector<OpDef>& ops() const { return ops_; }
  // Kernels of an op on a device, fastest first; the reference kernel is not listed (it is always there on the CPU).
  std::vector<const KernelDef*> KernelsOf(std::string_view op, DeviceKind device) const;

 private:
  std::vector<OpDef> ops_;  // sorted by name
  std::vector<KernelDef> kernels_;
};

}  // namespace moka
