// Layers on several ranks, as threads: what they compute is what one rank computes with as many batches an iteration as
// there are micro-batches, whatever the number of stages, and a run goes on where it stopped.
#include "comm/transport/point_to_point.h"
#include "optim/pipeline/micro_batches.h"
#include "ranks_fixture.h"
#include "tests/comm/world.h"

namespace moka {
namespace {

TEST(MicroBatchesTest, TakeTurnsAndKeepFew) {
  const std::vector<PipelineTask> expected = {{true, 0},  {true, 1}, {false, 0}, {true, 2},
                                              {false, 1}, {true, 3}, {false, 2}, {false, 3}};
  EXPECT_EQ(OneForwardOneBackward(3, 4, 1), expected);
  for (int stages = 1; stages <= 5; ++stages) {
    for (int count = 1; count <= 7; ++count) {
      for (int stage = 0; stage < stages; ++stage) {
        int under_way = 0;
        int forward = 0;
        int backward = 0;
        for (const PipelineTask& task : OneForwardOneBackward(stages, count, stage)) {
          EXPECT_EQ(task.micro_batch, task.is_forward ? forward++ : backward++);
          under_way += task.is_forward ? 1 : -1;
          EXPECT_GE(under_way, 0);
          EXPECT_LE(under_way, MicroBatchesUnderWay(stages, count, stage));
        }
        EXPECT_EQ(forward, count);
        EXPECT_EQ(backward, count);
      }
    }
  }
}

TEST(MicroBatchesTest, TheBubbleIsThatOfTheory) {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {1, 2, 4, 8, 32}) {
      for (const double backward : {1.0, 2.0}) {
        EXPECT_NEAR(PipelineBubble(p, m, backward), (p - 1.0) / (m + p - 1.0), 1e-12) << p << " " << m;
      }
    }
  }
}

class PipelineTest : public RanksTest {
 protected:
  // The text with a stage for each of these layers.
  static std::string Staged(std::string text, const std::vector<std::pair<std::string, int>>& stages) {
    for (const auto& [layer, stage] : stages) {
      const std::string name = StrCat("name: \"", layer, "\"");
      text.insert(text.find(name) + name.size(), StrCat(" pipeline_stage: ", stage));
    }
    return text;
  }
  static std::string SolverFor(int micro_batches) {
    return BaseSolver() + StrCat("max_iter: 12 distributed { micro_batches: ", micro_batches, " }");
  }
  // One rank with as many batches an iteration.
  static std::unique_ptr<Trainer> Alone(int micro_batches, const std::string& text) {
    std::string small = text;
    small.replace(small.find("batch_size: 16"), 14, StrCat("batch_size: ", 16 / micro_batches));
    SolverNets nets = Nets(1, text);
    nets.train = Nets(1, small).train;
    auto alone = Make(StrCat(BaseSolver(), "max_iter: 12 iter_size: ", micro_batches), {}, nets);
    alone->Run();
    return alone;
  }
  static std::string ErrorOf(int ranks, const std::string& solver, const SolverNets& nets) {
    try {
      Train(ranks, solver, nets);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(PipelineTest, ComputesWhatOneRankDoes) {
  const std::string text = TaskNet(16, true);
  const std::vector<std::vector<std::pair<std::string, int>>> cuts = {
      {{"ip2", 1}}, {{"bn", 1}, {"loss", 2}}, {{"bn", 1}, {"ip2", 2}, {"loss", 3}}};
  for (const int micro_batches : {1, 2, 4}) {
    const auto alone = Alone(micro_batches, text);
    for (const auto& cut : cuts) {
      const std::vector<Result> results =
          Train(static_cast<int>(cut.size()) + 1, SolverFor(micro_batches), Nets(1, Staged(text, cut)));
      for (const Result& result : results) {
        auto expected = Everything(*alone);
        auto values = result.values;
        // If an iteration has one batch, one rank needs no sums.
        if (micro_batches == 1) std::erase_if(values, [](const auto& v) { return v.first.ends_with("@sum"); });
        ExpectNear(values, expected, 2e-5F);
        EXPECT_NEAR(result.state.smoothed_loss, alone->state().smoothed_loss, 1e-5);
        EXPECT_EQ(result.end.best, results[0].end.best);
      }
    }
  }
}

// The batch norm is of a stage that does not know the loss.
TEST_F(PipelineTest, ABadBatchLeavesNoTraceInAnyStage) {
  const auto poison = [](int, Trainer& trainer) { FillTask(trainer.train_net().feed(), 11); };
  const std::string text = Staged(Without(TaskNet(16, false), "relu", "ip2"), {{"ip2", 1}});
  const std::vector<Result> results = Train(2, SolverFor(2) + " on_nan: IGNORE", Nets(1, text), {}, poison);
  for (const Result& result : results) {
    EXPECT_GT(result.state.skipped_updates, 0);
    EXPECT_LT(result.state.skipped_updates, 12) << "others are not skipped";
    for (const auto& [name, values] : result.values) {
      for (const float v : values) ASSERT_TRUE(std::isfinite(v)) << name;
    }
  }
}

// The sum reads what two earlier stages computed, so a value passes over a stage; another stage has a loss, too.
TEST_F(PipelineTest, ValuesMayPassOverStages) {
  std::string text = StrCat(
      "name: 'skip'\n"
      "layer { name: 'data' type: 'MemoryData' top: 'data' top: 'label' memory_data_param { batch_size: 16 channels: ",
      kFeatures,
      " height: 1 width: 1 } }\n"
      "layer { name: 'shape' type: 'Reshape' bottom: 'data' top: 'image' reshape_param { shape { dim: 0 dim: 1 dim: 2 "
      "dim: -1 } } }\n"
      "layer { name: 'conv1' type: 'Convolution' bottom: 'image' top: 'a' convolution_param { num_output: 6 "
      "kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'relu1' type: 'ReLU' bottom: 'a' top: 'a' }\n"
      "layer { name: 'conv2' type: 'Convolution' bottom: 'a' top: 'b' convolution_param { num_output: 6 "
      "kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'relu2' type: 'ReLU' bottom: 'b' top: 'b' }\n"
      "layer { name: 'ip0' type: 'InnerProduct' bottom: 'b' top: 'ip0' inner_product_param { num_output: 4 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss0' type: 'SoftmaxWithLoss' bottom: 'ip0' bottom: 'label' top: 'loss0' loss_weight: 0.3 }\n"
      "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'sum' }\n"
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'sum' top: 'ip2' inner_product_param { num_output: 4 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n");
  std::ranges::replace(text, '\'', '"');
  const auto alone = Alone(4, text);
  const std::vector<Result> results = Train(3, SolverFor(4), Nets(1, Staged(text, {{"conv2", 1}, {"sum", 2}})));
  for (const Result& result : results) {
    ExpectNear(result.values, Everything(*alone), 2e-5F);
    EXPECT_NEAR(result.state.smoothed_loss, alone->state().smoothed_loss, 1e-5);
  }
}

// Neighbours send more to each other at once than a transport has room for.
TEST(PointToPointTest, TwoThatSendAtOnceDoNotWaitForEachOther) {
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadWorld(2);
  RunRanks(transports, [&](Transport& transport) {
    const int rank = transport.rank();
    Communicator world(std::move(transports[static_cast<size_t>(rank)]), {}, std::chrono::seconds(5));
    PointToPoint channel(world);
    constexpr size_t kBytes = size_t{8} << 20U;
    const std::vector<std::byte> own(kBytes, std::byte{static_cast<unsigned char>(rank + 1)});
    std::vector<std::byte> other(kBytes);
    channel.Send(1 - rank, own);
    channel.Receive(1 - rank, other);
    channel.Finish();
    EXPECT_EQ(other, std::vector<std::byte>(kBytes, std::byte{static_cast<unsigned char>(2 - rank)}));
  });
}

TEST_F(PipelineTest, AResumedRunEndsBitIdentical) {
  const SolverNets nets = Nets(1, Staged(TaskNet(16), {{"ip2", 1}}));
  const Result whole = Train(2, SolverFor(4), nets)[0];
  RunFolder run = NewRun();
  Train(2, SolverFor(4), nets, [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.stop_after = 7;
  });
  const std::string written = FindNewestValid(run.checkpoints())->solver_text;
  EXPECT_EQ(written.find("iter_size"), std::string::npos) << "the solver as it was given\n" << written;
  // Resuming from the command line gives the solver as it was written; an iter_size of 1 is the same said.
  const std::vector<Result> resumed =
      Train(2, SolverFor(4) + " iter_size: 1", nets, [&](int rank, TrainerOptions& options) {
        if (rank == 0) options.run = &run;
        options.resume = FindNewestValid(run.checkpoints());
      });
  for (const Result& result : resumed) {
    EXPECT_EQ(result.values, whole.values);
    EXPECT_EQ(result.end.iteration, 12);
  }
}

TEST_F(PipelineTest, StagesThatCannotRunAreRefused) {
  const auto error = [&](int ranks, const std::vector<std::pair<std::string, int>>& stages,
                         const std::string& solver = SolverFor(4)) {
    return ErrorOf(ranks, solver, Nets(1, Staged(TaskNet(16), stages)));
  };
  EXPECT_NE(error(2, {{"ip1", 1}, {"ip2", 0}}).find("layer \"ip2\" of pipeline stage 0 reads \"ip1\""),
            std::string::npos);
  EXPECT_NE(error(2, {{"ip2", 2}}).find("layer \"ip2\" is of pipeline stage 2, and there are 2 ranks"),
            std::string::npos);
  EXPECT_NE(error(3, {{"ip2", 1}}).find("has layers for 2 pipeline stages, and there are 3 ranks"), std::string::npos);
  EXPECT_NE(error(2, {{"ip2", 1}}, SolverFor(3)).find("a batch of 16 does not divide among 3 micro-batches"),
            std::string::npos);
  EXPECT_NE(error(2, {{"ip2", 1}}, SolverFor(4) + " clip_gradients: 1").find("clip_gradients"), std::string::npos);
}

}  // namespace
}  // namespace moka
