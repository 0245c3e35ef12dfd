// moka train by several ranks, as processes that mpirun starts and as threads of one: the same training as that of one
// rank.
#include <map>
#include <set>
#include <utility>

#include "optim/checkpoint/state_file.h"
#include "optim/checkpoint/trainer_state.h"
#include "proto/weights/weights.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

constexpr int kIterations = 20;

class RanksTrainCliTest : public CliTest {
 protected:
  static fs::path RunOf(const std::string& name) { return folder_ / "runs" / StrCat(name, "-0001"); }
  static fs::path CheckpointOf(const std::string& name, int64_t iteration, const std::string& ending) {
    std::string number = std::to_string(iteration);
    number.insert(0, 7 - number.size(), '0');
    return RunOf(name) / "checkpoints" / StrCat("iter_", number, ending);
  }
  // The weights of the last checkpoint of run NAME.
  static std::vector<NamedBlob> WeightsOf(const std::string& name) {
    return ReadWeights(CheckpointOf(name, kIterations, ".safetensors")).blobs;
  }
  static void ExpectWeightsNear(const std::string& name, const std::string& other) {
    const std::vector<NamedBlob> expected = WeightsOf(other);
    const std::vector<NamedBlob> blobs = WeightsOf(name);
    ASSERT_EQ(blobs.size(), expected.size());
    for (size_t b = 0; b < blobs.size(); ++b) {
      EXPECT_EQ(blobs[b].layer, expected[b].layer);
      ASSERT_EQ(blobs[b].values.size(), expected[b].values.size());
      float largest = 0;
      for (size_t i = 0; i < blobs[b].values.size(); ++i) {
        largest = std::max(largest, std::abs(blobs[b].values[i] - expected[b].values[i]));
      }
      EXPECT_LE(largest, 5e-5F) << blobs[b].layer << "/" << blobs[b].index;
    }
  }
  static void ExpectSameCheckpoints(const std::string& name, const std::string& other, int64_t iteration) {
    const auto weights = [&](const std::string& run) { return ReadFile(CheckpointOf(run, iteration, ".safetensors")); };
    EXPECT_EQ(weights(name), weights(other)) << name << " " << other << " " << iteration;
    EXPECT_EQ(StateOf(name, iteration), StateOf(other, iteration)) << name << " " << other << " " << iteration;
  }
  // The sections of a run's state by their names, but for the clock: no two runs take the same time.
  static std::map<std::string, std::string> StateOf(const std::string& name, int64_t iteration) {
    const std::string bytes = ReadFile(CheckpointOf(name, iteration, ".state"));
    std::map<std::string, std::string> sections;
    for (const StateSection& section : ReadState(bytes, name)) sections[section.name] = section.body;
    TrainerState trainer = TrainerStateFromJson(sections.at("trainer"), name);
    EXPECT_GT(std::exchange(trainer.clock_s, 0), 0);
    sections.at("trainer") = ToJson(trainer);
    return sections;
  }
  static std::string Train(const std::string& name, int64_t iterations = kIterations, int test_interval = 10,
                           int display = 0) {
    return StrCat("train '", MOKA_SOURCE_DIR,
                  "/models/lenet' 'layer[0].data_param.source=data/train' 'layer[1].data_param.source=data/test' "
                  "'layer[0].data_param.batch_size=8' 'layer[1].data_param.batch_size=10' "
                  "'test_iter=[2]' random_seed=5 --threads=1 display=",
                  display, " test_interval=", test_interval, " max_iter=", iterations, " --run=", name);
  }
  static Outcome MokaByMpi(int ranks, const std::string& arguments) {
    return RunShell(
        StrCat("cd '", folder_.string(), "' && OMP_NUM_THREADS=1 mpirun --oversubscribe --bind-to none -np ", ranks,
               " '", MOKA_BINARY, "' ", arguments),
        folder_);
  }
  // Returns a run's lines, without times, that depend on no clock: "Iteration 5, lr = 0.01".
  static std::vector<std::string> LinesOf(const std::string& name) {
    std::vector<std::string> lines;
    for (const std::string& line : Split(ReadFile(RunOf(name) / "log.txt"), '\n')) {
      const std::string text = line.substr(std::min(line.find("] "), line.size()));
      for (const char* kind :
           {"Test net output", "Train net output", "lr = ", "loss = ", "random_seed", "Snapshotting"}) {
        if (text.find(kind) == std::string::npos || text.find("iter/s") != std::string::npos) continue;
        lines.push_back(text.substr(0, text.find("runs/")));
      }
    }
    return lines;
  }
  static std::set<std::string> FilesOf(const std::string& name) {
    std::set<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(RunOf(name))) {
      const std::string file = fs::relative(entry.path(), RunOf(name)).string();
      if (!file.starts_with("events/events")) files.insert(file);
    }
    return files;
  }
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    ASSERT_EQ(Moka("data import glyphs:90:1 data/train").code, 0);
    ASSERT_EQ(Moka("data import glyphs:20:2 data/test").code, 0);
  }
};

TEST_F(RanksTrainCliTest, TwoProcessesTrainAsOneDoes) {
  const Outcome alone = Moka(Train("alone"));
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Outcome two = MokaByMpi(2, Train("two"));
  ASSERT_EQ(two.code, 0) << two.err;
  ExpectWeightsNear("two", "alone");
  for (int rank = 0; rank < 2; ++rank) {
    const Json state = Json::parse(ReadFile(RunOf("two") / StrCat("ranks/rank-", rank, ".json")));
    EXPECT_EQ(state.at("state"), "ended");
    EXPECT_EQ(state.at("lost"), -1);
  }
}

TEST_F(RanksTrainCliTest, ATestCountsEachRecordOnceWhateverItsBatch) {
  ASSERT_EQ(Moka(Train("tested", 10)).code, 0);
  const auto outputs = [&](int batch) {
    const Outcome tested =
        Moka(StrCat("test runs/tested-0001 'layer[1].data_param.batch_size=", batch, "' --json --kernels=listed"));
    EXPECT_EQ(tested.code, 0) << tested.err;
    EXPECT_EQ(tested.err.find("twice"), std::string::npos) << tested.err;
    return Json::parse(tested.out).at("outputs");
  };
  const Json once = outputs(20);
  for (const int batch : {3, 7, 19, 32}) {
    const Json cut = outputs(batch);
    EXPECT_NEAR(cut.at("accuracy").get<double>(), once.at("accuracy").get<double>(), 1e-6) << batch;
    EXPECT_NEAR(cut.at("loss").get<double>(), once.at("loss").get<double>(), 1e-5) << batch;
  }
}

TEST_F(RanksTrainCliTest, ThreadsOfOneProcessTrainAsProcessesDo) {
  const std::string same = " deterministic=true snapshot=10 --kernels=listed";
  ASSERT_EQ(Moka(Train("one", kIterations, 10, 5) + same).code, 0);
  const Outcome processes = MokaByMpi(2, Train("processes", kIterations, 10, 5) + same);
  ASSERT_EQ(processes.code, 0) << processes.err;
  const Outcome threads = Moka(Train("threads", kIterations, 10, 5) + same + " --ranks=2 --trace=threads.json");
  ASSERT_EQ(threads.code, 0) << threads.err;
  ExpectSameCheckpoints("threads", "processes", 10);
  ExpectSameCheckpoints("threads", "processes", kIterations);
  ExpectWeightsNear("threads", "one");
  EXPECT_EQ(LinesOf("threads"), LinesOf("processes"));
  EXPECT_FALSE(LinesOf("threads").empty());
  std::set<std::string> files = FilesOf("processes");
  EXPECT_EQ(files.erase("log.rank1.txt"), 1U);
  EXPECT_EQ(FilesOf("threads"), files);
  const Json trace = Json::parse(ReadFile(folder_ / "threads.json"));
  std::set<std::string> lanes;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name") lanes.insert(event.at("args").at("name").get<std::string>());
  }
  EXPECT_TRUE(lanes.contains("program of rank 0") && lanes.contains("program of rank 1"));
}

TEST_F(RanksTrainCliTest, AListOfDevicesIsARankForEach) {
  const std::string same = " deterministic=true --kernels=listed";
  const Outcome listed = Moka(Train("listed", 4) + same + " --device=cpu,cpu");
  ASSERT_EQ(listed.code, 0) << listed.err;
  const Outcome counted = Moka(Train("counted", 4) + same + " --ranks=2");
  ASSERT_EQ(counted.code, 0) << counted.err;
  ExpectSameCheckpoints("listed", "counted", 4);
}

TEST_F(RanksTrainCliTest, ThreadsGoOnFromASignalsCheckpoint) {
  const std::string same = " deterministic=true --kernels=listed lr_policy='\"fixed\"' base_lr=0.001";
  const Outcome stopped =
      MokaStopped(Train("stopped", 1000000, 100000) + same + " --ranks=2",
                  "grep -q training '" + (RunOf("stopped") / "ranks/rank-1.json").string() + "' 2>/dev/null");
  ASSERT_EQ(stopped.code, 75) << stopped.err;
  const int64_t done = Json::parse(ReadFile(RunOf("stopped") / "status.json")).at("iter");
  ASSERT_GT(done, 0);
  const Outcome resumed = Moka(StrCat("train --resume=stopped-0001 --ranks=2 --threads=1 max_iter=", done + 5));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const Outcome whole = Moka(Train("whole", done + 5, 100000) + same + " --ranks=2");
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(ReadFile(CheckpointOf("stopped", done + 5, ".safetensors")),
            ReadFile(CheckpointOf("whole", done + 5, ".safetensors")));
}

TEST_F(RanksTrainCliTest, AnErrorOfOneThreadEndsAllAndIsTheOneReported) {
  ASSERT_EQ(Moka("data export data/test pictures --limit 1").code, 0);
  const std::string picture = fs::directory_iterator(folder_ / "pictures")->path().string();
  std::string list;
  for (int i = 0; i < 40; ++i) list += StrCat(i == 31 ? "gone.png" : picture, " 0\n");  // odd: the second rank's
  WriteFileAtomically(folder_ / "list.txt", list);
  WriteFileAtomically(folder_ / "gone.prototxt", R"(
    layer { name: "data" type: "ImageData" top: "data" top: "label"
            image_data_param { source: "list.txt" batch_size: 2 is_color: false } }
    layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
            inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
  WriteFileAtomically(folder_ / "solver.prototxt",
                      "net: \"gone.prototxt\" base_lr: 1e-6 lr_policy: \"fixed\" max_iter: 40");
  const Outcome outcome = Moka("train solver.prototxt --ranks=2 --threads=1 --run=gone");
  EXPECT_EQ(outcome.code, 66);
  EXPECT_NE(outcome.err.find("image \"gone.png\" (index 31) of list.txt"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("error: "), outcome.err.rfind("error: ")) << outcome.err;
  const Json status = Json::parse(ReadFile(RunOf("gone") / "status.json"));
  EXPECT_EQ(status.at("state"), "failed");
  EXPECT_NE(status.at("error").get<std::string>().find("rank 1 on "), std::string::npos);
}

TEST_F(RanksTrainCliTest, ASilentThreadIsGivenUpAfterTheDeadline) {
  const std::string line =
      StrCat("cd '", folder_.string(), "' && rm -f hush; (until grep -q training '",
             (RunOf("silent") / "ranks/rank-1.json").string(),
             "' 2>/dev/null; do sleep 0.02; done; touch hush) & OMP_NUM_THREADS=1 MOKA_SILENCE=1:'",
             (folder_ / "hush").string(), "' '", MOKA_BINARY, "' ", Train("silent", 1000000, 100000),
             " base_lr=0.0001 distributed.deadline_s=1 --ranks=2");
  const Outcome outcome = RunShell(line, folder_);
  EXPECT_EQ(outcome.code, 76);
  EXPECT_NE(outcome.err.find("has waited 1 s for rank"), std::string::npos) << outcome.err;
}

TEST_F(RanksTrainCliTest, ALaunchedProcessHasNoRanksOfItsOwn) {
  const Outcome outcome = MokaByMpi(2, Train("nested") + " --ranks=2");
  EXPECT_EQ(outcome.code, 64);
  EXPECT_NE(outcome.err.find("--ranks=2 makes ranks of this process, and a launcher has started it"), std::string::npos)
      << outcome.err;
  EXPECT_FALSE(fs::exists(RunOf("nested")));
}

}  // namespace
}  // namespace moka
