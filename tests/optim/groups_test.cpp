// The effect of SkimCaffe's fields on an update: group lasso, a decay of a parameter's own, zeros that stay.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <cmath>
#include <functional>
#include <map>

#include "graph/interpreter.h"
#include "layers/net/catalog.h"
#include "optim/optimizers/groups.h"
#include "optim/optimizers/update.h"
#include "optim_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

using Values = std::vector<double>;

// Weights of a convolution of two groups: four filters of four values, seen as a 4 x 4 matrix.
const Values kWeights = {3, -4, 0, 0, 1, 2, 0, 2, 0, 0, 0, 0, -1, 1, 0, 5};

NetParameter NetText(const std::string& param, const std::string& layer = "") {
  NetParameter net;
  const std::string text = "layer { name: \"w\" type: \"Convolution\" convolution_param { num_output: 4 group: 2 } " +
                           layer + " param { " + param + " } }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &net)) << text;
  return net;
}

// The weights after a step of SGD with rate 1 whose gradient is `gradient` everywhere.
Values Step(const std::string& solver_text, const NetParameter* net, double gradient = 0) {
  const SolverParameter solver = Solver("base_lr: 1 lr_policy: \"fixed\" " + solver_text);
  CheckOptimizer(solver);
  Graph graph(StandardCatalog());
  NetBlob blob = Blob("w", 0, {4, 2, 1, 2});
  const TensorType type{DType::kFloat32, blob.shape, {}};
  blob.state = graph.AddState(blob.name, type);
  const ValueId dw = graph.AddInput("dw", type);
  AddUpdates(graph, {.solver = &solver, .blobs = {blob}, .gradients = {dw}, .net = net});
  std::map<ValueId, RefTensor> fed;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.kind == ValueKind::kResult) continue;
    const Values numbers(static_cast<size_t>(value.type.shape.Count()), value.name == "lr" ? 1.0 : gradient);
    fed[id] = {value.type, id == blob.state ? kWeights : numbers};
  }
  const std::vector<ValueId> wanted = {graph.assignments().at(0).value};
  return Interpret(graph, fed, wanted).at(0).values;
}

// The weights less `rate` times each weight over the norm of its group, groups being told apart by numbers.
Values Shrunk(double rate, const std::function<int(int row, int column)>& group) {
  std::map<int, double> squares;
  for (int i = 0; i < 16; ++i) squares[group(i / 4, i % 4)] += std::pow(kWeights[static_cast<size_t>(i)], 2);
  Values after = kWeights;
  for (int i = 0; i < 16; ++i) {
    const double norm = std::sqrt(squares[group(i / 4, i % 4)]);
    if (norm > 0) after[static_cast<size_t>(i)] -= rate * kWeights[static_cast<size_t>(i)] / norm;
  }
  return after;
}

void ExpectGroupsNear(const Values& found, const Values& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << i;
}

TEST(GroupsTest, RowsColumnsAndBlocksShrinkByTheirNorms) {
  const NetParameter rows = NetText("breadth_decay_mult: 2");
  ExpectGroupsNear(Step("breadth_decay: 0.25", &rows), Shrunk(0.5, [](int row, int) { return row; }));
  const NetParameter columns = NetText("kernel_shape_decay_mult: 1");
  ExpectGroupsNear(Step("kernel_shape_decay: 0.5", &columns),
                   Shrunk(0.5, [](int row, int c) { return row / 2 * 4 + c; }));
  const NetParameter blocks = NetText("block_group_lasso { xdimen: 2 ydimen: 4 block_decay_mult: 3 }");
  ExpectGroupsNear(Step("block_group_decay: 0.125", &blocks), Shrunk(0.375, [](int, int c) { return c / 2; }));
  // The fields have no effect without the solver's strength, and nothing has without a net.
  EXPECT_EQ(Step("", &rows), kWeights);
  EXPECT_EQ(Step("breadth_decay: 0.25", nullptr), kWeights);
}

TEST(GroupsTest, AParameterHasADecayOfItsOwn) {
  const NetParameter net = NetText("regularization_type: \"L1\"");
  const Values after = Step("weight_decay: 0.5", &net);
  EXPECT_NEAR(after[0], 2.5, 1e-9);
  EXPECT_NEAR(after[1], -3.5, 1e-9);
}

TEST(GroupsTest, ZerosStayWhereTheLayerSaysSo) {
  const NetParameter single = NetText("", "connectivity_mode: DISCONNECTED_ELTWISE");
  const Values after = Step("", &single, 1);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(after[i], kWeights[i] == 0 ? 0 : kWeights[i] - 1) << i;
  // Row 2 is all zero; column 2 is in the first group of filters, and in the second.
  const NetParameter groups = NetText("", "connectivity_mode: DISCONNECTED_GRPWISE");
  const Values grouped = Step("", &groups, 1);
  for (size_t i = 0; i < 16; ++i) {
    const bool is_dead = i / 4 == 2 || i % 4 == 2;
    EXPECT_EQ(grouped[i], is_dead ? 0 : kWeights[i] - 1) << i;
  }
}

std::string StepError(const std::string& solver, const NetParameter* net = nullptr) {
  try {
    Step(solver, net);
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(GroupsTest, WhatIsNotTrainedHereIsRefused) {
  EXPECT_THAT(StepError("force_decay: 0.1"), HasSubstr("force_decay"));
  EXPECT_THAT(StepError("prune_method: \"Reg_Col\""), HasSubstr("prune_method"));
  EXPECT_THAT(StepError("type: \"AdamW\" momentum: 0.9 breadth_decay: 0.1"), HasSubstr("does not work with type"));
  const NetParameter block = NetText("block_group_lasso { xdimen: 3 ydimen: 1 }");
  EXPECT_THAT(StepError("block_group_decay: 0.1", &block), HasSubstr("do not divide the parameter's 4 x 4"));
}

TEST(GroupsTest, MultipliersWithoutTheirStrengthAreSaid) {
  const std::string spec = "breadth_decay_mult: 2 kernel_shape_decay_mult: 1 block_group_lasso { xdimen: 2 ydimen: 2 }";
  const NetParameter net = NetText(spec, "connectivity_mode: DISCONNECTED_ELTWISE");
  const std::vector<NetBlob> blobs = {Blob("w", 0, {4, 2, 1, 2})};
  const auto said = [&](const std::string& solver) { return UnreadGroupFields(Solver(solver), net, blobs); };
  EXPECT_THAT(said("breadth_decay: 1 kernel_shape_decay: 1 block_group_decay: 1"), testing::IsEmpty());
  EXPECT_THAT(said("kernel_shape_decay: 1"),
              testing::ElementsAre(HasSubstr("param[0].breadth_decay_mult of layer \"w\" (Convolution) changes nothing "
                                             "while the solver's breadth_decay is 0"),
                                   HasSubstr("block_group_lasso[0]")));
  EXPECT_THAT(UnreadGroupFields(Solver("breadth_decay: 1 kernel_shape_decay: 1 block_group_decay: 1"), net, {}),
              testing::ElementsAre(HasSubstr("connectivity_mode of layer \"w\" (Convolution) changes nothing")));
}

}  // namespace
}  // namespace moka
