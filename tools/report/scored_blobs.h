// The blobs of a test net that say what it makes of a sample, and what the sample is.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "optim/evaluators/class_scores.h"
#include "proto/moka.pb.h"

namespace moka {

struct ScoredBlobs {
  std::string scores;  // [N,C], or [N,C,H,W] of a class for each pixel
  std::string labels;  // a number for each
  ScoreKind kind = ScoreKind::kScores;
  std::set<int64_t> ignored = {};  // labels that count nowhere
};

// The blobs that an evaluator of classes (SegmentationEvaluate) compares, else those of the loss that answers
// (tools/nets/deploy_net.h), if that is a softmax over axis 1, else those of an Accuracy layer; none without such a
// layer. `net` is filtered for TEST.
std::optional<ScoredBlobs> ScoredBlobsOf(const NetParameter& net);

// The first top of the net's first layer of data, and that layer; null without one.
const LayerParameter* DataLayerOf(const NetParameter& net);

}  // namespace moka
