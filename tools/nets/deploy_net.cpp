// Takes the test phase, cuts what depends on labels, replaces losses by their scores and data layers by inputs; which
// loss answers is decided by its readers first.
#include "tools/nets/deploy_net.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

LayerParameter InputLayer(const LayerParameter& data, const Shape& shape) {
  LayerParameter input;
  input.set_name(data.name());
  input.set_type("Input");
  input.add_top(data.top(0));
  if (data.has_transform_param()) *input.mutable_transform_param() = data.transform_param();
  // How pictures come to lie on a canvas.
  if (data.record_data_param().canvas_height() > 0) *input.mutable_record_data_param() = data.record_data_param();
  if (data.has_origin()) *input.mutable_origin() = data.origin();
  BlobShape* blob = input.mutable_input_param()->add_shape();
  for (const int64_t dim : shape.dims()) blob->add_dim(dim);
  return input;
}

bool BecomesScores(const LayerParameter& layer) { return TraitsOf(layer).scores_type != nullptr; }

bool IsRegression(const LayerParameter& loss) { return loss.bottom_size() >= 2 && TraitsOf(loss).is_regression; }

// Whether the loss's second top holds its scores.
bool HasScoresTop(const LayerParameter& loss) { return TraitsOf(loss).gives_scores && loss.top_size() > 1; }

// Finds the layers of a net that are not there without labels: those that read them, or what is made with them.
class Labels {
 public:
  explicit Labels(const NetParameter& net) {
    bool has_input = false;
    for (const LayerParameter& layer : net.layer()) {
      const bool is_data = IsPipelineLayer(layer.type()) && layer.top_size() > 0;
      const auto is_gone = [&](const std::string& bottom) { return gone_.contains(bottom); };
      const bool needs_labels = std::any_of(layer.bottom().begin(), layer.bottom().end(), is_gone);
      int scores = needs_labels && TraitsOf(layer).is_loss ? 0 : -1;
      // Either side of a regression may be the label's.
      if (scores == 0 && is_gone(layer.bottom(0))) scores = IsRegression(layer) && !is_gone(layer.bottom(1)) ? 1 : -1;
      scores_.push_back(scores);
      needs_.push_back(needs_labels);
      const int kept = needs_labels ? 0 : is_data && has_input ? 0 : is_data ? 1 : layer.top_size();
      for (int i = 0; i < layer.top_size(); ++i) {
        if (i < kept || (i == 1 && scores == 0 && HasScoresTop(layer))) {
          gone_.erase(layer.top(i));
        } else {
          gone_.insert(layer.top(i));
        }
      }
      has_input = has_input || is_data || TraitsOf(layer).data == DataKind::kInput;
    }
  }

  bool NeedsThem(int layer) const { return needs_[static_cast<size_t>(layer)]; }
  // Whether it is a loss of scores that are there without labels, and which of its bottoms these are.
  bool IsLossOfScores(int layer) const { return scores_[static_cast<size_t>(layer)] >= 0; }
  int ScoresBottom(int layer) const { return scores_[static_cast<size_t>(layer)]; }

 private:
  std::set<std::string> gone_;
  std::vector<bool> needs_;
  std::vector<int> scores_;  // -1: no loss of scores
};

// How often layers before one have written a blob: two that find the same count read the same values.
int64_t WritesBefore(const NetParameter& net, int layer, const std::string& blob) {
  int64_t writes = 0;
  for (int i = 0; i < layer; ++i) writes += std::ranges::count(net.layer(i).top(), blob);
  return writes;
}

bool IsSameSoftmax(const SoftmaxParameter& a, const SoftmaxParameter& b) {
  return a.axis() == b.axis() && a.causal() == b.causal() && a.normalize_type() == b.normalize_type();
}

// The blob that holds what a loss makes of its scores, its own top or that of another layer; empty if there is none.
// Losses of other types than BecomesScores say nothing of what they make.
std::string OwnScoresOf(const NetParameter& net, const Labels& labels, int loss) {
  const LayerParameter& of_loss = net.layer(loss);
  if (!BecomesScores(of_loss)) return of_loss.bottom(labels.ScoresBottom(loss));
  if (HasScoresTop(of_loss)) return of_loss.top(1);
  const std::string type = TraitsOf(of_loss).scores_type;
  for (int i = 0; i < net.layer_size(); ++i) {
    const LayerParameter& layer = net.layer(i);
    if (layer.type() != type || layer.bottom_size() != 1 || layer.top_size() != 1) continue;
    if (layer.bottom(0) != of_loss.bottom(0)) continue;
    if (!IsSameSoftmax(layer.softmax_param(), of_loss.softmax_param())) continue;
    if (WritesBefore(net, i, layer.bottom(0)) != WritesBefore(net, loss, layer.bottom(0))) continue;
    // If a later layer changes the blob in place, the blob no longer is what this layer made.
    if (WritesBefore(net, net.layer_size(), layer.top(0)) == WritesBefore(net, i + 1, layer.top(0)))
      return layer.top(0);
  }
  return {};
}

// Whether a layer that needs labels and is no loss, such as Accuracy, measures what a loss learns.
bool IsMeasured(const NetParameter& net, const Labels& labels, int loss) {
  const LayerParameter& of_loss = net.layer(loss);
  const std::set<std::string> scores = {of_loss.bottom(labels.ScoresBottom(loss)), OwnScoresOf(net, labels, loss)};
  for (int i = 0; i < net.layer_size(); ++i) {
    const LayerParameter& layer = net.layer(i);
    const bool measures = labels.NeedsThem(i) && !TraitsOf(layer).is_loss;
    if (measures && layer.bottom_size() > 0 && scores.contains(layer.bottom(0))) return true;
  }
  return false;
}

// The loss whose scores are the net's answer, and the others.
struct ChosenLoss {
  int layer = -1;
  std::vector<int> others = {};
};

ChosenLoss ChooseLoss(const NetParameter& net, const Labels& labels) {
  ChosenLoss chosen;
  std::tuple<bool, bool, float> best;
  for (int i = 0; i < net.layer_size(); ++i) {
    if (!labels.IsLossOfScores(i)) continue;
    const LayerParameter& layer = net.layer(i);
    const float weight = layer.loss_weight_size() > 0 ? layer.loss_weight(0) : 1;
    const std::tuple rank(IsMeasured(net, labels, i), BecomesScores(layer), weight);
    if (chosen.layer >= 0 && rank < best) {
      chosen.others.push_back(i);
      continue;
    }
    if (chosen.layer >= 0) chosen.others.push_back(chosen.layer);
    chosen.layer = i;
    best = rank;
  }
  return chosen;
}

// A name of no layer and no blob of the net but those of the loss itself.
std::string FreeName(const NetParameter& net, int loss) {
  std::set<std::string> taken;
  for (int i = 0; i < net.layer_size(); ++i) {
    if (i != loss) taken.insert(net.layer(i).name());
    if (i != loss) taken.insert(net.layer(i).top().begin(), net.layer(i).top().end());
  }
  std::string name = "prob";
  for (int i = 2; taken.contains(name); ++i) name = StrCat("prob", i);
  return name;
}

// The layer of scores that a loss becomes.
LayerParameter WithoutLabels(const NetParameter& net, int loss) {
  LayerParameter layer = net.layer(loss);
  const std::string name = HasScoresTop(layer) ? layer.name() : FreeName(net, loss);
  const std::string top = HasScoresTop(layer) ? layer.top(1) : name;
  const std::string bottom = layer.bottom(0);
  layer.set_type(TraitsOf(layer).scores_type);
  layer.set_name(name);
  layer.clear_bottom();
  layer.add_bottom(bottom);
  layer.clear_top();
  layer.add_top(top);
  layer.clear_loss_weight();
  layer.clear_loss_param();
  layer.clear_propagate_down();
  return layer;
}

}  // namespace

std::optional<DeployedScores> DeployedScoresOf(const NetParameter& net) {
  const Labels labels(net);
  const ChosenLoss chosen = ChooseLoss(net, labels);
  if (chosen.layer < 0) return std::nullopt;
  const LayerParameter& loss = net.layer(chosen.layer);
  DeployedScores scores{.loss = loss.name(),
                        .bottom = loss.bottom(labels.ScoresBottom(chosen.layer)),
                        .top = OwnScoresOf(net, labels, chosen.layer),
                        .is_regression = IsRegression(loss)};
  if (scores.top.empty()) scores.top = WithoutLabels(net, chosen.layer).top(0);
  for (const int other : chosen.others) scores.other_losses.push_back(net.layer(other).name());
  return scores;
}

NetParameter DeployNet(const NetParameter& net, const Shape& input_shape) {
  const Labels labels(net);
  const ChosenLoss chosen = ChooseLoss(net, labels);
  const bool has_own = chosen.layer >= 0 && !OwnScoresOf(net, labels, chosen.layer).empty();
  NetParameter deploy = net;
  deploy.clear_layer();
  bool has_input = false;
  for (int i = 0; i < net.layer_size(); ++i) {
    const LayerParameter& layer = net.layer(i);
    if (IsPipelineLayer(layer.type()) && layer.top_size() > 0) {
      if (!has_input) *deploy.add_layer() = InputLayer(layer, input_shape);
      has_input = true;
      continue;
    }
    if (TraitsOf(layer).data == DataKind::kInput) {
      *deploy.add_layer() = layer;
      BlobShape* shape = deploy.mutable_layer(deploy.layer_size() - 1)->mutable_input_param()->mutable_shape(0);
      if (shape->dim_size() > 0) shape->set_dim(0, input_shape[0]);
      has_input = true;
      continue;
    }
    if (!labels.NeedsThem(i)) {
      *deploy.add_layer() = layer;
    } else if ((i == chosen.layer && !has_own) || (labels.IsLossOfScores(i) && HasScoresTop(layer))) {
      *deploy.add_layer() = WithoutLabels(net, i);
    }
  }
  if (deploy.layer_size() < 2)
    throw Error(ErrorKind::kConfig, StrCat("net \"", net.name(), "\" computes nothing without labels"));
  return deploy;
}

const LayerParameter& ImageInput(const NetParameter& deploy) {
  for (const LayerParameter& layer : deploy.layer()) {
    if (TraitsOf(layer).data == DataKind::kInput) return layer;
  }
  throw Error(ErrorKind::kConfig, StrCat("net \"", deploy.name(), "\" has no Input layer a picture could go to"));
}

}  // namespace moka
