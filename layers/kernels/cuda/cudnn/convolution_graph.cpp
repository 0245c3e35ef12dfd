// Builds cuDNN's operation graph with the backend API: the convolution and, fused, the pointwise operations that follow
// it. Ids of tensors are fixed, so that a plan kept on disk fits a graph made later.
#include "layers/kernels/cuda/cudnn/convolution_graph.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "layers/kernels/bound_kernel.h"

namespace moka::cudnn {
namespace {

cudnnDataType_t DataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return CUDNN_DATA_FLOAT;
    case DType::kFloat64: return CUDNN_DATA_DOUBLE;
    case DType::kFloat16: return CUDNN_DATA_HALF;
    case DType::kBFloat16: return CUDNN_DATA_BFLOAT16;
    default: break;
  }
  throw Error(ErrorKind::kInternal, StrCat("cuDNN: no floating type ", NameOf(dtype)));
}

// Sums are of this type.
cudnnDataType_t WideType(DType dtype) { return dtype == DType::kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT; }

// Dimensions and strides in elements; cuDNN's convolutions have two spatial axes at least.
struct Extents {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
};

// cuDNN knows a layout by its strides alone: plain and channels last differ in nothing else.
Extents ExtentsOf(const TensorType& type) {
  const int rank = type.shape.rank();
  Extents e{std::vector<int64_t>(type.shape.dims().begin(), type.shape.dims().end()),
            std::vector<int64_t>(static_cast<size_t>(rank))};
  int64_t step = 1;
  for (int place = rank - 1; place >= 0; --place) {
    const int axis = type.layout.is_plain() ? place : int{type.layout.order[static_cast<size_t>(place)]};
    e.strides[static_cast<size_t>(axis)] = step;
    step *= type.shape[axis];
  }
  if (rank == 3) {  // [N,C,L] as [N,C,1,L]
    e.dims.insert(e.dims.begin() + 2, 1);
    e.strides.insert(e.strides.begin() + 2, e.strides[2] * type.shape[2]);
  }
  return e;
}

Descriptor TensorDescriptor(int64_t id, const Extents& extents, cudnnDataType_t dtype, bool is_virtual) {
  constexpr int64_t kAlignment = 16;  // of arenas it is 64
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.SetRaw(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &dtype);
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, extents.dims);
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, extents.strides);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  tensor.SetRaw(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  tensor.Finalize();
  return tensor;
}

struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, window, alpha, beta;
};

// The three passes are one operation under different names: x, w and y keep their roles, and only which of them is
// written differs.
OperationNames NamesOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward: break;
    case ConvolutionPass::kBackwardData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionPass::kBackwardWeights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

// A value a channel of images that lie as `type`.
TensorType PerChannel(const TensorType& type, DType dtype) {
  Shape channels = type.shape;
  for (int axis = 0; axis < channels.rank(); ++axis) channels = channels.With(axis, axis == 1 ? channels[1] : 1);
  return {dtype, channels, type.layout};
}

// The forward problem with dy as its input and the transposed weights, packed.
ConvolutionProblem WithWeightsTransposed(const ConvolutionProblem& problem) {
  ConvolutionProblem transposed = problem;
  transposed.pass = ConvolutionPass::kForward;
  const Shape& w = problem.w.shape;
  transposed.w.shape = w.With(0, w[1]).With(1, w[0]);
  transposed.w.layout = ChannelsLast(w.rank());
  return transposed;
}

}  // namespace

// x, w and y are the forward convolution's tensors in each pass, whichever of them is the result.
ConvolutionProblem ConvolutionOf(const KernelQuery& query) {
  const Attributes& attributes = query.node.attributes;
  const std::string& op = query.node.op->name;
  ConvolutionProblem p;
  if (op == "convolution_backward_data") {
    p = {ConvolutionPass::kBackwardData, query.outputs[0], query.inputs[1], query.inputs[0], {}};
  } else if (op == "convolution_backward_data_sums") {
    p = {ConvolutionPass::kBackwardData, query.outputs[0], query.inputs[1], query.inputs[0], {}};
    p.gradient_sums = true;
    p.sum = attributes.Bool("sum");
    p.mask = attributes.Bool("mask");
  } else if (op == "convolution_backward_weights") {
    p = {ConvolutionPass::kBackwardWeights, query.inputs[0], query.outputs[0], query.inputs[1], {}};
  } else {
    p = {ConvolutionPass::kForward, query.inputs[0], query.inputs[1], query.outputs[0], {}};
    p.statistics = op == "convolution_statistics";
  }
  if (op == "convolution") {
    p.sum = attributes.Bool("sum");
    p.relu = attributes.String("activation") == "relu";
    p.bias = query.inputs.size() == (p.sum ? 4U : 3U);
  }
  p.geometry = ConvolutionGeometry(op, attributes, p.w.shape);
  return p;
}

bool ConvolutionProblem::TransposesWeights() const {
  const auto all = [](const Ints& values, int64_t value) {
    return std::ranges::all_of(values, [&](int64_t v) { return v == value; });
  };
  return gradient_sums && all(geometry.kernel, 1) && all(geometry.stride, 1) && all(geometry.pad_begin, 0) &&
         all(geometry.pad_end, 0) && w.shape[0] == y.shape[1] && w.shape[1] == x.shape[1];
}

ConvolutionGraph::ConvolutionGraph(const ConvolutionProblem& problem, bool fused, const Target& target,
                                   StatisticsForm form) {
  if (fused && problem.gradient_sums) {
    GradientOfNorm(problem);
  } else {
    Chain(problem, fused, form);
  }
  graph_.emplace(MakeGraph(operations_, target));
}

// Convolution, summand, bias, ReLU, then statistics. Tensors between the steps are virtual: they are of the wide type
// and need no memory of the program's.
void ConvolutionGraph::Chain(const ConvolutionProblem& problem, bool fused, StatisticsForm form) {
  const Descriptor& y = Tensor(kY, problem.y);
  std::vector<cudnnPointwiseMode_t> steps;
  // The summand before the bias: its engines know no other order.
  if (fused && problem.sum) steps.push_back(CUDNN_POINTWISE_ADD);
  if (fused && problem.bias) steps.push_back(CUDNN_POINTWISE_ADD);
  if (fused && problem.relu) steps.push_back(CUDNN_POINTWISE_RELU_FWD);
  const Descriptor* from = steps.empty() ? &y : &Virtual(problem.y);
  Operation(problem, Tensor(kX, problem.x), *from);
  for (size_t i = 0; i < steps.size(); ++i) {
    const Descriptor* operand = nullptr;
    if (steps[i] == CUDNN_POINTWISE_ADD) {
      const bool is_bias = i > 0 || !problem.sum;
      operand = is_bias ? &Tensor(kBias, PerChannel(problem.y, problem.y.dtype)) : &Tensor(kSummand, problem.y);
    }
    const Descriptor& to = i + 1 == steps.size() ? y : Virtual(problem.y);
    Pointwise(steps[i], WideType(problem.y.dtype), *from, operand, to);
    from = &to;
  }
  if (fused && problem.statistics && form == StatisticsForm::kOperation) Statistics(problem, y);
  if (fused && problem.statistics && form == StatisticsForm::kReductions) Reductions(problem.y, y, y);
}

// The gradient of x, summand, mask, then the sums of what is left and of its products with the batch norm's input.
void ConvolutionGraph::GradientOfNorm(const ConvolutionProblem& problem) {
  const Descriptor& g = Tensor(kX, problem.x);
  const Descriptor* from = problem.sum || problem.mask ? &Virtual(problem.x) : &g;
  if (problem.TransposesWeights()) {
    Operation(WithWeightsTransposed(problem), Tensor(kY, problem.y), *from);
  } else {
    Operation(problem, *from, Tensor(kY, problem.y));
  }
  if (problem.sum) {
    const Descriptor& to = problem.mask ? Virtual(problem.x) : g;
    Pointwise(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, *from, &Tensor(kSummand, problem.x), to);
    from = &to;
  }
  if (problem.mask) Masked(*from, Tensor(kMask, problem.x), g);
  Reductions(problem.x, g, Tensor(kNormInput, problem.x));
}

// A deque, as operations point to the descriptors that were made before them.
const Descriptor& ConvolutionGraph::Add(Descriptor descriptor) { return parts_.emplace_back(std::move(descriptor)); }

const Descriptor& ConvolutionGraph::Tensor(int64_t id, const TensorType& type) {
  return Add(TensorDescriptor(id, ExtentsOf(type), DataType(type.dtype), false));
}

const Descriptor& ConvolutionGraph::Virtual(const TensorType& like) {
  return Add(TensorDescriptor(next_virtual_++, ExtentsOf(like), WideType(like.dtype), true));
}

// A window of one spatial axis gets a second one with stride and dilation 1 and no padding.
const Descriptor& ConvolutionGraph::Window(const ConvolutionProblem& problem) {
  const auto spatial = [&](Ints values, int64_t filler) {
    if (values.size() == 1) values.insert(values.begin(), filler);
    return std::vector<int64_t>(values.begin(), values.end());
  };
  const Geometry& g = problem.geometry;
  const cudnnDataType_t sums = WideType(problem.y.dtype);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  Descriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  window.SetRaw(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
  window.SetRaw(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  window.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::max<int64_t>(2, g.rank()));
  window.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spatial(g.stride, 1));
  window.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, spatial(g.dilation, 1));
  window.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spatial(g.pad_begin, 0));
  window.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, spatial(g.pad_end, 0));
  window.Finalize();
  return Add(std::move(window));
}

void ConvolutionGraph::Operation(const ConvolutionProblem& problem, const Descriptor& x, const Descriptor& y) {
  const OperationNames names = NamesOf(problem.pass);
  const double one = 1;
  const double zero = 0;
  const float one_float = 1;
  const float zero_float = 0;
  const bool is_double = problem.y.dtype == DType::kFloat64;
  const cudnnBackendAttributeType_t scalar = is_double ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  Descriptor operation(names.type);
  operation.Set(names.x, x);
  operation.Set(names.w, Tensor(kW, problem.w));
  operation.Set(names.y, y);
  operation.Set(names.window, Window(problem));
  operation.SetRaw(names.alpha, scalar, 1, is_double ? static_cast<const void*>(&one) : &one_float);
  operation.SetRaw(names.beta, scalar, 1, is_double ? static_cast<const void*>(&zero) : &zero_float);
  operation.Finalize();
  operations_.push_back(&Add(std::move(operation)));
}

// Sums and sums of squares, in float32 also for half types; only their use says what mean and variance are.
void ConvolutionGraph::Statistics(const ConvolutionProblem& problem, const Descriptor& y) {
  const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
  const TensorType sums = PerChannel(problem.y, DType::kFloat32);
  Descriptor operation(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
  operation.SetRaw(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
  operation.SetRaw(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  operation.Set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y);
  operation.Set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, Tensor(kSums, sums));
  operation.Set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, Tensor(kProducts, sums));
  operation.Finalize();
  operations_.push_back(&Add(std::move(operation)));
}

void ConvolutionGraph::Reductions(const TensorType& summed, const Descriptor& one, const Descriptor& other) {
  const TensorType sums = PerChannel(summed, DType::kFloat32);
  Reduce(one, Tensor(kSums, sums));
  const Descriptor& products = Virtual(summed);
  Pointwise(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, one, &other, products);
  Reduce(products, Tensor(kProducts, sums));
}

void ConvolutionGraph::Reduce(const Descriptor& from, const Descriptor& to) {
  const cudnnReduceTensorOp_t sum = CUDNN_REDUCE_TENSOR_ADD;
  const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  Descriptor function(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  function.SetRaw(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &sum);
  function.SetRaw(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  function.Finalize();
  const Descriptor& kept = Add(std::move(function));
  Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, from);
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, to);
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kept);
  operation.Finalize();
  operations_.push_back(&Add(std::move(operation)));
}

void ConvolutionGraph::Pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t precision, const Descriptor& x,
                                 const Descriptor* b, const Descriptor& y) {
  Descriptor operation = PointwiseOperation(mode, precision);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  operation.Finalize();
  operations_.push_back(&Add(std::move(operation)));
}

// A ReLU's gradient by its result, which is above 0 where its input was.
void ConvolutionGraph::Masked(const Descriptor& from, const Descriptor& result, const Descriptor& to) {
  Descriptor operation = PointwiseOperation(CUDNN_POINTWISE_RELU_BWD, CUDNN_DATA_FLOAT);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, result);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, from);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, to);
  operation.Finalize();
  operations_.push_back(&Add(std::move(operation)));
}

Descriptor ConvolutionGraph::PointwiseOperation(cudnnPointwiseMode_t mode, cudnnDataType_t precision) {
  Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.SetRaw(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  function.SetRaw(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  function.Finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, Add(std::move(function)));
  return operation;
}

}  // namespace moka::cudnn
