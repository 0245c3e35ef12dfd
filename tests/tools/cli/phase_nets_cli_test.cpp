// Runs whose solver has a net for each phase, as files or inside, or several test nets, are taken by every verb that
// takes a run.
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

class PhaseNetsCliTest : public CliTest {
 protected:
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    ASSERT_EQ(Moka("data import glyphs:40:1 db").code, 0);
    ASSERT_EQ(Moka("data import glyphs:24:2 other").code, 0);
    ASSERT_EQ(Moka("data export db pictures --limit 2").code, 0);
    const std::string train = Data("db", "") + kLayers;
    const std::string test = Data("other", "") + kLayers + kAccuracy;
    const auto write = [&](const std::string& name, const std::string& text) {
      WriteFileAtomically(folder_ / (name + ".prototxt"), text);
    };
    write("train", train);
    write("test", test);
    write("both", StrCat(Data("db", "include { phase: TRAIN }"), Data("db", "include { phase: TEST stage: \"same\" }"),
                         Data("other", "include { phase: TEST stage: \"other\" }"), kLayers, kAccuracy));
    const std::string rest =
        " base_lr: 0.01 lr_policy: \"fixed\" momentum: 0.9 max_iter: 4 test_interval: 4 random_seed: 3 ";
    write("files", "train_net: \"train.prototxt\" test_net: \"test.prototxt\" test_iter: 6" + rest);
    write("inside", StrCat("train_net_param { ", train, " } test_net_param { ", test, " } test_iter: 6", rest));
    write("states", StrCat("net: \"both.prototxt\" test_iter: [10, 6] test_state { stage: \"same\" } "
                           "test_state { stage: \"other\" }",
                           rest));
    for (const char* solver : {"files", "inside", "states"}) {
      const Outcome trained = Moka(StrCat("train ", solver, ".prototxt --run ", solver));
      ASSERT_EQ(trained.code, 0) << trained.err;
    }
  }

  static std::string Data(const std::string& source, const std::string& rule) {
    return StrCat("layer { name: \"data\" type: \"Data\" top: \"data\" top: \"label\" data_param { source: \"", source,
                  "\" batch_size: 4 backend: LMDB } ", rule, " } ");
  }

  // The line that the run's last test wrote.
  static Json LastTest(const std::string& run) {
    Json last;
    for (const std::string& line : Split(ReadFile(folder_ / "runs" / run / "metrics.jsonl"), '\n')) {
      if (line.find("\"split\":\"test\"") != std::string::npos) last = Json::parse(line);
    }
    return last;
  }

  static constexpr const char* kLayers =
      "layer { name: \"conv\" type: \"Convolution\" bottom: \"data\" top: \"conv\" convolution_param { num_output: 4 "
      "kernel_size: 5 stride: 4 weight_filler { type: \"xavier\" } } } layer { name: \"ip\" type: \"InnerProduct\" "
      "bottom: \"conv\" top: \"ip\" inner_product_param { num_output: 10 weight_filler { type: \"xavier\" } } } "
      "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"ip\" bottom: \"label\" top: \"loss\" } ";
  static constexpr const char* kAccuracy =
      "layer { name: \"accuracy\" type: \"Accuracy\" bottom: \"ip\" bottom: \"label\" top: \"accuracy\" "
      "include { phase: TEST } } ";
};

TEST_F(PhaseNetsCliTest, ARunIsTestedAsItWasWhileItTrained) {
  for (const std::string run : {"files-0001", "inside-0001"}) {
    const Outcome tested = Moka(StrCat("test ", run, " --json"));
    ASSERT_EQ(tested.code, 0) << tested.err;
    const Json json = Json::parse(tested.out);
    EXPECT_EQ(json.at("iterations"), 6) << "the test net's data once";
    for (const char* name : {"accuracy", "loss"}) {
      EXPECT_EQ(json.at("outputs").at(name), LastTest(run).at(name)) << run << " " << name;
    }
  }
}

TEST_F(PhaseNetsCliTest, EachTestStateIsTested) {
  const Outcome tested = Moka("test states-0001 --json");
  ASSERT_EQ(tested.code, 0) << tested.err;
  const Json nets = Json::parse(tested.out).at("nets");
  ASSERT_EQ(nets.size(), 2U);
  EXPECT_EQ(nets[0].at("iterations"), 10);
  EXPECT_EQ(nets[1].at("iterations"), 6);
  const Outcome text = Moka("test states-0001");
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("test net 0 of 2, phase TEST, level 0, stage \"same\":\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("test net 1 of 2, phase TEST, level 0, stage \"other\":\n"), std::string::npos) << text.out;
  const Outcome one = Moka("test states-0001 --stage=other --json");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(Json::parse(one.out).at("outputs"), nets[1].at("outputs"));
}

TEST_F(PhaseNetsCliTest, EveryVerbTakesTheRun) {
  for (const std::string run : {"files-0001", "inside-0001", "states-0001"}) {
    for (const char* words :
         {"infer RUN pictures", "quantise RUN --batches 1 --iterations 1 --out ranges.json", "model show RUN",
          "model show RUN --phase TEST --stage other", "model draw RUN drawn.dot", "model expand RUN",
          "time RUN --iterations 1 --warmup 0", "bench model RUN --iterations 1 --warmup 0",
          "bench data RUN --iterations 1 --warmup 1", "data preview RUN --out sheet.png",
          "model convert RUN@last net.caffemodel", "train --resume=RUN max_iter=6"}) {
      std::string line = words;
      line.replace(line.find("RUN"), 3, run);
      const Outcome outcome = Moka(line);
      EXPECT_EQ(outcome.code, 0) << line << "\n" << outcome.err;
    }
  }
}

}  // namespace
}  // namespace moka
