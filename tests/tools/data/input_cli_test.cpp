// Inference sees what the test saw: pictures' way into a net, weights and runs by their names.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "proto/weights/weights.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;
using testing::Not;

class InputCliTest : public CliTest {
 protected:
  // A copy of a folder of tests/cases, made anew.
  static std::string Case(const std::string& name) {
    const fs::path to = folder_ / name;
    fs::remove_all(to);
    fs::copy(fs::path(MOKA_SOURCE_DIR) / "tests" / "cases" / name, to, fs::copy_options::recursive);
    return to.string();
  }
  // moka in a folder.
  static Outcome MokaIn(const std::string& folder, const std::string& arguments) {
    return RunShell(StrCat("cd '", folder, "' && OMP_NUM_THREADS=1 '", MOKA_BINARY, "' ", arguments), folder_);
  }
  // The scores of the first picture in the order of the outputs.
  static std::vector<double> Scores(const Outcome& inferred) {
    std::vector<double> scores;
    if (inferred.code != 0) {
      ADD_FAILURE() << inferred.err;
      return scores;
    }
    const Json found = Json::parse(inferred.out).at(0).at("top");
    scores.resize(found.size());
    for (const Json& one : found) scores.at(one.at("index").get<size_t>()) = one.at("score").get<double>();
    return scores;
  }
  // Trains the folder's net on its database and gives what `infer` answers; then the run is "elsewhere", the data gone.
  static std::vector<double> ScoresOfMovedRun(const std::string& folder, const std::string& infer) {
    PlaceFile(folder + "/solver.prototxt",
              "net: \"net.prototxt\" base_lr: 1e-6 lr_policy: \"fixed\" max_iter: 2 test_iter: 1 test_interval: 1 "
              "random_seed: 4");
    const Outcome trained = MokaIn(folder, "train solver.prototxt --run r --device cpu");
    EXPECT_EQ(trained.code, 0) << trained.err;
    std::vector<double> scores = Scores(MokaIn(folder, "infer runs/r-0001" + infer));
    fs::rename(folder + "/runs/r-0001", folder + "/elsewhere");
    fs::remove_all(folder + "/db");
    return scores;
  }
  // The values of `ip = V` lines.
  static std::vector<double> Tested(const Outcome& tested) {
    EXPECT_EQ(tested.code, 0) << tested.err;
    std::vector<double> values;
    for (const std::string& line : Split(tested.out, '\n')) {
      if (line.starts_with("ip = ")) values.push_back(std::stod(line.substr(5)));
    }
    return values;
  }
  static void Put(const std::string& file, const std::string& bytes) { PlaceFile(file, bytes); }
  static std::string Replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return text;
  }
};

const std::vector<double> kPixels = {134, 131, 123, 134, 125, 127, 122, 133, 123, 135, 121, 129};
constexpr const char* kInfer = "infer net.prototxt --weights pixels.safetensors p/a.png --top 12 --json";

TEST_F(InputCliTest, PicturesAreResizedAndCutAsByTheTest) {
  const std::string folder = Case("infer-resize-crop");
  EXPECT_EQ(Tested(MokaIn(folder, "test net.prototxt --weights pixels.safetensors --device cpu")), kPixels);
  EXPECT_EQ(Scores(MokaIn(folder, kInfer)), kPixels);
  // Folders and lists go the same way.
  EXPECT_EQ(Scores(MokaIn(folder, "infer net.prototxt --weights pixels.safetensors p --top 12 --json")), kPixels);
  EXPECT_EQ(Scores(RunShell(StrCat("cd '", folder, "' && echo p/a.png | '", MOKA_BINARY,
                                   "' infer net.prototxt --weights pixels.safetensors - --top 12 --json"),
                            folder_, "/dev/stdin")),
            kPixels);
}

TEST_F(InputCliTest, ADeployNetIsToldHow) {
  const std::string folder = Case("infer-resize-crop");
  const std::string net = ReadFile(folder + "/net.prototxt");
  const std::string deploy =
      "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 4 "
      "dim: 4 } } } layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
      "inner_product_param { num_output: 12 } }";
  Put(folder + "/net.prototxt", deploy);
  const Outcome unknown = MokaIn(folder, kInfer);
  EXPECT_THAT(unknown.err, HasSubstr("nothing says how pictures become the input \"data\""));
  EXPECT_NE(Scores(unknown), kPixels);
  const Outcome flagged = MokaIn(folder, StrCat(kInfer, " --resize 8x10"));
  EXPECT_THAT(flagged.err, Not(HasSubstr("nothing says")));
  EXPECT_EQ(Scores(flagged), kPixels);
  Put(folder + "/model.prototxt", "input { resize_height: 8 resize_width: 10 mean: 1 scale: 0.5 }");
  std::vector<double> halves = kPixels;
  for (double& value : halves) value = (value - 1) / 2;
  EXPECT_EQ(Scores(MokaIn(folder, kInfer)), halves);
  // Flags beat the card.
  EXPECT_EQ(Scores(MokaIn(folder, StrCat(kInfer, " --mean 0 --scale 1"))), kPixels);
  EXPECT_EQ(MokaIn(folder, StrCat(kInfer, " --resize 2x3")).code, 78);
  EXPECT_EQ(MokaIn(folder, StrCat(kInfer, " --resize 2x")).code, 64);
  const Outcome lone = MokaIn(folder, StrCat(kInfer, " --resize 8"));
  EXPECT_EQ(lone.code, 64);
  EXPECT_THAT(lone.err, HasSubstr("--resize 8x8 for both sides, --resize-short 8"));
  EXPECT_EQ(MokaIn(folder, StrCat(kInfer, " --resize 8x8 --resize-short 8")).code, 64);
  // The shorter side of 50x80 pixels becomes 8, the middle of 8x13 is taken: other pixels than of 8x10.
  const Outcome shorter = MokaIn(folder, StrCat(kInfer, " --resize-short 8"));
  EXPECT_EQ(shorter.code, 0) << shorter.err;
  EXPECT_NE(Scores(shorter), kPixels);
  EXPECT_EQ(MokaIn(folder, StrCat(kInfer, " --mean one")).code, 64);
  // The other order of colours: the first plane is red.
  Put(folder + "/model.prototxt", "input { resize_height: 8 resize_width: 10 channels: RGB mean: 9 mean: 0 mean: 0 }");
  const std::vector<double> red = Scores(MokaIn(folder, kInfer));
  EXPECT_NE(red, kPixels);
  Put(folder + "/model.prototxt", "input { channels: GREY }");
  EXPECT_EQ(MokaIn(folder, kInfer).code, 78);
  // The training net beside it says the same.
  fs::remove(folder + "/model.prototxt");
  Put(folder + "/train_val.prototxt", net);
  const Outcome beside = MokaIn(folder, kInfer);
  EXPECT_EQ(Scores(beside), kPixels);
  EXPECT_THAT(beside.err, Not(HasSubstr("nothing says")));
}

// The text that `moka data whiten` prints is a convolution's field, as a net takes it.
TEST_F(InputCliTest, WhiteningIsPrintedAsAConvolutionsField) {
  const std::string folder = Case("infer-mean-file");
  ASSERT_EQ(MokaIn(folder, "data import photos db --resize 10x16").code, 0);
  const Outcome printed = MokaIn(folder, "data whiten db --mean 1,2,3 --std 50,60,70");
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.out, HasSubstr("Pixels less 1, 2, 3 over 50, 60, 70"));
  EXPECT_THAT(printed.out, HasSubstr("num_output: 24 kernel_size: 2"));
  Put(folder + "/whitened.prototxt",
      StrCat("layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 6 dim: 6 } } }\n"
             "layer { name: 'whiten' type: 'Convolution' bottom: 'data' top: 'whiten'\n",
             printed.out, "}\n"));
  const Outcome shown = MokaIn(folder, "model show whitened.prototxt");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(MokaIn(folder, "data whiten db --kernel 17").code, 64);
  EXPECT_EQ(MokaIn(folder, "data whiten db --mean 1,2").code, 64);
  EXPECT_EQ(MokaIn(folder, "data whiten db --std 1,0,1").code, 64);
}

TEST_F(InputCliTest, AMeanImageSaysTheRecordsSize) {
  const std::string folder = Case("infer-mean-file");
  ASSERT_EQ(MokaIn(folder, "data import photos db --resize 10x16").code, 0);
  ASSERT_EQ(MokaIn(folder, "data mean db mean.binaryproto").code, 0);
  const std::string infer = "infer net.prototxt --weights pixels.safetensors photos/a/x.png --top 12 --json";
  EXPECT_EQ(Scores(MokaIn(folder, infer)), std::vector<double>(12, 0.0));
  EXPECT_EQ(Tested(MokaIn(folder, "test net.prototxt --weights pixels.safetensors --device cpu")),
            std::vector<double>(12, 0.0));
  // A net for deployment with the same image.
  Put(folder + "/net.prototxt",
      "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 6 dim: 6 } } } layer { "
      "name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 12 } }");
  EXPECT_EQ(Scores(MokaIn(folder, infer + " --mean mean.binaryproto")), std::vector<double>(12, 0.0));
  Put(folder + "/model.prototxt", "input { mean_file: 'mean.binaryproto' }");
  EXPECT_EQ(Scores(MokaIn(folder, infer)), std::vector<double>(12, 0.0));
}

TEST_F(InputCliTest, ADamagedPictureOfAFolderIsLeftOutAndTold) {
  const std::string folder = Case("infer-resize-crop");
  const std::string whole = ReadFile(folder + "/p/a.png");
  Put(folder + "/p/bad.png", whole.substr(0, whole.size() * 2 / 3));
  Put(folder + "/p/c.png", whole);
  const Outcome one = MokaIn(folder, "infer net.prototxt --weights pixels.safetensors p/bad.png");
  EXPECT_EQ(one.code, 65);
  EXPECT_THAT(one.err, HasSubstr("p/bad.png"));
  const Outcome all = MokaIn(folder, "infer net.prototxt --weights pixels.safetensors p --top 12 --json");
  EXPECT_EQ(all.code, 65);
  EXPECT_THAT(all.err, HasSubstr("p/bad.png"));
  EXPECT_THAT(all.err, HasSubstr("1 of 3 left out"));
  const Json found = Json::parse(all.out);
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[1]["file"], "p/c.png");
  EXPECT_EQ(found[0]["top"], found[1]["top"]);
}

TEST_F(InputCliTest, RunsAndCheckpointsAreFoundByTheirNames) {
  const std::string folder = Case("checkpoint-number");
  const auto expect = [&](const std::string& arguments, int code, const std::string& said = "") {
    const Outcome outcome = MokaIn(folder, arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr(said)) << arguments;
    return outcome.out;
  };
  expect("train solver.prototxt --run r --device cpu", 0);
  expect("train solver.prototxt --from r-0001@iter_2 --run f --device cpu", 0);
  expect("train solver.prototxt --weights r-0001@iter_02 --run g --device cpu", 0);
  expect("model convert r-0001@iter_2 net.caffemodel", 0);
  expect("model convert r-0001 last.caffemodel", 0);
  const std::string second = expect("test r-0001@iter_2", 0);
  EXPECT_EQ(expect("test net.prototxt --weights net.caffemodel", 0), second);
  const std::string last = expect("test r-0001", 0);
  EXPECT_NE(last, second);
  EXPECT_EQ(expect("test net.prototxt --weights r-0001@last", 0), last);
  EXPECT_EQ(expect("test net.prototxt --weights r-0001", 0), last);
  expect("time r-0001 --iterations 1 --device cpu", 0);
  expect("train --resume r-0001 max_iter=6 --device cpu", 0, "resuming at iteration 4");
  expect("train solver.prototxt --run equal --device cpu --iterations 1 solver.max_iter=1", 0);
  expect("train solver.prototxt --run equal --device cpu --iterations 1 'max_iter = 1'", 0);
  fs::rename(folder + "/runs", folder + "/elsewhere");
  EXPECT_NE(expect("test r-0001 --runs elsewhere", 0), second);
  fs::rename(folder + "/elsewhere", folder + "/runs");
  expect("test r-0002", 66, "did you mean \"r-0001\"?");
  expect("test r-0001@iter_3", 66, "iter_0000002");
  expect("model convert r-0001@iter_9 x.caffemodel", 66, "it has iter_0000002, iter_0000004");
  expect("model convert r-00001 x.caffemodel", 66, "did you mean \"r-0001\"?");
  expect("train solver.prototxt --from q-0001@iter_2", 66, "no run q-0001");
  expect("train --resume r-0001@iter_2", 64, "--from r-0001@iter_2");
}

TEST_F(InputCliTest, StatisticsWithoutASumOfWeightsAreTakenAsTheyAre) {
  const std::string folder = Case("batchnorm-factor-zero");
  const Weights weights = ReadWeights(folder + "/nvcaffe.safetensors");
  WriteCaffemodel(folder + "/w.caffemodel", {}, weights.blobs);
  WriteHdf5Weights(folder + "/w.caffemodel.h5", {}, weights.blobs);
  for (const char* file : {"nvcaffe.safetensors", "w.caffemodel", "w.caffemodel.h5"}) {
    const Outcome compared = MokaIn(folder, StrCat("compare deploy.prototxt blobs.npz --weights ", file));
    EXPECT_EQ(compared.code, 0) << compared.out << compared.err;
    EXPECT_THAT(compared.err, HasSubstr("taken as they are: bn")) << file;
  }
  // Caffe's own, whose sum is 1, are used without a word.
  std::vector<NamedBlob> caffes = weights.blobs;
  caffes.back().values = {1};
  WriteCaffemodel(folder + "/bvlc.caffemodel", {}, caffes);
  const Outcome compared = MokaIn(folder, "compare deploy.prototxt blobs.npz --weights bvlc.caffemodel");
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.err, Not(HasSubstr("taken as they are")));
}

TEST_F(InputCliTest, LayersThatTheWeightsLackAreAnError) {
  const std::string folder = Case("infer-resize-crop");
  const std::string net = ReadFile(folder + "/net.prototxt");
  Put(folder + "/more.prototxt",
      net +
          "layer { name: 'fc2' type: 'InnerProduct' bottom: 'ip' top: 'fc2' inner_product_param { num_output: 2 } } "
          "layer { name: 'fc3' type: 'InnerProduct' bottom: 'fc2' top: 'fc3' loss_weight: 1 inner_product_param { "
          "num_output: 2 } }");
  for (const char* verb : {"test more.prototxt", "infer more.prototxt p/a.png", "quantise more.prototxt --batches 1",
                           "frechet more.prototxt p p", "compare more.prototxt none.npz"}) {
    std::string words = verb;
    if (words.starts_with("compare")) {
      fs::copy_file(Case("batchnorm-factor-zero") + "/blobs.npz", folder + "/none.npz");
    }
    const Outcome outcome = MokaIn(folder, words + " --weights pixels.safetensors");
    EXPECT_EQ(outcome.code, 65) << verb << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("no weights of layers fc2, fc3")) << verb;
  }
  // A training may fill them, and says which.
  Put(folder + "/solver.prototxt",
      "net: 'more.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 1 random_seed: 1 type: 'SGD'");
  const Outcome trained = MokaIn(folder, "train solver.prototxt --weights pixels.safetensors --device cpu");
  EXPECT_THAT(trained.err, HasSubstr("these layers start fresh: fc2, fc3")) << trained.err;
}

TEST_F(InputCliTest, OddWeightsNamesAndOutputsAreSaid) {
  const std::string folder = Case("infer-resize-crop");
  Weights weights = ReadWeights(folder + "/pixels.safetensors");
  weights.blobs[0].values[5] = NAN;
  weights.blobs[0].values[6] = INFINITY;
  WriteSafetensors(folder + "/nan.safetensors", weights.blobs);
  EXPECT_THAT(MokaIn(folder, "infer net.prototxt --weights nan.safetensors p/a.png").err,
              HasSubstr("2 weights are NaN or infinite (blob 0 of layer \"ip\" 2 of 576)"));
  Put(folder + "/names.txt", "one\ntwo\n");
  EXPECT_THAT(MokaIn(folder, StrCat(kInfer, " --labels names.txt")).err,
              HasSubstr("2 class names, and output \"ip\" has 12 classes"));
  Put(folder + "/net.prototxt", ReadFile(folder + "/net.prototxt") +
                                    "layer { name: 'two' type: 'Flatten' bottom: 'data' top: 'two' } "
                                    "layer { name: 'three' type: 'Power' bottom: 'ip' top: 'three' }");
  EXPECT_THAT(MokaIn(folder, kInfer).err, HasSubstr("2 outputs (two, three): \"three\", the last in the net, is used"));
}

constexpr const char* kLabelledNet = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 1 } } }
layer { name: "spare" type: "Input" top: "spare" input_param { shape { dim: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 12 } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" }
)";

TEST_F(InputCliTest, OutputsOfAnInputThatNothingFillsAreLeftOut) {
  const std::string folder = Case("infer-resize-crop");
  Put(folder + "/labelled.prototxt", kLabelledNet);
  const Outcome inferred =
      MokaIn(folder, "infer labelled.prototxt --weights pixels.safetensors p/a.png --top 12 --json");
  EXPECT_EQ(Scores(inferred).size(), 12U);
  EXPECT_THAT(inferred.err,
              HasSubstr("output \"accuracy\" is left out: it needs input \"label\", which nothing fills"));
  EXPECT_THAT(inferred.err, Not(HasSubstr("spare")));
  EXPECT_THAT(inferred.err, Not(HasSubstr("outputs (")));
}

// Behind the scores, which the pictures alone give, there is only what needs another input.
TEST_F(InputCliTest, ScoresAnswerWhereEveryOutputNeedsAnotherInput) {
  const std::string folder = Case("infer-resize-crop");
  const std::string net = Replaced(ReadFile(folder + "/net.prototxt"), "type: \"Silence\" bottom: \"label\"",
                                   "type: \"SoftmaxWithLoss\" bottom: \"ip\" bottom: \"label\" top: \"loss\"") +
                          "layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }\n";
  Put(folder + "/scores.prototxt", net);
  Put(folder + "/behind.prototxt",
      net + "layer { name: 'spare' type: 'Input' top: 'spare' input_param { shape { dim: 1 dim: 12 } } }\n" +
          "layer { name: 'sum' type: 'Eltwise' bottom: 'prob' bottom: 'spare' top: 'sum' }\n");
  const std::string infer = " --weights pixels.safetensors p/a.png --top 12 --json";
  const Outcome inferred = MokaIn(folder, "infer behind.prototxt" + infer);
  EXPECT_EQ(Scores(inferred), Scores(MokaIn(folder, "infer scores.prototxt" + infer)));
  EXPECT_THAT(inferred.err, HasSubstr("output \"sum\" is left out: it needs input \"spare\""));
}

TEST_F(InputCliTest, ARunBesideANetGivesItsWeights) {
  const std::string folder = Case("infer-resize-crop");
  Put(folder + "/solver.prototxt",
      "net: 'train.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 1 random_seed: 1 snapshot_after_train: true");
  Put(folder + "/train.prototxt",
      "layer { name: 'd' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { "
      "shape { dim: 2 dim: 3 dim: 4 dim: 4 } shape { dim: 2 } } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 12 "
      "weight_filler { type: 'xavier' } } } "
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }");
  Put(folder + "/deploy.prototxt", kLabelledNet);
  const Outcome trained = MokaIn(folder, "train solver.prototxt --run r --device cpu");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome run = MokaIn(folder, "infer runs/r-0001 p/a.png --model deploy.prototxt --top 12 --json");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out, MokaIn(folder, "infer --model deploy.prototxt --weights r-0001 p/a.png --top 12 --json").out);
}

// A training on records of 10x16 that are cut to 6x6, then moved away from its database and its mean.
TEST_F(InputCliTest, ARunThatWasMovedInfersTheSame) {
  for (const std::string way : {"mean_file: \"mean.binaryproto\"", "mean_value: 3"}) {
    const std::string folder = Case("infer-mean-file");
    ASSERT_EQ(MokaIn(folder, "data import photos db --resize 10x16").code, 0);
    ASSERT_EQ(MokaIn(folder, "data mean db mean.binaryproto").code, 0);
    Put(folder + "/net.prototxt", StrCat(R"(layer { name: "data" type: "Data" top: "data" top: "label"
                          data_param { source: "db" batch_size: 1 backend: LMDB } transform_param { crop_size: 6 )",
                                         way, R"( } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })"));
    const std::string infer = " photos/a/x.png --top 3 --json";
    const std::vector<double> before = ScoresOfMovedRun(folder, infer);
    ASSERT_EQ(before.size(), 3U);
    fs::remove(folder + "/mean.binaryproto");
    EXPECT_EQ(Scores(MokaIn(folder, "infer elsewhere" + infer)), before) << way;
    fs::remove(folder + "/elsewhere/config/record_sizes.json");
    const Outcome unknown = MokaIn(folder, "infer elsewhere" + infer);
    if (way.starts_with("mean_value")) {
      EXPECT_THAT(unknown.err, HasSubstr("are not there to tell how large pictures are before the crop"));
    }
  }
}

// If there is no crop, the records' size is the input's.
TEST_F(InputCliTest, ARunWithoutACropThatWasMovedInfersTheSameOrAsks) {
  const std::string folder = Case("infer-mean-file");
  ASSERT_EQ(MokaIn(folder, "data import photos db --resize 10x16").code, 0);
  Put(folder + "/net.prototxt", R"(layer { name: "data" type: "Data" top: "data" top: "label"
                          data_param { source: "db" batch_size: 1 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "mean" type: "Pooling" bottom: "conv" top: "mean" pooling_param { pool: AVE global_pooling: true } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "mean" bottom: "label" top: "loss" })");
  const std::string infer = " photos/a/x.png --top 3 --json";
  const std::vector<double> before = ScoresOfMovedRun(folder, infer);
  ASSERT_EQ(before.size(), 3U);
  EXPECT_EQ(Scores(MokaIn(folder, "infer elsewhere" + infer)), before);
  fs::remove(folder + "/elsewhere/config/record_sizes.json");
  const Outcome unknown = MokaIn(folder, "infer elsewhere" + infer);
  EXPECT_EQ(unknown.code, 66);
  EXPECT_THAT(unknown.err, HasSubstr("nothing else says how large the pictures are"));
  EXPECT_THAT(unknown.err, HasSubstr("--resize HxW"));
  EXPECT_EQ(Scores(MokaIn(folder, "infer elsewhere --resize 10x16" + infer)), before);
}

// The shares of classes that a batch lacks, and of labels that are ignored, are of the whole test.
TEST_F(InputCliTest, AccuraciesDoNotDependOnTheBatch) {
  ASSERT_EQ(Moka("data import glyphs:40:2 shares").code, 0);
  Put((folder_ / "shares.prototxt").string(), R"(layer { name: "data" type: "Data" top: "data" top: "label"
        data_param { source: "shares" batch_size: 40 backend: LMDB } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
        inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
layer { name: "acc" type: "Accuracy" bottom: "ip" bottom: "label" top: "acc" top: "of_class" include { phase: TEST } }
layer { name: "some" type: "Accuracy" bottom: "ip" bottom: "label" top: "some" include { phase: TEST }
        accuracy_param { ignore_label: 3 } })");
  Put((folder_ / "shares_solver.prototxt").string(),
      "net: 'shares.prototxt' base_lr: 1e-4 lr_policy: 'fixed' max_iter: 20 random_seed: 4");
  const Outcome trained = Moka("train shares_solver.prototxt --run shares --device cpu");
  ASSERT_EQ(trained.code, 0) << trained.err;
  std::vector<Json> results;
  for (const char* batch : {"40", "7", "5", "1"}) {
    const Outcome tested =
        Moka(StrCat("test shares-0001 --json --device cpu 'layer[data].data_param.batch_size=", batch, "'"));
    ASSERT_EQ(tested.code, 0) << tested.err;
    results.push_back(Json::parse(tested.out).at("outputs"));
    for (const auto& [name, value] : results[0].items()) {
      if (name == "acc") {  // a mean of batches that count as much as they hold
        EXPECT_NEAR(results.back().at(name).get<double>(), value.get<double>(), 1e-6) << batch;
      } else if (name != "loss") {
        EXPECT_EQ(results.back().at(name).dump(), value.dump()) << name << " with batches of " << batch;
      }
    }
  }
  EXPECT_GT(results[0].at("some").get<double>(), 0);
}

TEST_F(InputCliTest, ARegressionsNumbersAreNoClasses) {
  const std::string folder = Case("infer-mean-file");
  Put(folder + "/numbers.csv", "image,age,height\nphotos/a/x.png,20,1.5\nphotos/a/x.png,30,1.7\n");
  const Outcome imported = MokaIn(folder, "data import csv:numbers.csv numbers");
  ASSERT_EQ(imported.code, 0) << imported.err;
  Put(folder + "/net.prototxt", R"(layer { name: "data" type: "RecordData" top: "data" top: "t"
        data_param { source: "numbers" batch_size: 1 }
        record_data_param { output: PICTURE output: TARGETS height: 8 width: 8 } transform_param { scale: 0.01 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "t" top: "loss" })");
  Put(folder + "/solver.prototxt", "net: 'net.prototxt' base_lr: 1e-4 lr_policy: 'fixed' max_iter: 2 random_seed: 4");
  const Outcome trained = MokaIn(folder, "train solver.prototxt --run r --device cpu");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome inferred = MokaIn(folder, "infer runs/r-0001 photos/a/x.png --json");
  ASSERT_EQ(inferred.code, 0) << inferred.err;
  const Json found = Json::parse(inferred.out).at(0);
  ASSERT_EQ(found.at("targets").size(), 2U) << found;
  EXPECT_EQ(found.at("targets").at(1).at("index"), 1);
  EXPECT_FALSE(found.contains("top"));
  EXPECT_EQ(MokaIn(folder, "infer runs/r-0001 photos/a/x.png --top 1").code, 64);
}

TEST_F(InputCliTest, ListsOfPicturesGoInOnStandardInput) {
  const std::string folder = Case("infer-resize-crop");
  Put(folder + "/names.txt", "p/a.png 0\np/a.png 1\n");
  const std::string infer = "infer net.prototxt --weights pixels.safetensors ";
  EXPECT_THAT(MokaIn(folder, infer + "names.txt").err, HasSubstr("a path a line, goes in on the standard input"));
  const Outcome labelled =
      RunShell(StrCat("cd '", folder, "' && '", MOKA_BINARY, "' ", infer, "-"), folder_, folder + "/names.txt");
  EXPECT_EQ(labelled.code, 66);
  EXPECT_THAT(labelled.err, HasSubstr("a line holds a path alone"));
}

TEST_F(InputCliTest, FlagsTakeThePlaceOfCaffesFirstFields) {
  const std::string folder = Case("infer-mean-file");
  ASSERT_EQ(MokaIn(folder, "data import photos db --resize 10x16").code, 0);
  ASSERT_EQ(MokaIn(folder, "data mean db mean.binaryproto").code, 0);
  const std::string net = ReadFile(folder + "/net.prototxt");
  const std::string infer = " --weights pixels.safetensors photos/a/x.png --top 12 --json";
  Put(folder + "/old.prototxt",
      Replaced(Replaced(net, "transform_param { crop_size: 6 mean_file: \"mean.binaryproto\" }", ""), "batch_size: 1",
               "batch_size: 1 crop_size: 6 mean_file: \"mean.binaryproto\""));
  EXPECT_EQ(Scores(MokaIn(folder, "infer old.prototxt" + infer)), Scores(MokaIn(folder, "infer net.prototxt" + infer)));
  EXPECT_EQ(Scores(MokaIn(folder, "infer old.prototxt --mean 1" + infer)),
            Scores(MokaIn(folder, "infer net.prototxt --mean 1" + infer)));
}

}  // namespace
}  // namespace moka
