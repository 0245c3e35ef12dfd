// moka bench accuracy as a person uses it: a small net on drawn digits to a target, by turns, interrupted, refused,
// beside a peer that is a script.
#include <gmock/gmock.h>

#include <map>
#include <vector>

#include "tests/tools/cli_fixture.h"
#include "tests/tools/measure/well_formed.h"

namespace moka {
namespace {

using testing::HasSubstr;

constexpr double kTarget = 0.5;
constexpr double kBatch = 20;

class AccuracyCliTest : public CliTest {
 protected:
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    ASSERT_EQ(Moka("data import glyphs:200:1 db").code, 0);
    ASSERT_EQ(Moka("data import glyphs:100:2 test").code, 0);
    WriteFileAtomically(folder_ / "net.prototxt", kNet);
    WriteFileAtomically(folder_ / "solver.prototxt",
                        "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 max_iter: 400 display: 5 "
                        "test_iter: 2 test_interval: 10");
    WriteFileAtomically(folder_ / "peer.sh",
                        "echo warming up\n"
                        "echo \"{\\\"clock_s\\\": 1, \\\"epoch\\\": 1, \\\"iteration\\\": 10, \\\"$3\\\": 0.1}\"\n"
                        "echo \"{\\\"clock_s\\\": $1, \\\"epoch\\\": 2, \\\"iteration\\\": 20, \\\"$3\\\": $2}\"\n"
                        "echo '{\"reached\": true, \"init_s\": 7, \"images_per_s\": 5, \"version\": \"sh 1\"}'\n");
  }
  // Files and folders of a case are called after it.
  static std::string Words(const std::string& name, const std::string& more) {
    return StrCat("bench accuracy solver.prototxt --threads=1 --device cpu --progress off --runs ", name, " --out ",
                  name, ".json ", more);
  }
  static Json File(const std::string& name) { return Json::parse(ReadFile(folder_ / (name + ".json"))); }
  static Json StatusOf(const std::string& run) { return Json::parse(ReadFile(folder_ / run / "status.json")); }
  static std::vector<Json> TestsOf(const std::string& run) {
    std::vector<Json> tests;
    for (const std::string& line : Split(ReadFile(folder_ / run / "metrics.jsonl"), '\n')) {
      if (line.empty()) continue;
      if (const Json json = Json::parse(line); json.contains("split") && json["split"] == "test") tests.push_back(json);
    }
    return tests;
  }
  static std::vector<std::string> RunsIn(const std::string& folder) {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / folder)) {
      if (entry.is_directory() && !entry.is_symlink()) names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
  // The runs of a file as "setting seed outcome".
  static std::vector<std::string> OutcomesOf(const Json& json) {
    std::vector<std::string> all;
    for (const Json& run : json.at("runs")) {
      all.push_back(StrCat(run.at("setting").get<std::string>(), " ", run.at("seed").get<int>(), " ",
                           run.at("outcome").get<std::string>()));
    }
    return all;
  }

  static constexpr const char* kNet = R"(
layer { name: "d" type: "Data" top: "x" top: "y" include { phase: TRAIN } transform_param { scale: 0.00390625 }
        data_param { source: "db" batch_size: 20 backend: LMDB shuffle: true } }
layer { name: "d" type: "Data" top: "x" top: "y" include { phase: TEST } transform_param { scale: 0.00390625 }
        data_param { source: "test" batch_size: 50 backend: LMDB } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 10
        weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "y" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "y" top: "loss" }
)";
  static constexpr const char* kTwo =
      "--target accuracy=0.5 --setting 'slow: base_lr=0.05' --setting 'fast: base_lr=0.1' ";
};

// Every number of a run is one that its folder has.
void ExpectAgrees(const Json& run, const std::vector<Json>& tests, const Json& status) {
  const Json& points = run.at("points");
  ASSERT_EQ(points.size(), tests.size());
  for (size_t i = 0; i < tests.size(); ++i) {
    EXPECT_EQ(points[i].at("clock_s"), tests[i].at("clock_s"));
    EXPECT_EQ(points[i].at("iteration"), tests[i].at("iter"));
    EXPECT_EQ(points[i].at("epoch"), tests[i].at("epoch"));
    EXPECT_EQ(points[i].at("value"), tests[i].at("accuracy"));
    EXPECT_EQ(points[i].at("value").get<double>() >= kTarget, i + 1 == tests.size());
  }
  EXPECT_EQ(run.at("clock_s"), tests.back().at("clock_s"));
  EXPECT_EQ(run.at("epochs"), tests.back().at("epoch"));
  EXPECT_EQ(run.at("init_s"), status.at("clock").at("init_s"));
  EXPECT_NEAR(run.at("images_per_s").get<double>() * run.at("clock_s").get<double>(),
              run.at("iterations").get<double>() * kBatch, 1e-6);
  EXPECT_GT(run.at("training_images_per_s").get<double>(), 0);
  EXPECT_GT(run.at("peak_bytes").get<int64_t>(), 1 << 20);
  EXPECT_EQ(run.at("sessions"), 1);
}

TEST_F(AccuracyCliTest, TwoSettingsOfTwoSeedsTakeTurnsAndSayWhatTheirRunsSay) {
  const std::string words = Words("two", StrCat(kTwo, "--seeds 2 --json --csv two.csv --svg two.svg"));
  const Outcome outcome = Moka(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(OutcomesOf(json),
            (std::vector<std::string>{"slow 1 reached", "fast 1 reached", "slow 2 reached", "fast 2 reached"}));
  for (const Json& run : json.at("runs")) {
    const auto folder = run.at("run").get<std::string>();
    ExpectAgrees(run, TestsOf(folder), StatusOf(folder));
    EXPECT_EQ(Json::parse(ReadFile(folder_ / folder / "run.json")).at("seed"), run.at("seed"));
  }
  EXPECT_EQ(json.at("summaries").size(), 2U);
  EXPECT_TRUE(json.at("summaries")[0].at("clock_ratio").is_null());
  EXPECT_GT(json.at("summaries")[1].at("clock_ratio").at("median").get<double>(), 0);
  EXPECT_EQ(Split(ReadFile(folder_ / "two.csv"), '\n').size(), 6U);
  const std::string svg = ReadFile(folder_ / "two.svg");
  EXPECT_EQ(FaultOfXml(svg), "");
  size_t curves = 0;
  for (size_t at = svg.find("stroke-linejoin"); at != std::string::npos; at = svg.find("stroke-linejoin", at + 1))
    ++curves;
  EXPECT_EQ(curves, 4U);
  const std::vector<std::string> runs = RunsIn("two");
  EXPECT_EQ(runs.size(), 4U);

  const Outcome again = Moka(words);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, outcome.out) << "nothing is trained twice";
  EXPECT_EQ(RunsIn("two"), runs);
  const Outcome more = Moka(Words("two", StrCat(kTwo, "--seeds 3")));
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(RunsIn("two").size(), 6U);
  EXPECT_THAT(more.out, HasSubstr("3 of 3"));

  const Outcome other = Moka(Words("two", StrCat(kTwo, "weight_decay=0.1")));
  EXPECT_EQ(other.code, 64);
  EXPECT_THAT(other.err, HasSubstr("two.json holds another measurement: setting 1 was "));
  EXPECT_THAT(other.err, HasSubstr("weight_decay=0.1 --device=cpu"));
}

TEST_F(AccuracyCliTest, AnInterruptedBenchGoesOnWhereItWas) {
  const std::string words =
      Words("cut", "--target accuracy=1.1 --seeds 1 max_iter=4000 test_interval=100 --setting 'a: base_lr=0.01'");
  const Outcome cut = MokaStopped(words, "grep -qs '\"split\":\"test\"' cut/a-seed1-0001/metrics.jsonl");
  ASSERT_EQ(cut.code, 75) << cut.err;
  EXPECT_EQ(cut.out, "");
  EXPECT_THAT(cut.err, HasSubstr("the same command goes on from here"));
  EXPECT_EQ(OutcomesOf(File("cut")), std::vector<std::string>{"a 1 open"});
  EXPECT_EQ(StatusOf("cut/a-seed1-0001").at("state"), "interrupted");
  const Outcome whole = Moka(words);
  EXPECT_EQ(whole.code, 21) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("went on from a checkpoint"));
  const Json run = File("cut").at("runs")[0];
  EXPECT_EQ(run.at("outcome"), "missed");
  EXPECT_EQ(run.at("sessions"), 2);
  EXPECT_EQ(RunsIn("cut").size(), 1U);
  double before = -1;
  for (const Json& point : run.at("points")) {
    EXPECT_GT(point.at("clock_s").get<double>(), before);
    before = point.at("clock_s").get<double>();
  }
  EXPECT_EQ(run.at("points").back().at("iteration"), 4000);
}

TEST_F(AccuracyCliTest, AMissedTargetIsTheExitCodeOnceAllAreTrained) {
  const Outcome outcome = Moka(Words("missed", "--target accuracy=1.1 --seeds 2 max_iter=20"));
  EXPECT_EQ(outcome.code, 21) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("0 of 2"));
  EXPECT_EQ(RunsIn("missed").size(), 2U);
  const Outcome diverged =
      Moka(Words("bad", "--target accuracy=0.5 --seeds 1 --setting 'bad: base_lr=3e38' --setting 'good: base_lr=0.1'"));
  EXPECT_EQ(diverged.code, 20) << diverged.err;
  EXPECT_EQ(OutcomesOf(File("bad")), (std::vector<std::string>{"bad 1 diverged", "good 1 reached"}));
}

TEST_F(AccuracyCliTest, MistakesAreToldBeforeAnythingIsTrained) {
  const Outcome metric = Moka(Words("mistakes", "--target acuracy=0.5"));
  EXPECT_EQ(metric.code, 78);
  EXPECT_THAT(metric.err, HasSubstr("did you mean \"accuracy\"?"));
  EXPECT_TRUE(RunsIn("mistakes").empty());
  const std::map<std::string, std::string> mistakes = {
      {"", "what is trained for"},
      {"--target accuracy", "--target wants NAME=VALUE"},
      {"--target accuracy=much", "--target wants"},
      {"--target accuracy=0.5 target_value=0.3", "--target sets target_value"},
      {"--target accuracy=0.5 --setting 'base_lr=0.1'", "--setting wants 'NAME: key=value ...'"},
      {"--target accuracy=0.5 --setting 'a: random_seed=2'", "--seeds sets random_seed"},
      {"--target accuracy=0.5 --setting 'a: --devise=cpu'", "did you mean"},
      {"--target accuracy=0.5 --setting 'a: base_lr=1' --setting 'a: base_lr=2'", "two settings are called \"a\""},
      {"--target accuracy=0.5 --against caffe", "--against wants torch"},
      {"--target accuracy=0.5 --against torch", "no tools/bench/peers/to_target.py from here"},
      {"--target accuracy=0.5 --peer no_such_peer", "no_such_peer is not there"},
      {"--target accuracy=0.5 --pin cores", "--setting 'pinned: --pin=cores'"}};
  for (const auto& [words, fault] : mistakes) {
    const Outcome outcome = Moka(Words("mistakes", words));
    EXPECT_TRUE(outcome.code == 64 || outcome.code == 66) << words << ": " << outcome.code;
    EXPECT_THAT(outcome.err, HasSubstr(fault)) << words;
  }
  EXPECT_TRUE(RunsIn("mistakes").empty());
}

TEST_F(AccuracyCliTest, APeerTakesItsTurns) {
  const std::string target = "--target accuracy=0.5 --seeds 2 ";
  const Outcome outcome =
      Moka(Words("peer", target + "--against ours --peer 'sh peer.sh {seed} {target} {metric}' --json"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  const std::string own = json.at("settings")[0].at("name").get<std::string>();
  EXPECT_EQ(OutcomesOf(json),
            (std::vector<std::string>{own + " 1 reached", "ours 1 reached", own + " 2 reached", "ours 2 reached"}));
  const Json& peer = json.at("runs")[3];
  EXPECT_EQ(peer.at("clock_s"), 2);
  EXPECT_EQ(peer.at("value"), kTarget);
  EXPECT_EQ(peer.at("init_s"), 7);
  EXPECT_EQ(peer.at("version"), "sh 1");
  EXPECT_EQ(peer.at("run"), "peer/ours-seed2.jsonl");
  EXPECT_GT(json.at("summaries")[1].at("clock_ratio").at("median").get<double>(), 0);
  // It may write the file itself.
  WriteFileAtomically(folder_ / "own.sh", "sh peer.sh 1 0.9 accuracy > $1; echo on standard output");
  const Outcome own_file = Moka(Words("own", "--target accuracy=0.5 --seeds 1 --peer 'sh own.sh {out}'"));
  EXPECT_EQ(own_file.code, 0) << own_file.err;
  EXPECT_EQ(own_file.out.find("on standard output"), std::string::npos);
}

TEST_F(AccuracyCliTest, APeerThatFailsEndsTheTurns) {
  WriteFileAtomically(folder_ / "fails.sh", "exit 3");
  const Outcome fails = Moka(Words("fails", "--target accuracy=0.5 --seeds 1 --peer 'sh fails.sh'"));
  EXPECT_EQ(fails.code, 76);
  EXPECT_THAT(fails.err, HasSubstr("the peer ended with exit code 3"));
  WriteFileAtomically(folder_ / "silent.sh", "echo nothing");
  const Outcome silent = Moka(Words("silent", "--target accuracy=0.5 --seeds 1 --peer 'sh silent.sh'"));
  EXPECT_EQ(silent.code, 65);
  EXPECT_THAT(silent.err, HasSubstr("peer-seed1.jsonl has no last line"));
  EXPECT_EQ(OutcomesOf(File("silent"))[1], "peer 1 open");
}

}  // namespace
}  // namespace moka
