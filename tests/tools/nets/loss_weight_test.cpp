// A loss_weight is refused or told of where nothing learns by it, on every top of every layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "graph/autodiff.h"
#include "layers/net/catalog.h"
#include "layers/net/manual_page.h"
#include "layers/net/net.h"
#include "proto/nets/net_file.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

NetOptions TrainOptions() {
  NetOptions options;
  options.state.set_phase(TRAIN);
  options.data_types = GuessDataTypes();
  return options;
}

// The example of a layer with a weight that learns before each of its bottoms, none for layers without bottoms.
std::optional<NetParameter> ExampleWithWeights(const LayerDef& def, int* layer) {
  const NetParameter example = NetFromText(ManualPageOf(def.type).example, "example");
  NetParameter net;
  *layer = -1;
  for (const LayerParameter& each : example.layer()) {
    if (*layer < 0 && each.type() == def.type) {
      if (each.bottom_size() == 0) return std::nullopt;
      std::set<std::string> scaled;
      for (const std::string& bottom : each.bottom()) {
        if (!scaled.insert(bottom).second) continue;
        LayerParameter& scale = *net.add_layer();
        scale.set_name(StrCat("weigh ", bottom));
        scale.set_type("Scale");
        scale.add_bottom(bottom);
        scale.add_top(bottom);
        scale.mutable_scale_param()->set_axis(0);
        scale.mutable_scale_param()->set_num_axes(0);
      }
      *layer = net.layer_size();
    }
    *net.add_layer() = each;
  }
  if (*layer < 0) return std::nullopt;
  LayerParameter& own = *net.mutable_layer(*layer);
  own.clear_loss_weight();
  own.clear_propagate_down();
  own.clear_include();
  own.clear_exclude();
  return net;
}

TEST(LossWeight, IsRefusedOnlyWhereNoGradientReachesAWeight) {
  std::set<std::string> refused;
  int tops = 0;
  for (const LayerDef& def : AllLayers()) {
    int at = -1;
    const std::optional<NetParameter> plain = ExampleWithWeights(def, &at);
    if (!plain) continue;
    for (int top = 0; top < plain->layer(at).top_size(); ++top) {
      NetParameter net = *plain;
      LayerParameter& layer = *net.mutable_layer(at);
      for (int i = 0; i < layer.top_size(); ++i) layer.add_loss_weight(i == top ? 1 : 0);
      // The sum of that top as the loss, which any layer takes.
      NetParameter summed = *plain;
      for (int i = 0; i < layer.top_size(); ++i) summed.mutable_layer(at)->add_loss_weight(0);
      LayerParameter& sum = *summed.add_layer();
      sum.set_name("sum");
      sum.set_type("Reduction");
      sum.add_bottom(layer.top(top));
      sum.add_top("sum");
      sum.add_loss_weight(1);
      std::optional<BuiltNet> built;
      {
        const QuietScope quiet;
        try {
          built.emplace(BuildNet(summed, TrainOptions()));
        } catch (const Error&) {
          continue;  // what the layer itself does not take behind a weight
        }
      }
      std::vector<ValueId> trained;
      for (const NetBlob& blob : built->blobs) {
        if (blob.role != ParameterRole::kStatistic && blob.lr_mult != 0) trained.push_back(blob.state);
      }
      const std::vector<ValueId> gradients = Differentiate(built->graph, built->loss, trained);
      const bool learns = std::ranges::any_of(gradients, [](ValueId gradient) { return gradient != kNoId; });
      ++tops;
      testing::internal::CaptureStderr();
      std::string error;
      try {
        BuildNet(net, TrainOptions());
      } catch (const Error& caught) {
        error = caught.what();
      }
      const std::string said = error + testing::internal::GetCapturedStderr();
      const bool is_told = said.find("and trains nothing") != std::string::npos;
      EXPECT_EQ(is_told, !learns) << def.type << " top " << top << ": " << said;
      if (!error.empty()) refused.insert(def.type);
    }
  }
  EXPECT_GT(2 * tops, std::ssize(AllLayers()));
  for (const char* type : {"Accuracy", "ArgMax", "Threshold"}) EXPECT_TRUE(refused.contains(type)) << type;
  EXPECT_FALSE(refused.contains("SoftmaxWithLoss")) << "Caffe takes a weight of its second top";
}

}  // namespace
}  // namespace moka
