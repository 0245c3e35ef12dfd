// Whatever a person writes either happens or is refused: overrides of any layer's name, flags that nothing reads,
// folders that cannot be written, trainings in which no weight learns.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "proto/weights/weights.h"
#include "tests/tools/cli/flag_sweep.h"
#include "tests/tools/cli_fixture.h"
#include "tools/cli/command_line.h"
#include "tools/infer/tasks.h"

namespace moka {
namespace {

class RefusalsCli : public CliTest {
 protected:
  // Copies a case into the test's folder and runs moka there.
  static Outcome InCase(const std::string& name, const std::string& arguments) {
    const fs::path here = folder_ / name;
    if (!fs::exists(here)) fs::copy(fs::path(MOKA_SOURCE_DIR) / "tests/cases" / name, here);
    return RunShell(StrCat("cd '", here.string(), "' && OMP_NUM_THREADS=1 '", MOKA_BINARY, "' ", arguments), folder_);
  }
  static std::vector<float> Values(const Weights& weights, const std::string& layer, int index) {
    for (const NamedBlob& blob : weights.blobs) {
      if (blob.layer == layer && blob.index == index) return blob.values;
    }
    ADD_FAILURE() << "no blob " << layer << "/" << index;
    return {};
  }
};

TEST_F(RefusalsCli, AnOverrideNamesALayerWithASlash) {
  const Outcome trained =
      InCase("override-slash",
             "train solver.prototxt 'layer[loss3/classifier].inner_product_param.num_output=5' --device cpu");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Weights weights = ReadWeights(folder_ / "override-slash/runs/latest/checkpoints/iter_0000002.safetensors");
  ASSERT_FALSE(weights.blobs.empty());
  EXPECT_EQ(weights.blobs[0].layer, "loss3/classifier");
  EXPECT_EQ(weights.blobs[0].shape, Shape({5, 6}));
}

TEST_F(RefusalsCli, DeviceIdsStandBesideAFlagThatDoesNotSayAnotherNumber) {
  const Outcome of_cpu = InCase("override-slash", "train solver.prototxt --run d --device=cpu device_id=0");
  EXPECT_EQ(of_cpu.code, 0) << of_cpu.err;
  EXPECT_NE(of_cpu.err.find("device_id=0 has no use beside --device=cpu"), std::string::npos) << of_cpu.err;
  for (const std::string words : {"--device=gpu device_id=0", "--device=gpu:0 'device_id=[0]'",
                                  "--gpu=0,1 'device_id=[0,1]'", "--gpu=all 'device_id=[0,1]'"}) {
    const Outcome trained = InCase("override-slash", "train solver.prototxt --run d " + words);
    EXPECT_TRUE(trained.code == 0 || trained.code == 69) << words << ": " << trained.code << trained.err;  // no GPU
  }
  const Outcome another = InCase("override-slash", "train solver.prototxt --run d --gpu=0 ' solver.device_id = 1'");
  EXPECT_EQ(another.code, 64) << another.err;
}

TEST_F(RefusalsCli, TheFolderOfASnapshotPrefixIsMade) {
  const Outcome trained = InCase("snapshot-prefix-folder", "train solver.prototxt --run r --device cpu");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(fs::exists(folder_ / "snapshot-prefix-folder/out/s_iter_40.caffemodel"));
  EXPECT_TRUE(fs::exists(folder_ / "snapshot-prefix-folder/out/s_iter_50.solverstate"));
}

TEST_F(RefusalsCli, APrefixThatCannotBeWrittenIsRefusedBeforeTheRunIsMade) {
  const Outcome refused =
      InCase("snapshot-prefix-folder", "train solver.prototxt --run q --device cpu snapshot_prefix=d.h5/s");
  EXPECT_EQ(refused.code, 73) << refused.err;
  EXPECT_NE(refused.err.find("snapshot_prefix \"d.h5/s\""), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(folder_ / "snapshot-prefix-folder/runs/q-0001"));
}

TEST_F(RefusalsCli, APrefixLostWhileTrainingLosesNoIteration) {
  const fs::path here = folder_ / "snapshot-prefix-folder";
  InCase("snapshot-prefix-folder", "version");
  fs::create_directories(here / "lost/s_iter_40.caffemodel/in the way");
  const std::string run = "train solver.prototxt --run lost --device cpu snapshot_prefix=lost/s";
  const Outcome ended = InCase("snapshot-prefix-folder", run);
  EXPECT_EQ(ended.code, 74) << ended.err;
  EXPECT_NE(ended.err.find("iter_0000040 is whole"), std::string::npos) << ended.err;
  const Outcome resumed = InCase("snapshot-prefix-folder", "train --resume=lost-0001 snapshot_prefix=found/s");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("resuming at iteration 40"), std::string::npos) << resumed.err;
  EXPECT_TRUE(fs::exists(here / "found/s_iter_50.caffemodel"));
}

TEST_F(RefusalsCli, WithoutAWeightThatLearnsStatisticsAreMadeAnew) {
  for (const std::string more : {"", " iter_size=1 type=Adam", " --ranks 2 base_lr=0.1"}) {
    const Outcome trained =
        InCase("frozen-weights-statistics", StrCat("train solver.prototxt --run r --device cpu", more));
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_NE(trained.err.find("no weight learns"), std::string::npos) << trained.err;
    const fs::path checkpoint = folder_ / "frozen-weights-statistics/runs/latest/checkpoints/iter_0000004.safetensors";
    const Weights weights = ReadWeights(checkpoint);
    if (more.empty()) {
      const std::vector<double> mean = {3.4836, 4.4056, 4.8719};
      const std::vector<double> variance = {10.9719, 14.847, 15.1329};
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(Values(weights, "bn", 0).at(i), mean[i], 1e-4);
        EXPECT_NEAR(Values(weights, "bn", 1).at(i), variance[i], 1e-4);
      }
    }
    EXPECT_NEAR(Values(weights, "bn", 2).at(0), 3.994004, 1e-6);
  }
}

// A net whose layers have names that other tools stumble over, over a case's data.
std::string NetOfNames(const std::vector<std::string>& names) {
  std::string text =
      "name: \"net/of: n\\303\\244mes\" layer { name: \"data\" type: \"HDF5Data\" top: \"x\" top: \"y\" "
      "hdf5_data_param { source: \"list.txt\" batch_size: 4 } }\n";
  std::string bottom = "x";
  for (const std::string& name : names) {
    text +=
        StrCat("layer { name: \"", name, "\" type: \"InnerProduct\" bottom: \"", bottom, "\" top: \"", name,
               "/top\" inner_product_param { num_output: 6 weight_filler { type: \"xavier\" } } }\nlayer { name: \"",
               name, "+relu\" type: \"ReLU\" bottom: \"", name, "/top\" top: \"", name, "/top\" }\n");
    bottom = name + "/top";
  }
  for (const char* one : {"one", "two"}) {
    text += StrCat("layer { name: \"", one, "\" type: \"InnerProduct\" bottom: \"", bottom, "\" top: \"", one,
                   "\" param { name: \"shared/w\" } param { name: \"shared +b\" } inner_product_param { num_output: 6 "
                   "weight_filler { type: \"xavier\" } } }\n");
    bottom = one;
  }
  return text + "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"two\" bottom: \"y\" top: \"loss\" }\n";
}

const std::vector<std::string>& OddNames() {
  static const std::vector<std::string> names = {"inception_3a/1x1",
                                                 "branch+a",
                                                 "a b",
                                                 "caf\u00e9 \u5c42",
                                                 std::string(300, 'x'),
                                                 "..",
                                                 "a/../b",
                                                 "0",
                                                 "con.v",
                                                 "[q]",
                                                 "-n",
                                                 "a:b",
                                                 "@history",
                                                 "w/@history"};
  return names;
}

TEST_F(RefusalsCli, ANetOfAnyNamesTrainsResumesAndConverts) {
  InCase("override-slash", "version");
  const fs::path here = folder_ / "override-slash";
  WriteFileAtomically(here / "names.prototxt", NetOfNames(OddNames()));
  const std::string words = "train solver.prototxt net=names.prototxt snapshot_prefix=s --device cpu ";
  const Outcome trained = InCase("override-slash", words + "--run names snapshot_format=HDF5");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome resumed = InCase("override-slash", "train --resume=names-0001 max_iter=4");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const std::vector<NamedBlob> own = ReadWeights(here / "runs/names-0001/checkpoints/iter_0000004.safetensors").blobs;
  EXPECT_EQ(own.size(), 2 * OddNames().size() + 4);
  for (const char* to : {"n.safetensors", "n.caffemodel", "n.caffemodel.h5", "n.solverstate", "n.solverstate.h5"}) {
    const Outcome converted = InCase("override-slash", StrCat("model convert runs/names-0001@last ", to));
    EXPECT_EQ(converted.code, 0) << to << "\n" << converted.err;
  }
  for (const char* file : {"n.safetensors", "n.caffemodel", "n.caffemodel.h5", "s_iter_4.caffemodel.h5"}) {
    std::vector<NamedBlob> blobs = ReadWeights(here / file).blobs;
    ASSERT_EQ(blobs.size(), own.size()) << file;
    for (const NamedBlob& blob : own) {
      const auto same = std::ranges::find_if(
          blobs, [&](const NamedBlob& one) { return one.layer == blob.layer && one.index == blob.index; });
      ASSERT_NE(same, blobs.end()) << file << ": " << blob.layer << "/" << blob.index;
      EXPECT_EQ(same->values, blob.values) << file << ": " << blob.layer;
    }
  }
  for (const char* state : {"n.solverstate", "n.solverstate.h5"}) {
    const Outcome gone_on = InCase("override-slash", StrCat(words, "--run more max_iter=5 --snapshot ", state));
    EXPECT_EQ(gone_on.code, 0) << gone_on.err;
  }
  EXPECT_EQ(InCase("override-slash", "test runs/names-0001 --iterations 2").code, 0);
  const Outcome seen = InCase("override-slash", "time names.prototxt --phase TEST --explain=branch+a");
  EXPECT_NE(seen.out.find("joins layers branch+a, branch+a+relu"), std::string::npos) << seen.out << seen.err;
}

TEST_F(RefusalsCli, AValueThatIsNotFiniteNamesItsLayerWhole) {
  InCase("override-slash", "version");
  WriteFileAtomically(folder_ / "override-slash/names.prototxt", NetOfNames({"inception_3a/1x1", "branch+a"}));
  const std::vector<NamedBlob> blobs = {{"inception_3a/1x1", 0, Shape({6, 6}), std::vector<float>(36, std::nanf(""))},
                                        {"inception_3a/1x1", 1, Shape({6}), std::vector<float>(6, 0.0F)}};
  WriteSafetensors(folder_ / "override-slash/nan.safetensors", blobs);
  const Outcome ended =
      InCase("override-slash", "train solver.prototxt net=names.prototxt --device cpu --weights nan.safetensors");
  EXPECT_EQ(ended.code, 20) << ended.err;
  const std::string layer = "inception_3a/1x1";
  EXPECT_NE(ended.err.find(StrCat("of layer \"", layer, "\"")), std::string::npos) << ended.err;
}

TEST_F(RefusalsCli, NamesThatHdf5CannotHoldAreRefusedBeforeTheFirstIteration) {
  InCase("override-slash", "version");
  for (const auto& names :
       std::vector<std::vector<std::string>>{{"/first"}, {"a//b"}, {"last/"}, {"./b"}, {"a", "a/0"}}) {
    WriteFileAtomically(folder_ / "override-slash/names.prototxt", NetOfNames(names));
    const std::string words =
        "train solver.prototxt net=names.prototxt --device cpu snapshot_prefix=s snapshot_format=";
    const Outcome refused = InCase("override-slash", words + "HDF5");
    EXPECT_EQ(refused.code, 78) << names.back() << refused.err;
    EXPECT_NE(refused.err.find("an HDF5 file cannot hold layer"), std::string::npos) << refused.err;
    EXPECT_EQ(InCase("override-slash", words + "BINARYPROTO").code, 0) << names.back();
  }
}

const Verb& VerbNamed(const std::string& name) {
  const std::vector<Verb>& verbs = AllVerbs();
  return *std::ranges::find(verbs, name, &Verb::name);
}

TEST_F(RefusalsCli, EveryFlagOfATrainingDoesSomethingOrIsNamed) {
  const auto train = [&](const std::string& flag) {
    return InCase("override-slash", StrCat("train solver.prototxt --run sweep ", flag));
  };
  ASSERT_EQ(train("").code, 0);
  std::vector<OptionSpec> options = VerbNamed("train").options;
  options.insert(options.end(), CommonOptions().begin(), CommonOptions().end());
  EXPECT_EQ(SweepFlags(options, train), (std::set<std::string>{}));
}

TEST_F(RefusalsCli, EveryFlagOfATestDoesSomethingOrIsNamed) {
  ASSERT_EQ(InCase("override-slash", "train solver.prototxt --run sweep --device cpu").code, 0);
  const auto test = [&](const std::string& flag) {
    return InCase("override-slash", StrCat("test runs/latest ", flag));
  };
  ASSERT_EQ(test("").code, 0) << test("").err;
  std::vector<OptionSpec> options = VerbNamed("test").options;
  std::erase_if(options, [](const OptionSpec& option) { return option.name == "model"; });  // in place of the run
  EXPECT_EQ(SweepFlags(options, test), (std::set<std::string>{"ap-version", "per-class", "recompute"}));
}

TEST_F(RefusalsCli, EveryFlagOfATimingDoesSomethingOrIsNamed) {
  const auto time = [&](const std::string& flag) {
    return InCase("override-slash", StrCat("time net.prototxt ", flag));
  };
  ASSERT_EQ(time("").code, 0) << time("").err;
  std::vector<OptionSpec> options = VerbNamed("time").options;
  std::erase_if(options, [](const OptionSpec& option) { return option.name == "model"; });  // in place of the file
  EXPECT_EQ(SweepFlags(options, time), (std::set<std::string>{}));
}

TEST_F(RefusalsCli, EveryFlagOfAnInferenceDoesSomethingOrIsNamed) {
  const std::string& run = Run();
  ASSERT_EQ(Moka("data export data/test drawn --limit 1").code, 0);
  std::string digit;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_ / "drawn")) {
    if (entry.path().extension() == ".png") digit = entry.path().string();
  }
  std::set<std::string> expected = {"out"};
  for (const InferTask& task : AllInferTasks()) {
    for (const OptionSpec& option : task.options) expected.insert(option.name);
  }
  for (const char* used : {"top", "text", "annotate"}) expected.erase(used);  // it classifies, and says what it needs
  std::vector<OptionSpec> options = VerbNamed("infer").options;
  std::erase_if(options, [](const OptionSpec& option) { return option.name == "model" || option.name == "weights"; });
  const auto infer = [&](const std::string& flag) { return Moka(StrCat("infer ", run, " '", digit, "' ", flag)); };
  ASSERT_EQ(infer("").code, 0) << infer("").err;
  EXPECT_EQ(SweepFlags(options, infer), expected);
}

TEST_F(RefusalsCli, AResumedRunReadsTheSolverThatIsNamed) {
  const auto moka = [](const std::string& arguments) { return InCase("resume-reads-the-solver", arguments); };
  ASSERT_EQ(moka("train solver.prototxt --run r --device cpu").code, 0);
  const Outcome longer = moka("train longer.prototxt --resume=r-0001 --device cpu");
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_NE(longer.err.find("finished at iteration 4"), std::string::npos) << longer.err;
  for (const auto& [solver, difference] :
       {std::pair("faster", "the solver changed since iter_0000004: was base_lr: 0.1; is base_lr: 0.2"),
        {"wider", "the train net changed since iter_0000004: was num_output: 2; is num_output: 3"}}) {
    const Outcome refused = moka(StrCat("train ", solver, ".prototxt --resume=r-0001 --device cpu"));
    EXPECT_EQ(refused.code, 64) << refused.err;
    EXPECT_NE(refused.err.find(difference), std::string::npos) << refused.err;
  }
  // Overrides that the run was started with still hold, whichever solver is named, until the words say otherwise.
  ASSERT_EQ(moka("train solver.prototxt --run k base_lr=0.2 --device cpu").code, 0);
  const Outcome kept = moka("train longer.prototxt --resume=k-0001 --device cpu");
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_NE(kept.err.find("as the run was started: base_lr=0.2\n"), std::string::npos) << kept.err;
  // Overrides of a later session hold for it, not for a solver that is named after it.
  ASSERT_EQ(moka("train solver.prototxt --run m --device cpu").code, 0);
  ASSERT_EQ(moka("train --resume=m-0001 --device cpu max_iter=3").code, 0);
  const Outcome later = moka("train longer.prototxt --resume=m-0001 --device cpu");
  EXPECT_EQ(later.code, 0) << later.err;
  EXPECT_NE(later.err.find("finished at iteration 4"), std::string::npos) << later.err;
  EXPECT_EQ(later.err.find("as the run was started"), std::string::npos) << later.err;
}

TEST_F(RefusalsCli, WeightsInTheTextOfANetAreItsFirst) {
  const Outcome trained = InCase("weights-in-the-text", "train solver.prototxt --run r --device cpu");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Weights weights = ReadWeights(folder_ / "weights-in-the-text/runs/latest/checkpoints/iter_0000001.safetensors");
  EXPECT_EQ(Values(weights, "ip", 0), std::vector<float>({1, 2, 3, 4}));
  EXPECT_EQ(Values(weights, "ip", 1), std::vector<float>({0.5, 0.25}));
}

// Stages that no rule names, fillers of a second use, share_mode without a name, types of layers, evaluations without
// a test net: each is said at its place, and once.
TEST_F(RefusalsCli, WordsWithoutUseAreWarnedOfOnce) {
  const Outcome trained = InCase("words-without-use", "train solver.prototxt --run r --device cpu");
  ASSERT_EQ(trained.code, 0) << trained.err;
  std::vector<std::string> places;
  for (const std::string& line : Split(trained.err, '\n')) {
    if (line.starts_with("warning: ")) places.push_back(line.substr(9, line.find(": ", 9) - 9));
  }
  std::ranges::sort(places);
  EXPECT_EQ(places, std::vector<std::string>({"net.prototxt:24:3", "net.prototxt:31:3", "net.prototxt:33:39",
                                              "solver.prototxt:10:1", "solver.prototxt:13:1", "solver.prototxt:14:1",
                                              "solver.prototxt:15:1", "solver.prototxt:2:1", "solver.prototxt:6:1"}))
      << trained.err;
}

TEST_F(RefusalsCli, AFlagOfAnotherTaskIsRefusedWithWhatItNeeds) {
  const std::string& run = Run();
  const std::vector<OptionSpec> own = ClassifyTask().options;
  size_t refused = 0;
  for (const InferTask& task : AllInferTasks()) {
    for (const OptionSpec& option : task.options) {
      if (std::ranges::find(own, option.name, &OptionSpec::name) != own.end()) continue;
      if (option.name == "text" || option.name == "out") continue;  // which say by themselves what they need
      const std::string value = option.value.empty() || option.value.starts_with("[") ? "" : "=1";
      const Outcome outcome = Moka(StrCat("infer ", run, " --dry-run --", option.name, value));
      EXPECT_EQ(outcome.code, 64) << option.name << "\n" << outcome.err;
      EXPECT_NE(outcome.err.find(StrCat("--", option.name, " has no use here")), std::string::npos) << outcome.err;
      EXPECT_NE(outcome.err.find(StrCat("task: ", ModelCard::Task_Name(task.task))), std::string::npos) << outcome.err;
      ++refused;
    }
  }
  EXPECT_GE(refused, 10U);
  const Outcome out = Moka(StrCat("infer ", run, " --dry-run --out x"));
  EXPECT_EQ(out.code, 64);
  EXPECT_NE(out.err.find("it needs a model that draws"), std::string::npos) << out.err;
  EXPECT_EQ(Moka(StrCat("infer ", run, " --dry-run --top 3 --json --trace=t.json --labels=x.txt 2>/dev/null")).code, 66)
      << "the labels' file is read";
}

TEST_F(RefusalsCli, WordsThatNothingReadsAreRefused) {
  const std::string& run = Run();
  for (const auto& [line, named] : std::vector<std::pair<std::string, std::string>>{
           {StrCat("test ", run, " more"), "\"more\""},
           {StrCat("test ", run, " base_lr=1"), "base_lr=1"},
           {StrCat("test more --model=", run, "/config/net.prototxt --weights=x"), "\"more\""},
           {StrCat("model show ", run, "/config/net.prototxt more"), "\"more\""},
           {StrCat("model show ", run, "/config/net.prototxt base_lr=2"), "base_lr=2"},
           {"version more", "\"more\""},
           {"version a=b", "a=b"},
           {"device a=b", "a=b"},
           {"launch -n 2 more -- version", "\"more\""},
           {"train x.prototxt --int8=x.json", "--int8"}}) {
    const Outcome outcome = Moka(line);
    EXPECT_GT(outcome.code, 0) << line;
    EXPECT_NE(outcome.err.find(named), std::string::npos) << line << "\n" << outcome.err;
  }
}

// A line that cannot be as it was written is refused before anything is made of it.
TEST_F(RefusalsCli, WordsThatWouldComeToNothingLeaveNothing) {
  const std::string& run = Run();
  const std::string weights = run + "/checkpoints/best.safetensors";
  const std::string net = run + "/config/net.prototxt";
  for (const auto& [line, named] : std::vector<std::pair<std::string, std::string>>{
           {StrCat("export ", run, " ", weights, " --to onnx --out made.onnx"), "nothing reads"},
           {StrCat("export ", run, " --to npz --mean 7 --out made.npz"), "--mean has no place in a .npz"},
           {StrCat("export ", run, " --to caffe --labels x.txt --out made.caffemodel"), "--labels has no place"},
           {StrCat("export ", run, " --to caffe --out made.caffemodel --deploy made.caffemodel"), "--deploy writes"},
           {StrCat("export ", run, " --to onnx --scale 1e-60 --out made.onnx"), "1e-60 is nearer to 0"},
           {StrCat("extract_features ", weights, " ", net, " ip1 made 99999999999999999999999 lmdb"), "batches"},
           {StrCat("extract_features ", weights, " ", net, " ip1 made ' 1' lmdb"), "batches"},
           {StrCat("extract_features ", weights, " ", net, " ip1,ip2 made,made 1 lmdb"), "twice"},
           {"convert_annoset . x.txt made --resize_height 4", "resize to height 4 and width 0"},
           {"convert_annoset . x.txt made --resize_height 4 --resize_width 4 --min_dim 16", "at once"},
           {"convert_annoset . x.txt made --check_label", "--check_label"},
           {"data inspect data/test --per-class 3", "--per-class"},
           {"data inspect data/test --sheet made.jpg", "name it made.png"},
           {StrCat("data preview ", net, " --out made.jpg"), "name it made.png"},
           {"data mean data/test made.npy", "name it made.binaryproto"},
           {"data export data/test made --first 1000000", "--first is 1000000"},
           {"data import glyphs:8:1 made --limit 0", "--limit"},
           {"data split nothing --parts a=0.5 --out made", "nothing"},
           {StrCat("model show ", net, " --shape 'data=2,1,28,28;data=64,1,28,28'"), "twice"}}) {
    const Outcome outcome = Moka(line);
    EXPECT_GT(outcome.code, 0) << line;
    EXPECT_NE(outcome.err.find(named), std::string::npos) << line << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << line;
    for (const auto& entry : fs::directory_iterator(folder_))
      EXPECT_FALSE(entry.path().filename().string().starts_with("made")) << line << ": " << entry.path();
  }
}

// A flag that no source asks for by name cannot do anything.
TEST(Flags, EveryFlagOfEveryVerbIsAskedForByName) {
  std::string sources;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(MOKA_SOURCE_DIR) / "tools")) {
    if (entry.path().extension() == ".cpp") sources += ReadFile(entry.path());
  }
  const std::function<void(const Verb&, const std::string&)> check = [&](const Verb& verb, const std::string& path) {
    for (const OptionSpec& option : verb.options) {
      const bool is_asked_for = std::ranges::any_of(
          std::vector<std::string>{"Has(\"", "Get(\"", "Int(\"", "Number(\"", "Peek(\"", "{\"", "write(\"",
                                   "arguments, \""},
          [&](const std::string& call) {
            const std::string text = StrCat(call, option.name, "\"");
            // A row of options begins as a list of names does: what follows tells them apart.
            for (size_t at = sources.find(text); at != std::string::npos; at = sources.find(text, at + 1)) {
              if (call != "{\"") return true;
              const std::string_view rest = std::string_view(sources).substr(at + text.size(), 3);
              if (!rest.starts_with(", \"") || sources.substr(at + text.size(), 200).find('}') < 40) return true;
            }
            return false;
          });
      EXPECT_TRUE(is_asked_for) << "moka " << path << " --" << option.name;
    }
    for (const Verb& subverb : verb.subverbs) check(subverb, StrCat(path, " ", subverb.name));
  };
  for (const Verb& verb : AllVerbs()) check(verb, verb.name);
}

}  // namespace
}  // namespace moka
