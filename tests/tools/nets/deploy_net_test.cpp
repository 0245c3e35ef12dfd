// The scores that answer for a trained net.
#include "tools/nets/deploy_net.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "core/text.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kData =
    "layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { shape { dim: 1 dim: 4 } shape "
    "{ dim: 1 } } }";

std::string Fc(const std::string& top) {
  return StrCat("layer { name: '", top, "' type: 'InnerProduct' bottom: 'data' top: '", top,
                "' inner_product_param { num_output: 3 } }");
}

std::string Loss(const std::string& name, const std::string& bottom, const std::string& more = {},
                 const std::string& type = "SoftmaxWithLoss") {
  return StrCat("layer { name: '", name, "' type: '", type, "' bottom: '", bottom, "' bottom: 'label' top: '", name,
                "' ", more, " }");
}

NetParameter NetOf(const std::string& layers) {
  NetParameter net;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kData + layers, &net));
  return net;
}

// "loss: top of TYPE(bottom)", as the deployed net has it.
std::string Answer(const std::string& layers) {
  const NetParameter net = NetOf(layers);
  const std::optional<DeployedScores> scores = DeployedScoresOf(net);
  if (!scores) return "none";
  const NetParameter deploy = DeployNet(net, Shape{1, 4});
  std::string found = StrCat(scores->loss, ": ", scores->top, " of ");
  for (const LayerParameter& layer : deploy.layer()) {
    for (const std::string& top : layer.top()) {
      if (top == scores->top) found += StrCat(layer.type(), "(", layer.bottom(0), ")");
    }
  }
  return found;
}

TEST(DeployNet, TheLossThatIsMeasuredOrLargestOrLastAnswers) {
  const std::string weak = Loss("loss1", "aux", "loss_weight: 0.3");
  const std::string accuracy = Loss("acc", "aux", "", "Accuracy");
  EXPECT_EQ(Answer(Fc("aux") + weak + Fc("main") + Loss("loss2", "main")), "loss2: prob of Softmax(main)");
  EXPECT_EQ(Answer(Fc("main") + Loss("loss2", "main") + Fc("aux") + weak), "loss2: prob of Softmax(main)");
  EXPECT_EQ(Answer(Fc("main") + Loss("loss2", "main") + Fc("aux") + weak + accuracy), "loss1: prob of Softmax(aux)");
  EXPECT_EQ(Answer(Fc("a") + Loss("loss1", "a") + Fc("b") + Loss("loss2", "b")), "loss2: prob of Softmax(b)");
  EXPECT_EQ(Answer(Fc("a") + Loss("loss", "a", "", "SigmoidCrossEntropyLoss")), "loss: prob of Sigmoid(a)");
  EXPECT_EQ(Answer(Fc("a")), "none");
  const NetParameter net = NetOf(Fc("aux") + weak + Fc("main") + Loss("loss2", "main"));
  EXPECT_THAT(DeployedScoresOf(net)->other_losses, ElementsAre("loss1"));
}

TEST(DeployNet, ScoresThatTheNetHasAreUsed) {
  const std::string own = "layer { name: 'sm' type: 'Softmax' bottom: 'a' top: 'prob' }";
  EXPECT_EQ(Answer(Fc("a") + own + Loss("loss", "a")), "loss: prob of Softmax(a)");
  EXPECT_EQ(Answer(Fc("a") + Loss("loss", "a") + own), "loss: prob of Softmax(a)");
  EXPECT_EQ(Answer(Fc("a") + own + Loss("acc", "prob", "", "Accuracy") + Loss("loss", "a")),
            "loss: prob of Softmax(a)");
  // A blob of that name that is something else.
  EXPECT_EQ(Answer(Fc("prob") + Loss("loss", "prob")), "loss: prob2 of Softmax(prob)");
  EXPECT_EQ(Answer(Fc("a") + "layer { name: 'sm' type: 'Softmax' bottom: 'a' top: 'prob' softmax_param { axis: 0 } }" +
                   Loss("loss", "a")),
            "loss: prob2 of Softmax(a)");
  // The second top of a loss, which other layers read.
  const NetParameter net =
      NetOf(Fc("a") + Loss("loss", "a", "top: 'p'") + "layer { name: 'best' type: 'ArgMax' bottom: 'p' top: 'best' }");
  EXPECT_EQ(DeployedScoresOf(net)->top, "p");
  EXPECT_EQ(DeployNet(net, Shape{1, 4}).layer_size(), 4) << "input, scores and both that need no labels";
}

TEST(DeployNet, ARegressionGivesItsNumbers) {
  for (const char* bottoms : {"bottom: 'a' bottom: 'label'", "bottom: 'label' bottom: 'a'"}) {
    const NetParameter net =
        NetOf(StrCat(Fc("a"), "layer { name: 'loss' type: 'EuclideanLoss' ", bottoms, " top: 'loss' }"));
    const std::optional<DeployedScores> scores = DeployedScoresOf(net);
    ASSERT_TRUE(scores) << bottoms;
    EXPECT_TRUE(scores->is_regression);
    EXPECT_EQ(scores->top, "a");
    EXPECT_THAT(scores->other_losses, IsEmpty());
    EXPECT_EQ(DeployNet(net, Shape{1, 4}).layer_size(), 2);
  }
}

// Nets of other Caffes: a type that Moka does not have is a loss by its name.
TEST(DeployNet, AnUnknownLossHasScores) {
  EXPECT_EQ(Answer(Fc("a") + Loss("loss", "a", "", "WingLossOfAFork")), "loss: a of InnerProduct(data)");
  EXPECT_EQ(Answer(Fc("a") + Loss("odd", "a", "", "Odd")), "none");
}

}  // namespace
}  // namespace moka
