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

  bool has_epilogue() const { return bias || sum || relu; }
};

// Returns the problem of a node of convolution, convolution_statistics or a convolution's gradient, with its types.
ConvolutionProblem ConvolutionOf(const KernelQuery& query);

// Names of tensors in a variant pack. Those of the sums hold a float a channel.
enum TensorId : int64_t { kX = 1, kW, kY, kBias, kSummand, kSums, kSquares };

// How a graph says statistics: by cuDNN's operation for them, which its engines of float16 know, or by two reductions,
// which engines that it compiles for the GPU know, in bfloat16 too.
enum class StatisticsForm : uint8_t { kOperation, kReductions };

class ConvolutionGraph {
 public:
  // `fused`: with the epilogue or the statistics; else y is the sum alone. Errors: those of Check.
  ConvolutionGraph(const ConvolutionProblem& problem, bool fused, const Target& target,
                   StatisticsForm form = StatisticsForm::kOperation);
  const Descriptor& descriptor() const { return *graph_; }

 private:
  const Descriptor& Add(Descriptor descriptor);
  const Descriptor& Tensor(int64_t id, const TensorType& type);
  const Descriptor& Virtual(const TensorType& like);
  const Descriptor& Window(const ConvolutionProblem& problem);
  void Operation(const ConvolutionProblem& problem, const Descriptor& y);
  void Statistics(const ConvolutionProblem& problem, const Descriptor& y);
  void Reductions(const ConvolutionProblem& problem, const Descriptor& y);
  void Reduce(const Descriptor& from, const Descriptor& to);
  const Descriptor& Pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t precision, const Descriptor& x,
                              const Descriptor* b, const Descriptor& y);

  std::deque<Descriptor> parts_;
  std::vector<const Descriptor*> operations_;
  int64_t next_virtual_ = 100;
  std::optional<Descriptor> graph_;
};

}  // namespace moka::cudnn
