// `moka time` times the step that `moka train` takes: node for node, kernel for kernel.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/text.h"
#include "optim/step/train_net.h"
#include "proto/nets/net_file.h"
#include "proto/text/overrides.h"
#include "tools/measure/timed_net.h"

namespace moka {
namespace {

// LeNet's train net with constants in place of its data.
NetParameter LeNet() {
  NetParameter net = ReadNet(StrCat(MOKA_SOURCE_DIR, "/models/lenet/train_val.prototxt"));
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() != "Data") continue;
    layer.set_type("DummyData");
    layer.clear_data_param();
    layer.clear_transform_param();
    BlobShape* pictures = layer.mutable_dummy_data_param()->add_shape();
    for (const int64_t dim : {8, 1, 28, 28}) pictures->add_dim(dim);
    layer.mutable_dummy_data_param()->add_shape()->add_dim(8);
  }
  net.mutable_state()->set_phase(TRAIN);
  return net;
}

std::vector<std::string> StepsOf(const Program& program) {
  std::vector<std::string> steps;
  for (const StepReport& step : program.steps())
    steps.push_back(StrCat(step.op, " of ", step.layer, ", ", step.pass, ", ", step.kernel, ": ", step.types));
  return steps;
}

TEST(TimedNetTest, TimesTheStepThatTrainTakes) {
  for (const std::vector<std::string>& fields : std::vector<std::vector<std::string>>{
           {}, {"type=Adam", "momentum2=0.999"}, {"clip_gradients=1", "ema_decay=0.9"}, {"loss_scale=128"}}) {
    SCOPED_TRACE(Join(fields, " "));
    const NetParameter net = LeNet();
    SolverParameter solver;
    solver.set_base_lr(1e-4F);
    solver.set_lr_policy("fixed");
    solver.set_momentum(0.9F);
    solver.set_weight_decay(5e-4F);
    (void)ApplyOverrides(fields, solver);
    ParameterStore store;
    TrainNet trained(net, solver, {.seed = 1}, store);
    const std::unique_ptr<TimedNet> timed = MakeTimedNet(net, TRAIN, {}, {.solver = fields});
    const std::vector<std::string> steps = StepsOf(trained.program());
    EXPECT_GT(steps.size(), 20U);
    EXPECT_EQ(StepsOf(*timed->program), steps);
  }
}

}  // namespace
}  // namespace moka
