// Layers are known by their traits; whether scores are probabilities is told by the layer that wrote them.
#include "tools/report/scored_blobs.h"

#include <algorithm>

#include "data/pipeline/open_pipeline.h"
#include "layers/net/layer.h"
#include "tools/nets/deploy_net.h"

namespace moka {
namespace {

// Whether the last layer that writes the blob is a softmax.
bool IsOfSoftmax(const NetParameter& net, const std::string& blob) {
  bool is_softmax = false;
  for (const LayerParameter& layer : net.layer()) {
    if (std::ranges::find(layer.top(), blob) != layer.top().end()) is_softmax = layer.type() == "Softmax";
  }
  return is_softmax;
}

std::optional<ScoredBlobs> OfLoss(const NetParameter& net) {
  const std::optional<DeployedScores> scores = DeployedScoresOf(net);
  if (!scores || scores->is_regression) return std::nullopt;
  const auto loss = std::ranges::find(net.layer(), scores->loss, &LayerParameter::name);
  const char* type = loss == net.layer().end() ? nullptr : TraitsOf(*loss).scores_type;
  if (type == nullptr || std::string_view(type) != "Softmax" || loss->bottom_size() < 2) return std::nullopt;
  if (loss->softmax_param().axis() != 1) return std::nullopt;
  ScoredBlobs blobs{.scores = loss->bottom(0), .labels = loss->bottom(1), .kind = ScoreKind::kLogits};
  if (loss->loss_param().has_ignore_label()) blobs.ignored = {loss->loss_param().ignore_label()};
  return blobs;
}

std::optional<ScoredBlobs> OfAccuracy(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    const AccuracyParameter& p = layer.accuracy_param();
    if (!TraitsOf(layer).is_accuracy || layer.bottom_size() < 2 || p.axis() != 1 || p.min_is_better()) continue;
    ScoredBlobs blobs{.scores = layer.bottom(0), .labels = layer.bottom(1)};
    if (IsOfSoftmax(net, blobs.scores)) blobs.kind = ScoreKind::kProbabilities;
    if (p.has_ignore_label()) blobs.ignored = {p.ignore_label()};
    return blobs;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ScoredBlobs> ScoredBlobsOf(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() != "SegmentationEvaluate" || layer.bottom_size() < 2) continue;
    const auto& ignored = layer.segmentation_evaluate_param().ignore_label();
    return ScoredBlobs{
        .scores = layer.bottom(0), .labels = layer.bottom(1), .ignored = {ignored.begin(), ignored.end()}};
  }
  const std::optional<ScoredBlobs> blobs = OfLoss(net);
  return blobs ? blobs : OfAccuracy(net);
}

const LayerParameter* DataLayerOf(const NetParameter& net) {
  const auto reads = [](const LayerParameter& layer) { return IsPipelineLayer(layer.type()) && layer.top_size() > 0; };
  const auto found = std::ranges::find_if(net.layer(), reads);
  return found == net.layer().end() ? nullptr : &*found;
}

}  // namespace moka
