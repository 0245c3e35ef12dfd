// Chooses the stages of a node's kernels (one for pointwise, one or two for a sum) and orders the arguments that their
// texts name.
#include "layers/kernels/cuda/codegen/generate.h"

#include <algorithm>

#include "core/text.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "layers/kernels/cuda/codegen/pointwise_text.h"
#include "layers/kernels/cuda/codegen/reduce_text.h"
#include "layers/kernels/expression_kernel.h"

namespace moka::cuda {
namespace {

using Kind = ArgumentSource::Kind;

Expression ExpressionOf(const KernelQuery& query) {
  if (query.node.op->name == "reduce_sum") return Expression::Parse(query.node.attributes.String("expr"));
  return Expression::Parse(query.node.attributes.Get<Strings>("exprs"));
}

// A sum goes over the shape that its inputs spread to, a pointwise node over that of its result.
Shape ShapeOf(const KernelQuery& query) {
  return IsReduction(query) ? CommonShape(query.inputs) : query.outputs[0].shape;
}

Layout LayoutOf(const KernelQuery& query, const Shape& shape) {
  return IsReduction(query) ? CommonLayout(query.inputs, shape) : query.outputs[0].layout;
}

std::vector<ArgumentSource> InputsOf(const KernelQuery& query) {
  std::vector<ArgumentSource> arguments;
  for (size_t i = 0; i < query.inputs.size(); ++i) arguments.push_back({Kind::kInput, static_cast<int64_t>(i)});
  return arguments;
}

Generated GeneratePointwise(const std::string& name, const Expression& expression, const Nest& nest,
                            const KernelQuery& query, Alignment alignment) {
  const int width = alignment == Alignment::kVectors ? VectorWidth(nest) : 1;
  GeneratedStage stage{PointwiseText(name, expression, nest, width), PointwiseBlocks(nest, width), InputsOf(query)};
  for (size_t o = 0; o < query.outputs.size(); ++o) stage.arguments.push_back({Kind::kOutput, static_cast<int64_t>(o)});
  stage.arguments.push_back({Kind::kNumber, nest.Count()});
  return {{std::move(stage)}, 0};
}

// Two stages meet in scratch: the first leaves a partial sum for each chunk, the second adds them.
Generated GenerateReduction(const std::string& name, const Expression& expression, const Nest& nest,
                            const KernelQuery& query, Alignment alignment) {
  ReducePlan plan = PlanReduceSum(name, expression, nest, alignment == Alignment::kVectors);
  Generated generated;
  generated.scratch_bytes = plan.partial_count * (query.outputs[0].dtype == DType::kFloat64 ? 8 : 4);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const bool is_first = s == 0;
    const bool is_last = s + 1 == plan.stages.size();
    GeneratedStage stage{std::move(plan.stages[s].kernel), plan.stages[s].blocks, {}};
    stage.arguments = is_first ? InputsOf(query) : std::vector<ArgumentSource>{{Kind::kScratch, 0}};
    stage.arguments.push_back(is_last ? ArgumentSource{Kind::kOutput, 0} : ArgumentSource{Kind::kScratch, 0});
    generated.stages.push_back(std::move(stage));
  }
  return generated;
}

}  // namespace

bool IsReduction(const KernelQuery& query) {
  return query.node.op->name == "reduce_sum" || query.node.op->name == "reduce_group";
}

NodeNest NestOf(const KernelQuery& query) {
  Expression expression = ExpressionOf(query);
  const Shape shape = ShapeOf(query);
  Nest nest = MakeNest(expression, shape, LayoutOf(query, shape), query.inputs, query.outputs);
  return {std::move(expression), std::move(nest)};
}

Generated Generate(const std::string& name, const KernelQuery& query, Alignment alignment) {
  const auto [expression, nest] = NestOf(query);
  if (nest.Count() == 0) return {};
  return IsReduction(query) ? GenerateReduction(name, expression, nest, query, alignment)
                            : GeneratePointwise(name, expression, nest, query, alignment);
}

std::string RefuseGenerated(const KernelQuery& query) {
  if (query.outputs.empty()) return "there are no outputs";
  for (const TensorType& output : query.outputs) {
    if (!IsFloat(output.dtype)) return StrCat("writes floating types, not ", NameOf(output.dtype));
  }
  return RefuseNest(ShapeOf(query), query.inputs, query.outputs);
}

std::optional<LayoutProposal> ProposeGenerated(const KernelQuery& query) {
  if (query.outputs.empty()) return std::nullopt;
  const Shape shape = ShapeOf(query);
  const Layout layout = CommonLayout(query.inputs, shape);
  return LayoutProposal{OperandLayouts(query.inputs, shape, layout),
                        std::vector<Layout>(query.outputs.size(), IsReduction(query) ? Layout{} : layout)};
}

// Every argument is a word of 8 bytes, so that the words are the text's struct Arguments as it lies.
std::vector<uint64_t> ArgumentWords(const GeneratedStage& stage, std::span<const Tensor> inputs,
                                    std::span<const Tensor> outputs, std::byte* scratch) {
  std::vector<uint64_t> words;
  for (const ArgumentSource& argument : stage.arguments) {
    const auto n = static_cast<size_t>(argument.number);
    switch (argument.kind) {
      case Kind::kInput: words.push_back(reinterpret_cast<uintptr_t>(inputs[n].raw())); break;
      case Kind::kOutput: words.push_back(reinterpret_cast<uintptr_t>(outputs[n].raw())); break;
      case Kind::kScratch: words.push_back(reinterpret_cast<uintptr_t>(scratch)); break;
      case Kind::kNumber: words.push_back(static_cast<uint64_t>(argument.number)); break;
    }
  }
  return words;
}

}  // namespace moka::cuda
