// Reproduces Caffe's InsertSplits, with its names, and its rule of which layers need a backward pass, as pycaffe's
// users see both.
#include "optim/layerwise/wiring.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "layers/net/layer.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// A top: layer and index in it.
using TopId = std::pair<int, int>;

class Splitter {
 public:
  explicit Splitter(const NetParameter& net) : net_(net) {}

  NetParameter Run() {
    for (int i = 0; i < net_.layer_size(); ++i) CountReadings(i);
    NetParameter result = net_;
    result.clear_layer();
    for (int i = 0; i < net_.layer_size(); ++i) AddLayer(i, result);
    return result;
  }

 private:
  std::string SplitName(TopId top) const {
    const LayerParameter& layer = net_.layer(top.first);
    return StrCat(layer.top(top.second), "_", layer.name(), "_", top.second, "_split");
  }

  void CountReadings(int i) {
    const LayerParameter& layer = net_.layer(i);
    for (int j = 0; j < layer.bottom_size(); ++j) {
      const auto writer = last_writer_.find(layer.bottom(j));
      if (writer == last_writer_.end()) {
        std::vector<std::string> known;
        for (const auto& [name, top] : last_writer_) known.push_back(name);
        throw ErrorAt(layer, StrCat("bottom[", j, "]"),
                      StrCat("layer \"", layer.name(), "\": no layer produces bottom \"", layer.bottom(j), "\""),
                      DidYouMean(layer.bottom(j), known));
      }
      sources_[{i, j}] = writer->second;
      ++readings_[writer->second];
    }
    for (int j = 0; j < layer.top_size(); ++j) {
      last_writer_[layer.top(j)] = {i, j};
      if (j < layer.loss_weight_size() && layer.loss_weight(j) != 0) ++readings_[{i, j}];
    }
  }

  void AddLayer(int i, NetParameter& result) {
    LayerParameter* layer = result.add_layer();
    *layer = net_.layer(i);
    for (int j = 0; j < layer->bottom_size(); ++j) {
      const TopId source = sources_[{i, j}];
      if (readings_[source] > 1) layer->set_bottom(j, StrCat(SplitName(source), "_", used_[source]++));
    }
    std::vector<TopId> split;
    for (int j = 0; j < layer->top_size(); ++j) {
      if (readings_[{i, j}] > 1) split.emplace_back(i, j);
    }
    for (const TopId& top : split) {
      const float weight = top.second < net_.layer(i).loss_weight_size() ? net_.layer(i).loss_weight(top.second) : 0;
      AddSplit(top, weight, result);
      if (weight == 0) continue;
      result.mutable_layer(LayerIndex(result, net_.layer(i).name()))->set_loss_weight(top.second, 0);
      ++used_[top];  // the first copy is the loss
    }
  }

  static int LayerIndex(const NetParameter& net, const std::string& name) {
    int i = net.layer_size() - 1;
    while (net.layer(i).name() != name) --i;
    return i;
  }

  void AddSplit(TopId top, float loss_weight, NetParameter& result) const {
    const LayerParameter& source = net_.layer(top.first);
    LayerParameter* split = result.add_layer();
    split->set_name(SplitName(top));
    split->set_type("Split");
    split->set_phase(source.phase());
    *split->mutable_origin() = source.origin();
    split->add_bottom(source.top(top.second));
    const int copies = readings_.at(top);
    for (int k = 0; k < copies; ++k) {
      split->add_top(StrCat(SplitName(top), "_", k));
      if (loss_weight != 0) split->add_loss_weight(k == 0 ? loss_weight : 0);
    }
  }

  const NetParameter& net_;
  std::map<std::string, TopId> last_writer_;
  std::map<std::pair<int, int>, TopId> sources_;  // (layer, bottom) -> top
  std::map<TopId, int> readings_;
  std::map<TopId, int> used_;
};

}  // namespace

NetParameter InsertSplits(const NetParameter& net) { return Splitter(net).Run(); }

void NameAutomaticTops(NetParameter& net) {
  int count = 0;
  for (LayerParameter& layer : *net.mutable_layer()) {
    const LayerDef* def = FindLayer(layer.type());
    if (def == nullptr || !def->auto_tops) continue;
    while (layer.top_size() < def->min_tops) {
      ++count;
      layer.add_top(count == 1 ? std::string("(automatic)") : StrCat("(automatic) ", count));
    }
  }
}

std::vector<BackwardPlan> PlanBackward(const std::vector<BackwardFacts>& layers, int blob_count, bool force) {
  const auto at = [](std::vector<char>& flags, int blob) -> char& { return flags[static_cast<size_t>(blob)]; };
  std::vector<BackwardPlan> plans(layers.size());
  std::vector<char> depends(static_cast<size_t>(blob_count), 0);  // on something trained
  for (size_t i = 0; i < layers.size(); ++i) {
    const BackwardFacts& layer = layers[i];
    plans[i].params = layer.trains;
    bool visits = std::ranges::find(layer.trains, 1) != layer.trains.end();
    for (size_t j = 0; j < layer.bottoms.size(); ++j) {
      const char wanted = at(depends, layer.bottoms[j]);
      plans[i].bottoms.push_back(layer.propagate_down.empty() ? wanted : layer.propagate_down[j]);
      visits = visits || wanted != 0;
    }
    plans[i].visits = visits;
    for (const int top : layer.tops) at(depends, top) = static_cast<char>(at(depends, top) != 0 || visits);
  }
  std::vector<char> leads(static_cast<size_t>(blob_count), 0);  // to a loss
  std::vector<char> skips(static_cast<size_t>(blob_count), 0);  // no reader wants its diff
  for (size_t i = layers.size(); i-- > 0;) {
    const BackwardFacts& layer = layers[i];
    bool is_useful = false;
    bool is_skipped = true;
    for (size_t j = 0; j < layer.tops.size(); ++j) {
      is_useful = is_useful || layer.is_loss[j] != 0 || at(leads, layer.tops[j]) != 0;
      is_skipped = is_skipped && at(skips, layer.tops[j]) != 0;
    }
    if (plans[i].visits && is_skipped) {
      plans[i].visits = false;
      std::ranges::fill(plans[i].bottoms, 0);
    }
    if (!is_useful) plans[i].visits = false;
    for (size_t j = 0; j < layer.bottoms.size(); ++j) {
      if (is_useful) {
        at(leads, layer.bottoms[j]) = 1;
      } else {
        plans[i].bottoms[j] = 0;
      }
      if (plans[i].bottoms[j] == 0) at(skips, layer.bottoms[j]) = 1;
    }
  }
  if (!force) return plans;
  for (BackwardPlan& plan : plans) {
    plan.visits = true;
    std::ranges::fill(plan.bottoms, 1);
    std::ranges::fill(plan.params, 1);
  }
  return plans;
}

}  // namespace moka
