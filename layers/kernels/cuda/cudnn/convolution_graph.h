// A convolution, or one of its gradients, as a graph of cuDNN's operations.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "graph/kernel.h"
#include "layers/kernels/cuda/cudnn/plan.h"
#include "layers/ops/geometry.h"

namespace moka::cudnn {

enum class ConvolutionPass : uint8_t { kForward, kBackwardData, kBackwardWeights };

struct ConvolutionProblem {
  ConvolutionPass pass = ConvolutionPass::kForward;
  TensorType x;
  TensorType w;
  TensorType y;
  Geometry geometry;
  // Forward only: what follows the sum of products.
  bool sum = false;
  bool bias = false;
  bool relu = false;
  bool statistics = false;  // sums of y and of its squares a channel, for which there is none of the other three
  // The gradient of x only: what makes it the gradient g that a batch norm in front of the convolution wants, whose
  // input is as large as x. `sum` adds what reaches x another way, `mask` leaves out what a ReLU stopped, and with g
  // come its sums and those of g * input, a channel each.
  bool mask = false;
  bool gradient_sums = false;

  bool has_epilogue() const { return pass == ConvolutionPass::kForward && (bias || sum || relu); }
  bool has_sums() const { return statistics || gradient_sums; }
  // With gradient_sums: whether the graph is a convolution of dy by the transposed weights [C,K] instead, which is the
  // same where each weight meets each position. Engines of gradients of such windows do not compile with two sums.
  bool TransposesWeights() const;
  // The tensor whose sums are taken: y, or x in a gradient.
  const TensorType& summed() const { return pass == ConvolutionPass::kForward ? y : x; }
};

// Returns the problem of a node of convolution, convolution_statistics or a convolution's gradient, with its types.
ConvolutionProblem ConvolutionOf(const KernelQuery& query);

// Names of tensors in a variant pack. Those of the sums hold a float a channel: of the squares, or of the products with
// a batch norm's input, which is kNormInput. kMask is above 0 where a ReLU let pass.
enum TensorId : int64_t { kX = 1, kW, kY, kBias, kSummand, kSums, kProducts, kMask, kNormInput };

// How a graph says statistics: by cuDNN's operation for them, which its engines of float16 know, or by two reductions,
// which engines that it compiles for the GPU know, in bfloat16 too.
enum class StatisticsForm : uint8_t { kOperation, kReductions };

class ConvolutionGraph {
 public:
  // `fused`: with the epilogue or the sums; else the result is the convolution's alone. Errors: those of Check.
  ConvolutionGraph(const ConvolutionProblem& problem, bool fused, const Target& target,
                   StatisticsForm form = StatisticsForm::kOperation);
  const Descriptor& descriptor() const { return *graph_; }

 private:
  const Descriptor& Add(Descriptor descriptor);
  const Descriptor& Tensor(int64_t id, const TensorType& type);
  const Descriptor& Virtual(const TensorType& like);
  const Descriptor& Window(const ConvolutionProblem& problem);
  void Chain(const ConvolutionProblem& problem, bool fused, StatisticsForm form);
  void GradientOfNorm(const ConvolutionProblem& problem);
  void Operation(const ConvolutionProblem& problem, const Descriptor& x, const Descriptor& y);
  void Statistics(const ConvolutionProblem& problem, const Descriptor& y);
  void Reductions(const TensorType& summed, const Descriptor& one, const Descriptor& other);
  void Reduce(const Descriptor& from, const Descriptor& to);
  void Pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t precision, const Descriptor& x, const Descriptor* b,
                 const Descriptor& y);
  void Masked(const Descriptor& from, const Descriptor& result, const Descriptor& to);
  Descriptor PointwiseOperation(cudnnPointwiseMode_t mode, cudnnDataType_t precision);

  std::deque<Descriptor> parts_;
  std::vector<const Descriptor*> operations_;
  int64_t next_virtual_ = 100;
  std::optional<Descriptor> graph_;
};

}  // namespace moka::cudnn
