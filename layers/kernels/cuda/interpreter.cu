// pointwise and reduce_sum by going through the expression's instructions at every element: slow, for any strides and
// without a compiler. It serves machines that lack NVRTC, and GPUs that are rehearsed.
#include <cmath>

#include "core/rng.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/codegen/generate.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/types.cuh"
#include "layers/kernels/group_kernel.h"

namespace moka {
namespace {

constexpr int kMostInputs = 32;
constexpr int kMostOutputs = 16;
constexpr int kMostInstructions = 160;  // each has a value of its own, in a thread's memory

// A stride of 0 repeats the operand along that dimension (broadcasting).
struct ProgramOperand {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t strides[Shape::kMaxRank] = {};
};

// An expression and what it goes through, in the device's memory.
struct ElementProgram {
  int dims = 0;
  int instruction_count = 0;
  int input_count = 0;
  int output_count = 0;
  int64_t extents[Shape::kMaxRank] = {};
  bool is_kept[Shape::kMaxRank] = {};  // not summed
  int64_t index[Shape::kMaxRank] = {};
  ProgramOperand inputs[kMostInputs];
  ProgramOperand outputs[kMostOutputs];
  int32_t results[kMostOutputs] = {};
  Instruction code[kMostInstructions];
};

using Place = int64_t[Shape::kMaxRank];

// Spreads a number over the dimensions that are kept, or over those that are summed.
__host__ __device__ void Spread(const ElementProgram& p, int64_t number, bool kept, Place& place) {
  for (int d = p.dims - 1; d >= 0; --d) {
    if (p.is_kept[d] != kept) continue;
    place[d] = number % p.extents[d];
    number /= p.extents[d];
  }
}

__host__ __device__ int64_t OffsetOf(const ElementProgram& p, const int64_t* strides, const Place& place) {
  int64_t offset = 0;
  for (int d = 0; d < p.dims; ++d) offset += place[d] * strides[d];
  return offset;
}

template <class W>
__host__ __device__ W Read(const ProgramOperand& x, int64_t i) {
  switch (x.dtype) {
    case DType::kFloat32: return static_cast<W>(static_cast<const float*>(x.data)[i]);
    case DType::kFloat64: return static_cast<W>(static_cast<const double*>(x.data)[i]);
    case DType::kFloat16: return static_cast<W>(cuda::ToWide(static_cast<const cuda::Half*>(x.data)[i]));
    case DType::kBFloat16: return static_cast<W>(cuda::ToWide(static_cast<const cuda::BFloat16*>(x.data)[i]));
    case DType::kInt64: return static_cast<W>(static_cast<const int64_t*>(x.data)[i]);
    case DType::kInt32: return static_cast<W>(static_cast<const int32_t*>(x.data)[i]);
    case DType::kUInt8: return static_cast<W>(static_cast<const uint8_t*>(x.data)[i]);
    case DType::kInt8: return static_cast<W>(static_cast<const int8_t*>(x.data)[i]);
  }
  return 0;
}

// Requires: a floating type.
template <class W>
__host__ __device__ void Write(const ProgramOperand& y, int64_t i, W value) {
  switch (y.dtype) {
    case DType::kFloat64: static_cast<double*>(y.data)[i] = static_cast<double>(value); break;
    case DType::kFloat16:
      static_cast<cuda::Half*>(y.data)[i] = cuda::Narrow<cuda::Half>(static_cast<float>(value));
      break;
    case DType::kBFloat16:
      static_cast<cuda::BFloat16*>(y.data)[i] = cuda::Narrow<cuda::BFloat16>(static_cast<float>(value));
      break;
    default: static_cast<float*>(y.data)[i] = static_cast<float>(value);
  }
}

template <class W>
__host__ __device__ W Truth(bool condition) {
  return condition ? W{1} : W{0};
}

// Requires: not an input, a constant or rand.
template <class W>
__host__ __device__ W ApplyOp(ScalarOp op, W a, W b, W c) {
  switch (op) {
    case ScalarOp::kAdd: return a + b;
    case ScalarOp::kSub: return a - b;
    case ScalarOp::kMul: return a * b;
    case ScalarOp::kDiv: return a / b;
    case ScalarOp::kNeg: return -a;
    case ScalarOp::kAbs: return fabs(a);
    case ScalarOp::kExp: return exp(a);
    case ScalarOp::kLog: return log(a);
    case ScalarOp::kSqrt: return sqrt(a);
    case ScalarOp::kTanh: return tanh(a);
    case ScalarOp::kSigmoid: return W{1} / (W{1} + exp(-a));
    case ScalarOp::kSign: return Truth<W>(a > 0) - Truth<W>(a < 0);
    case ScalarOp::kFloor: return floor(a);
    case ScalarOp::kErf: return erf(a);
    case ScalarOp::kMax: return a > b || a != a ? a : b;
    case ScalarOp::kMin: return a < b || a != a ? a : b;
    case ScalarOp::kPow: return pow(a, b);
    case ScalarOp::kLt: return Truth<W>(a < b);
    case ScalarOp::kLe: return Truth<W>(a <= b);
    case ScalarOp::kGt: return Truth<W>(a > b);
    case ScalarOp::kGe: return Truth<W>(a >= b);
    case ScalarOp::kEq: return Truth<W>(a == b);
    case ScalarOp::kSelect: return a != 0 ? b : c;
    default: return 0;
  }
}

// The key of rand: an int64 exactly, other types by their value.
__host__ __device__ inline uint64_t SeedOf(const ProgramOperand& x) {
  if (x.dtype == DType::kInt64) return static_cast<uint64_t>(*static_cast<const int64_t*>(x.data));
  return static_cast<uint64_t>(static_cast<int64_t>(Read<double>(x, 0)));
}

// The values of all instructions at a place.
template <class W>
__host__ __device__ void Evaluate(const ElementProgram& p, const Place& place, W* values) {
  for (int i = 0; i < p.instruction_count; ++i) {
    const Instruction& x = p.code[i];
    if (x.op == ScalarOp::kInput) {
      const ProgramOperand& input = p.inputs[x.input];
      values[i] = Read<W>(input, OffsetOf(p, input.strides, place));
    } else if (x.op == ScalarOp::kConstant) {
      values[i] = static_cast<W>(x.constant);
    } else if (x.op == ScalarOp::kRand) {
      const auto index = static_cast<uint64_t>(OffsetOf(p, p.index, place));
      const uint64_t seed = SeedOf(p.inputs[p.code[x.a].input]);
      values[i] = static_cast<W>(UnitFloat(RandomWord(seed, static_cast<uint64_t>(x.constant), index)));
    } else {
      // Operands stand before their users, so one pass in order is enough.
      values[i] = ApplyOp(x.op, values[x.a], x.b < 0 ? W{0} : values[x.b], x.c < 0 ? W{0} : values[x.c]);
    }
  }
}

// A thread evaluates all instructions at its element; the values of one go to the thread's local memory, which is the
// price of having no compiler.
template <class W>
struct InterpretEach {
  const ElementProgram* program;
  __host__ __device__ void operator()(int64_t i) const {
    Place place = {};
    W values[kMostInstructions];
    Spread(*program, i, true, place);
    Evaluate(*program, place, values);
    for (int o = 0; o < program->output_count; ++o) {
      const ProgramOperand& y = program->outputs[o];
      Write(y, OffsetOf(*program, y.strides, place), values[program->results[o]]);
    }
  }
};

// A row is a kept index, its elements the summed ones: ForEachRow gives the sum its fixed order.
template <class W>
struct InterpretSum {
  const ElementProgram* program;

  using State = W;
  __host__ __device__ State Start() const { return 0; }
  __host__ __device__ void Add(int64_t row, int64_t i, State& sum) const {
    Place place = {};
    W values[kMostInstructions];
    Spread(*program, row, true, place);
    Spread(*program, i, false, place);
    Evaluate(*program, place, values);
    sum += values[program->results[0]];
  }
  __host__ __device__ static void Join(State& sum, const State& other) { sum += other; }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t row, const State& sum) const {
    Place place = {};
    Spread(*program, row, true, place);
    const ProgramOperand& y = program->outputs[0];
    moka::Write(y, OffsetOf(*program, y.strides, place), sum);
  }
};

void SetOperand(const cuda::NestOperand& from, ProgramOperand& to) {
  to.dtype = from.dtype;
  std::copy(from.strides.begin(), from.strides.end(), to.strides);
}

static_assert(std::is_trivially_copyable_v<ElementProgram>);  // it is copied to the device as it lies

// The expression is copied to the GPU once, when the kernel is bound and the operands' addresses are known; a run only
// launches.
class InterpretedKernel final : public BoundKernel {
 public:
  explicit InterpretedKernel(const KernelQuery& query)
      : is_sum_(cuda::IsReduction(query)), is_double_(query.outputs[0].dtype == DType::kFloat64) {
    const auto [expression, nest] = cuda::NestOf(query);
    program_.dims = static_cast<int>(nest.extents.size());
    program_.instruction_count = static_cast<int>(expression.instructions().size());
    program_.input_count = static_cast<int>(nest.inputs.size());
    program_.output_count = static_cast<int>(nest.outputs.size());
    std::ranges::copy(nest.extents, program_.extents);
    std::ranges::copy(nest.index, program_.index);
    std::ranges::copy(expression.results(), program_.results);
    std::ranges::copy(expression.instructions(), program_.code);
    for (size_t i = 0; i < nest.inputs.size(); ++i) SetOperand(nest.inputs[i], program_.inputs[i]);
    for (size_t o = 0; o < nest.outputs.size(); ++o) SetOperand(nest.outputs[o], program_.outputs[o]);
    for (size_t d = 0; d < nest.extents.size(); ++d) {
      // A summed dimension is one along which the result stands still.
      program_.is_kept[d] = !is_sum_ || nest.outputs[0].strides[d] != 0;
      (program_.is_kept[d] ? kept_ : summed_) *= nest.extents[d];
    }
  }

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    for (size_t i = 0; i < args.inputs.size(); ++i) program_.inputs[i].data = args.inputs[i].raw();
    for (size_t o = 0; o < args.outputs.size(); ++o) program_.outputs[o].data = args.outputs[o].raw();
    memory_ = stream().Allocate(sizeof(ElementProgram));
    stream().CopyToDevice(memory_.data(), reinterpret_cast<const std::byte*>(&program_), sizeof(ElementProgram));
    // The copy reads program_, which a later binding may change.
    stream().Synchronize();
  }

  void Run() override { is_double_ ? RunIn<double>() : RunIn<float>(); }

 private:
  template <class W>
  void RunIn() {
    const auto* program = reinterpret_cast<const ElementProgram*>(memory_.data());
    if (is_sum_) {
      cuda::ForEachRow(stream(), kept_, summed_, InterpretSum<W>{program});
    } else {
      cuda::ForEach(stream(), kept_, InterpretEach<W>{program});
    }
  }

  bool is_sum_;
  bool is_double_;
  int64_t kept_ = 1;
  int64_t summed_ = 1;
  ElementProgram program_;
  DeviceBuffer memory_;
};

// The limits are those of the fixed arrays above: a struct without pointers can be copied as it lies.
std::string Refuse(const KernelQuery& query) {
  if (std::string refusal = cuda::RefuseGenerated(query); !refusal.empty()) return refusal;
  if (query.inputs.size() > kMostInputs || query.outputs.size() > kMostOutputs) {
    return StrCat("takes ", kMostInputs, " inputs and ", kMostOutputs, " outputs at most, not ", query.inputs.size(),
                  " and ", query.outputs.size());
  }
  const size_t instructions = cuda::NestOf(query).expression.instructions().size();
  if (instructions <= kMostInstructions) return {};
  return StrCat("takes ", kMostInstructions, " instructions at most, not ", instructions);
}

// turn = 1: NVRTC's row is asked first where both can serve.
KernelDef RowOf(std::string op) {
  return {.name = "interpreter",
          .op = std::move(op),
          .device = DeviceKind::kCuda,
          .refuse = Refuse,
          .propose = cuda::ProposeGenerated,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<InterpretedKernel>(query);
          },
          .turn = 1};
}

}  // namespace

KernelDef InterpretedPointwise() { return RowOf("pointwise"); }
KernelDef InterpretedPointwiseGroup() { return GroupRow<InterpretedPointwise>("pointwise_group"); }
KernelDef InterpretedReduceSum() { return RowOf("reduce_sum"); }
KernelDef InterpretedReduceGroup() { return GroupRow<InterpretedReduceSum>("reduce_group"); }

}  // namespace moka
