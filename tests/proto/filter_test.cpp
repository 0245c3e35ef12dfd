#include "proto/filter.h"

#include <gmock/gmock.h>

#include "proto/net_file.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

using ::testing::HasSubstr;

std::string NamesIn(const std::string& layers, const NetState& state) {
  std::string names;
  const NetParameter net = FilterNet(NetFromText(layers, "n"), state);
  for (const LayerParameter& layer : net.layer()) names += layer.name();
  return names;
}

NetState State(Phase phase, int level = 0, std::vector<std::string> stages = {}) {
  NetState state;
  state.set_phase(phase);
  state.set_level(level);
  for (const std::string& stage : stages) state.add_stage(stage);
  return state;
}

TEST(FilterNet, KeepsLayersByPhase) {
  const std::string net =
      "layer { name: 'a' } layer { name: 'b' include { phase: TRAIN } } layer { name: 'c' exclude { phase: TRAIN } }";
  EXPECT_EQ(NamesIn(net, State(TRAIN)), "ab");
  EXPECT_EQ(NamesIn(net, State(TEST)), "ac");
}

TEST(FilterNet, KeepsLayersByLevelAndStage) {
  const std::string net =
      "layer { name: 'a' include { min_level: 2 } } layer { name: 'b' include { max_level: 1 } }"
      "layer { name: 'c' include { stage: 's' not_stage: 't' } } layer { name: 'd' include { stage: 's' stage: 't' } }";
  EXPECT_EQ(NamesIn(net, State(TRAIN)), "b");
  EXPECT_EQ(NamesIn(net, State(TRAIN, 2, {"s"})), "ac");
  EXPECT_EQ(NamesIn(net, State(TRAIN, 1, {"t", "s"})), "bd");
}

TEST(FilterNet, NeedsOneOfSeveralRules) {
  const std::string net =
      "layer { name: 'a' include { phase: TRAIN } include { stage: 's' } } layer { name: 'b' exclude { phase: TRAIN } "
      "exclude { stage: 's' } }";
  EXPECT_EQ(NamesIn(net, State(TRAIN)), "a");
  EXPECT_EQ(NamesIn(net, State(TEST)), "b");
  EXPECT_EQ(NamesIn(net, State(TEST, 0, {"s"})), "a");
}

TEST(FilterNet, GivesLayersTheirPhase) {
  const NetParameter net = FilterNet(NetFromText("layer { name: 'a' } layer { name: 'b' phase: TRAIN }", "n"), TEST);
  EXPECT_EQ(net.layer(0).phase(), TEST);
  EXPECT_EQ(net.layer(1).phase(), TRAIN);
  EXPECT_EQ(net.state().phase(), TEST);
}

TEST(FilterNet, RefusesBothKindsOfRules) {
  EXPECT_THAT(ErrorTextOf([] { NamesIn("layer { name: 'a' include { }\n exclude { } }", State(TRAIN)); }),
              HasSubstr("n:2:2: layer \"a\" has both include and exclude rules"));
}

}  // namespace
}  // namespace moka
