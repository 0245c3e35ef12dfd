// Sums of squares are square_sum nodes, which read nothing while they are switched off. What a mean is of (ranks,
// batches, the loss scale) is divided out on the host, in double.
#include "optim/step/gradient_norms.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "layers/net/catalog.h"
#include "layers/ops/maths/square_sum.h"
#include "optim/optimizers/gradient_sums.h"
#include "optim/strategies/strategy.h"
#include "proto/text/places.h"

namespace moka {
namespace {

const char* const kOrigin = "(gradient noise)";

// The program of one rank: the squares of the "@sum" states.
std::unique_ptr<Program> CompileSquares(const TrainingGraph& step, ParameterStore& store, CompileOptions options) {
  Graph graph(StandardCatalog());
  std::vector<ValueId> sums;
  for (const NetBlob& blob : step.reached) {
    sums.push_back(graph.AddState(SlotName(blob.name, kSumSlot), {DType::kFloat32, blob.shape, {}}));
  }
  const ValueId is_on = GraphBuilder(graph, NodeOrigin{kOrigin, {}, "measure"}).Full(Shape{}, 1);
  graph.AddOutput(std::string(kSumSquaresOutput), SquaresOf(graph, sums, is_on, false));
  options.name = "norms";
  return Compile(std::move(graph), store, options);
}

bool AreFinite(const GradientNorms& norms) { return std::isfinite(norms.of_part) && std::isfinite(norms.of_all); }

}  // namespace

void CheckNoiseScale(const SolverParameter& solver, int64_t ranks, bool is_pipeline) {
  if (!MeasuresNorms(solver)) return;
  const SourcePlace place = PlaceOf(solver, "noise_scale_interval");
  const auto refuse = [&](bool is_given, const std::string& what) {
    if (!is_given) return;
    throw Error(ErrorKind::kUnavailable, place, StrCat("noise_scale_interval does not work with ", what, " yet"),
                "leave one of them out");
  };
  const DistributedParameter& distributed = solver.distributed();
  refuse(is_pipeline, "pipeline_stage");
  if (ranks > 1) {
    refuse(StrategyOf(solver) != StrategyKind::kSynchronous, StrCat("strategy \"", distributed.strategy(), "\""));
    refuse(distributed.shard_updates(), "shard_updates");
    refuse(distributed.compression().method() != "none", "compression of gradients");
  }
  if (ranks > 1 || solver.iter_size() > 1) return;
  throw Error(ErrorKind::kConfig, place,
              "noise_scale_interval compares the gradients of ranks, or of iter_size's batches, and an update of this "
              "training is of one rank and one batch",
              "train with several ranks or an iter_size above 1, or leave it out");
}

ValueId SquaresOf(Graph& graph, std::span<const ValueId> gradients, ValueId is_on, bool is_apart) {
  std::vector<ValueId> found;
  std::ranges::copy_if(gradients, std::back_inserter(found), [](ValueId gradient) { return gradient != kNoId; });
  const GraphBuilder b(graph, NodeOrigin{kOrigin, {}, "measure"});
  if (found.empty()) return b.Full(Shape{}, 0);
  const size_t most = is_apart ? 1 : kMostSquared;
  std::vector<ValueId> squares;
  for (size_t begin = 0; begin < found.size(); begin += most) {
    const size_t end = std::min(begin + most, found.size());
    std::vector<ValueId> inputs = {is_on};
    inputs.insert(inputs.end(), found.begin() + static_cast<std::ptrdiff_t>(begin),
                  found.begin() + static_cast<std::ptrdiff_t>(end));
    NodeOrigin origin{kOrigin, {}, "measure"};
    // A node runs in the order of sequences as soon as it can: before what follows the producer.
    const NodeId producer = graph.value(inputs.back()).producer;
    if (is_apart && producer != kNoId) origin.sequence = graph.node(producer).origin.sequence;
    squares.push_back(GraphBuilder(graph, origin).Add1("square_sum", std::move(inputs)));
  }
  return SumOfScalars(b, std::move(squares));
}

NormReadout::NormReadout(const TrainingGraph& step, const StepProgram& made, ParameterStore& store,
                         const CompileOptions& options)
    : solver_(&step.spec.solver), store_(&store), scaling_(step.spec.scaling) {
  if (step.spec.ranks.exchange == nullptr) {
    squares_ = CompileSquares(step, store, options);
    return;
  }
  ranks_ = step.spec.ranks.world->size();
  measures_ = made.updating().input(kMeasuresInput);
  own_ = made.updating().output(kOwnSquaresOutput);
  sum_ = made.updating().output(kSumSquaresOutput);
}

void NormReadout::Begin(int64_t iteration) {
  if (solver_ == nullptr) return;
  norms_.reset();
  is_on_ = iteration % solver_->noise_scale_interval() == 0;
  if (measures_.raw() != nullptr) measures_.as<float>()[0] = is_on_ ? 1.0F : 0.0F;
  if (!is_on_) return;
  auto scale = static_cast<float>(scaling_.scale);
  // The update changes it.
  if (scaling_.is_dynamic) store_->Get(kLossScaleState, {&scale, 1});
  loss_scale_ = double{scale};
}

void NormReadout::TakeBatch(int done) {
  if (!is_on_ || !squares_ || (done != 1 && done != solver_->iter_size())) return;
  squares_->Run();
  (done == 1 ? first_ : last_) = double{squares_->output(kSumSquaresOutput).as<const float>()[0]};
}

void NormReadout::Finish(int64_t batch, double loss) {
  if (!is_on_ || !std::isfinite(loss)) return;
  GradientNorms norms = squares_ ? OfBatches() : OfRanks();
  const int64_t batches = solver_->iter_size();
  const int64_t samples = std::max<int64_t>(batch, 1);  // a net without data layers has its samples from elsewhere
  norms.part_samples = squares_ ? samples : samples * batches;
  norms.all_samples = samples * batches * ranks_;
  norms.of_part /= loss_scale_ * loss_scale_;
  norms.of_all /= loss_scale_ * loss_scale_;
  if (AreFinite(norms)) norms_ = norms;
}

// A rank's gradients are sums over its batches.
GradientNorms NormReadout::OfRanks() const {
  const double batches = solver_->iter_size();
  const auto ranks = static_cast<double>(ranks_);
  const double own = double{own_.as<const float>()[0]};
  const double sum = double{sum_.as<const float>()[0]};
  return {.of_part = own / (ranks * batches * batches), .of_all = sum / (ranks * ranks * batches * batches)};
}

GradientNorms NormReadout::OfBatches() const {
  const double batches = solver_->iter_size();
  return {.of_part = first_, .of_all = last_ / (batches * batches)};
}

}  // namespace moka
