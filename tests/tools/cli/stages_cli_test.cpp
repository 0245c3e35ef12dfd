// The stages of a net count alike in all verbs that look at one: its own, those that --stage gives, and those of the
// turns that a folder's solver trains.
#include <algorithm>
#include <set>

#include "tests/tools/cli_fixture.h"
#include "tools/cli/command_line.h"

namespace moka {
namespace {

class StagesCliTest : public CliTest {
 protected:
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    ASSERT_EQ(Moka("data import glyphs:20:1 db").code, 0);
    const std::string layers = R"(
      layer { name: "data" type: "Data" top: "data" top: "label" include { stage: "big" }
              data_param { source: "db" batch_size: 4 backend: LMDB } }
      layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
              inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })";
    WriteFileAtomically(folder_ / "own.prototxt", StrCat("name: \"own\" state { stage: \"big\" }", layers));
    WriteFileAtomically(folder_ / "given.prototxt", StrCat("name: \"given\"", layers));
    for (const char* net : {"own", "given"}) {
      WriteFileAtomically(folder_ / StrCat(net, "_solver.prototxt"),
                          StrCat("net: \"", net, ".prototxt\" base_lr: 0.01 lr_policy: \"fixed\" max_iter: 1"));
    }
    ASSERT_EQ(Moka("train own_solver.prototxt --run r").code, 0);
  }

  // A command of each verb that takes stages, NET for the net.
  static const std::map<std::string, std::string>& Lines() {
    static const std::map<std::string, std::string> lines = {
        {"bench data", "NET --iterations 2 --warmup 1"},
        {"bench model", "NET --iterations 1 --warmup 0"},
        {"compare", "NET blobs.npz"},
        {"data preview", "NET --out sheet.png"},
        {"model draw", "NET drawn.dot"},
        {"model show", "NET"},
        {"simulate", StrCat("NET --step-ms 10 --devices 8 --topology ", MOKA_SOURCE_DIR,
                            "/tools/launch/topologies/p40_100g.topology")},
        {"test", "NET --weights runs/r-0001/checkpoints/iter_0000001.safetensors --iterations 1"},
        {"time", "NET --iterations 1 --warmup 0"},
        {"train", "NET"}};
    return lines;
  }
  static Outcome Run(const std::string& verb, const std::string& net, const std::string& more = {}) {
    std::string words = Lines().at(verb);
    words.replace(words.find("NET"), 3, verb == "train" ? StrCat(net, "_solver.prototxt") : StrCat(net, ".prototxt"));
    return Moka(StrCat(verb, " ", words, " ", more));
  }
};

TEST_F(StagesCliTest, EveryVerbThatTakesStagesIsTried) {
  std::set<std::string> taking;
  const auto look = [&](const Verb& verb, const std::string& path) {
    const auto is_stage = [](const OptionSpec& option) { return option.name == "stage"; };
    if (std::ranges::any_of(verb.options, is_stage)) taking.insert(path);
  };
  for (const Verb& verb : AllVerbs()) {
    look(verb, verb.name);
    for (const Verb& sub : verb.subverbs) look(sub, StrCat(verb.name, " ", sub.name));
  }
  std::set<std::string> tried = {"zoo train"};  // which hands them to train
  for (const auto& [verb, words] : Lines()) tried.insert(verb);
  EXPECT_EQ(taking, tried);
}

TEST_F(StagesCliTest, ANetsOwnStageCounts) {
  for (const auto& [verb, words] : Lines()) {
    if (verb == "compare") continue;  // it takes the net's data from a file
    const Outcome outcome = Run(verb, "own");
    EXPECT_EQ(outcome.code, 0) << verb << "\n" << outcome.err;
  }
}

TEST_F(StagesCliTest, AGivenStageCounts) {
  for (const auto& [verb, words] : Lines()) {
    if (verb == "compare") continue;
    EXPECT_NE(Run(verb, "given").code, 0) << verb;
    const Outcome outcome = Run(verb, "given", "--stage=big");
    EXPECT_EQ(outcome.code, 0) << verb << "\n" << outcome.err;
    const Outcome twice =
        Run(verb, "given", verb == "train" ? "--stage=big train_state.stage=[big]" : "--stage=big state.stage=[big]");
    EXPECT_EQ(twice.code, 64) << verb << "\n" << twice.err;
  }
}

TEST_F(StagesCliTest, AStageThatNoRuleNamesIsToldByEveryVerb) {
  for (const auto& [verb, words] : Lines()) {
    const Outcome outcome = Run(verb, "own", "--stage=bigg");
    EXPECT_EQ(outcome.code == 0, verb != "compare") << verb << "\n" << outcome.err;
    EXPECT_NE(outcome.err.find("no rule of the net names stage \"bigg\""), std::string::npos) << verb << "\n"
                                                                                              << outcome.err;
    EXPECT_NE(outcome.err.find("did you mean \"big\""), std::string::npos) << verb << "\n" << outcome.err;
  }
}

TEST_F(StagesCliTest, TheNetsOfASolversTurnsAreShownAndDrawn) {
  const std::string gan = StrCat(MOKA_SOURCE_DIR, "/models/sngan_cifar10");
  const Outcome shown = Moka(StrCat("model show ", gan));
  ASSERT_EQ(shown.code, 0) << shown.err;
  const size_t critic = shown.out.find(", stage critic\n");
  const size_t generator = shown.out.find(", stage generator\n");
  EXPECT_LT(critic, generator);
  EXPECT_NE(generator, std::string::npos) << shown.out;
  ASSERT_EQ(Moka(StrCat("model draw ", gan, " gan.dot")).code, 0);
  const std::string dot = ReadFile(folder_ / "gan.dot");
  EXPECT_NE(dot.find(", stage critic\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("n1_l0 -> n1_l1"), std::string::npos) << dot;
  const Outcome one = Moka(StrCat("model show ", gan, " --stage=generator"));
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out.find("stage critic"), std::string::npos);
  EXPECT_NE(one.out.find(", stage generator\n"), std::string::npos) << one.out;
  const Outcome simulated = Moka(StrCat("simulate ", gan, " --step-ms 10 --devices 8 --topology ", MOKA_SOURCE_DIR,
                                        "/tools/launch/topologies/p40_100g.topology"));
  EXPECT_EQ(simulated.code, 64);
  EXPECT_NE(simulated.err.find("trains 2 nets in turns"), std::string::npos) << simulated.err;
}

}  // namespace
}  // namespace moka
