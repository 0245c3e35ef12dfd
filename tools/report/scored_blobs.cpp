// Layers are known by their traits; the layer that wrote scores tells whether they are probabilities.
#include "tools/report/scored_blobs.h"

#include <algorithm>

#include "data/pipeline/open_pipeline.h"
#include "layers/net/layer.h"
#include "optim/evaluators/evaluator.h"
#include "tools/nets/deploy_net.h"

namespace moka {
namespace {

// Whether the last layer that writes the blob makes probabilities: it is of a type that stands in a loss's place in
// nets for deployment.
bool AreProbabilities(const NetParameter& net, const std::string& blob) {
  std::string type;
  for (const LayerParameter& layer : net.layer()) {
    if (std::ranges::find(layer.top(), blob) != layer.top().end()) type = layer.type();
  }
  return std::ranges::any_of(AllLayers(), [&](const LayerDef& def) {
    return def.traits.scores_type != nullptr && type == def.traits.scores_type;
  });
}

// The bottoms of an evaluator that compares scores and labels; a detector's compares boxes.
std::optional<ScoredBlobs> OfEvaluator(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    if (!HasEvaluator(layer.type()) || TraitsOf(layer).gives_detections || layer.bottom_size() != 2) continue;
    ScoredBlobs blobs{.scores = layer.bottom(0), .labels = layer.bottom(1)};
    const auto& ignored = layer.segmentation_evaluate_param().ignore_label();
    blobs.ignored.insert(ignored.begin(), ignored.end());
    return blobs;
  }
  return std::nullopt;
}

std::optional<ScoredBlobs> OfLoss(const NetParameter& net) {
  const std::optional<DeployedScores> scores = DeployedScoresOf(net);
  if (!scores || scores->is_regression) return std::nullopt;
  const auto loss = std::ranges::find(net.layer(), scores->loss, &LayerParameter::name);
  if (loss == net.layer().end() || loss->bottom_size() < 2) return std::nullopt;
  // A softmax, unlike a sigmoid, reads a class's score beside the others'.
  const LayerTraits& traits = TraitsOf(*loss);
  if (traits.scores_type == nullptr || !traits.reads_scores || loss->softmax_param().axis() != 1) return std::nullopt;
  ScoredBlobs blobs{.scores = loss->bottom(0), .labels = loss->bottom(1), .kind = ScoreKind::kLogits};
  if (loss->loss_param().has_ignore_label()) blobs.ignored = {loss->loss_param().ignore_label()};
  return blobs;
}

std::optional<ScoredBlobs> OfAccuracy(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    const AccuracyParameter& p = layer.accuracy_param();
    if (!TraitsOf(layer).is_accuracy || layer.bottom_size() < 2 || p.axis() != 1 || p.min_is_better()) continue;
    ScoredBlobs blobs{.scores = layer.bottom(0), .labels = layer.bottom(1)};
    if (AreProbabilities(net, blobs.scores)) blobs.kind = ScoreKind::kProbabilities;
    if (p.has_ignore_label()) blobs.ignored = {p.ignore_label()};
    return blobs;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ScoredBlobs> ScoredBlobsOf(const NetParameter& net) {
  for (const auto find : {OfEvaluator, OfLoss, OfAccuracy}) {
    if (std::optional<ScoredBlobs> blobs = find(net)) return blobs;
  }
  return std::nullopt;
}

const LayerParameter* DataLayerOf(const NetParameter& net) {
  const auto reads = [](const LayerParameter& layer) { return IsPipelineLayer(layer.type()) && layer.top_size() > 0; };
  const auto found = std::ranges::find_if(net.layer(), reads);
  return found == net.layer().end() ? nullptr : &*found;
}

}  // namespace moka
