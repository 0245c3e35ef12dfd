// Detection from end to end: rows of DetectionEvaluate become average precisions in tests of trainings, and an SSD net
// learns a few made pictures.
#include <fstream>

#include "data/import/import.h"
#include "data/pipeline/memory_pipeline.h"
#include "optim/run/trainer.h"
#include "optim_fixture.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

std::string Quoted(std::string text) {
  std::replace(text.begin(), text.end(), '\'', '"');
  return text;
}

NetParameter NetText(const std::string& text, Phase phase) {
  NetParameter net = NetFromText(Quoted(text), "net.prototxt");
  net.mutable_state()->set_phase(phase);
  return net;
}

// Detections and truth of a batch of two images, fed row by row, and something to train.
std::string EvaluationNet() {
  const auto fed = [](const std::string& top, int rows, int width) {
    return StrCat("layer { name: '", top, "' type: 'MemoryData' top: '", top, "' top: '", top,
                  "_label' memory_data_param { batch_size: 1 channels: 1 height: ", rows, " width: ", width,
                  " } }\nlayer { name: '", top, "_silence' type: 'Silence' bottom: '", top, "_label' }\n");
  };
  return StrCat(
      fed("det", 3, 7), fed("truth", 2, 8),
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'det' top: 'ip' inner_product_param { num_output: 1 } }\n"
      "layer { name: 'zero' type: 'DummyData' top: 'zero' dummy_data_param { shape { dim: 1 dim: 1 } } }\n"
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'zero' top: 'loss' include { phase: "
      "TRAIN } }\n"
      "layer { name: 'quiet' type: 'Silence' bottom: 'ip' bottom: 'zero' include { phase: TEST } }\n"
      "layer { name: 'quiet2' type: 'Silence' bottom: 'truth' include { phase: TRAIN } }\n"
      "layer { name: 'eval' type: 'DetectionEvaluate' bottom: 'det' bottom: 'truth' top: 'detection_eval' "
      "include { phase: TEST } detection_evaluate_param { num_classes: 3 } }\n");
}

class DetectionTest : public FolderTest {
 protected:
  static SolverParameter Fields(const std::string& more) {
    return Solver(
        Quoted(StrCat("base_lr: 0.0001 lr_policy: 'fixed' max_iter: 2 test_iter: 2 test_interval: 2 "
                      "random_seed: 1 ",
                      more)));
  }
  // Two batches. Class 1: a right detection of 0.9, a wrong one of 0.8 and a right one of 0.7 for its two objects.
  // Class 2: its one object is not found.
  static void Fill(Feed& feed) {
    const std::vector<float> det = {0,  1,  0.9F, 0.1F, 0.1F, 0.4F, 0.4F, 0,  1,  0.8F, 0.6F, 0.6F, 0.9F, 0.9F,
                                    -1, -1, -1,   -1,   -1,   -1,   -1,   0,  1,  0.7F, 0,    0,    0.5F, 1,
                                    -1, -1, -1,   -1,   -1,   -1,   -1,   -1, -1, -1,   -1,   -1,   -1,   -1};
    const std::vector<float> truth = {0, 1, 0, 0.1F, 0.1F, 0.4F, 0.4F, 0, 0,  2,  0,  0.5F, 0.5F, 1,  1,  0,
                                      0, 1, 0, 0,    0,    0.5F, 1,    0, -1, -1, -1, -1,   -1,   -1, -1, -1};
    const std::vector<float> labels(2, 0.0F);
    dynamic_cast<MemoryPipeline&>(*feed.pipeline("det")).Fill(det, labels);
    dynamic_cast<MemoryPipeline&>(*feed.pipeline("truth")).Fill(truth, labels);
  }
  static std::unique_ptr<Trainer> Make(const std::string& fields, TrainerOptions options = {},
                                       const std::string& net = EvaluationNet()) {
    SolverNets nets;
    nets.train = NetText(net, TRAIN);
    nets.tests = {NetText(net, TEST)};
    return std::make_unique<Trainer>(Fields(fields), nets, std::move(options));
  }
  static std::unique_ptr<Trainer> Filled(const std::string& fields, TrainerOptions options = {}) {
    auto trainer = Make(fields, std::move(options));
    Fill(trainer->train_net().feed());
    Fill(trainer->test_net(0).feed());
    return trainer;
  }
};

TEST_F(DetectionTest, RowsBecomeTheMeanAveragePrecision) {
  const auto of = [](const std::string& fields) {
    return Filled("eval_type: 'detection' " + fields)->test_net(0).Run(2);
  };
  // Class 1 has recalls 1/2, 1/2, 1; precisions 1, 1/2, 2/3.
  const std::vector<OutputValue> integral = of("");
  ASSERT_EQ(integral.size(), 1U);
  EXPECT_EQ(integral[0].name, "detection_eval");
  EXPECT_NEAR(integral[0].classes.at(1), (1 + 2 / 3.0) / 2, 1e-7);
  EXPECT_EQ(integral[0].classes.at(2), 0);
  EXPECT_NEAR(integral[0].value, (1 + 2 / 3.0) / 4, 1e-7);
  EXPECT_NEAR(of("ap_version: '11point'")[0].classes.at(1), (6 + 5 * 2 / 3.0) / 11, 1e-7);
  EXPECT_NEAR(of("ap_version: 'MaxIntegral'")[0].classes.at(1), (1 + 2 / 3.0) / 2, 1e-7);
}

TEST_F(DetectionTest, ASecondTestBeginsAnew) {
  const auto trainer = Filled("eval_type: 'detection'");
  const double first = trainer->test_net(0).Run(2)[0].value;
  EXPECT_EQ(trainer->test_net(0).Run(2)[0].value, first);
}

TEST_F(DetectionTest, TheLogsLinesAreThoseOfSsdsSolver) {
  SetLogFile(At("log.txt"));
  const auto trainer = Filled("eval_type: 'detection' show_per_class_result: true test_compute_loss: true");
  trainer->Run();
  SetLogFile({});
  const std::string log = ReadFile(At("log.txt"));
  EXPECT_THAT(log, ContainsRegex("Iteration 2, Testing net \\(#0\\)"));
  EXPECT_THAT(log, HasSubstr("Test loss: 0"));
  EXPECT_THAT(log,
              ContainsRegex("class1: 0\\.833333\n.*class2: 0\n.*    Test net output #0: detection_eval = 0\\.416667"));
  SetLogFile(At("short.txt"));
  Filled("eval_type: 'detection'")->Run();
  SetLogFile({});
  EXPECT_THAT(ReadFile(At("short.txt")), testing::Not(HasSubstr("class1")));
}

TEST_F(DetectionTest, TheBestCheckpointIsTheOneOfTheHighestPrecision) {
  const TrainResult result = Filled("eval_type: 'detection'")->Run();
  EXPECT_EQ(result.best_metric, "detection_eval");
  ASSERT_TRUE(result.best.has_value());
  EXPECT_NEAR(*result.best, (1 + 2 / 3.0) / 4, 1e-7);
}

TEST_F(DetectionTest, WithoutEvalTypeTheRowsAreMeans) {
  EXPECT_EQ(Filled("")->test_net(0).Run(2).size(), 25U);  // 2 classes and 3 detections, of five numbers
}

TEST_F(DetectionTest, Mistakes) {
  const auto error = [](const std::string& fields) { return ErrorOf([&] { Make(fields); }).text; };
  EXPECT_THAT(error("eval_type: 'detections'"), HasSubstr("eval_type is classification or detection, and is "
                                                          "\"detections\"; did you mean \"detection\"?"));
  EXPECT_THAT(error("eval_type: 'detection' ap_version: '11points'"),
              HasSubstr("there is no rule of average precision \"11points\"; did you mean \"11point\"?"));
  const std::string plain =
      "layer { name: 'x' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 1 dim: 2 } } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2 } }\n"
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'x' top: 'loss' }\n";
  EXPECT_THAT(ErrorOf([&] { Make("eval_type: 'detection'", {}, plain); }).text,
              HasSubstr("no output of test net 0 is the top of a DetectionEvaluate layer"));
}

// A training from pictures
// ----------------------------------------------------------------------------------------------

// A dark picture with one bright square: class 1 is blue, class 2 red.
void WritePicture(const std::filesystem::path& folder, int i) {
  constexpr int64_t kSide = 32;
  const int64_t size = 12 + i % 3 * 2;
  const int64_t x = 2 + i * 5 % (kSide - size - 2);
  const int64_t y = 2 + i * 7 % (kSide - size - 2);
  const int64_t channel = i % 2 == 0 ? 0 : 2;
  Image image;
  image.Resize(kSide, kSide, 3);
  for (int64_t row = y; row < y + size; ++row) {
    for (int64_t column = x; column < x + size; ++column) {
      image.pixels[static_cast<size_t>((row * kSide + column) * 3 + channel)] = 230;
    }
  }
  std::ofstream(folder / StrCat(i, ".png"), std::ios::binary) << EncodePng(image);
  std::ofstream(folder / StrCat(i, ".txt"))
      << (channel == 0 ? 1 : 2) << " " << x << " " << y << " " << x + size << " " << y + size << "\n";
}

std::string SsdNet(const std::string& database) {
  const auto conv = [](const std::string& name, const std::string& bottom, int outputs, const std::string& more) {
    return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '", name,
                  "' convolution_param { num_output: ", outputs, " ", more, " weight_filler { type: 'xavier' } } }\n");
  };
  const auto head = [&](const std::string& name, int outputs) {
    return StrCat(conv(name, "conv3", outputs, "kernel_size: 3 pad: 1"), "layer { name: '", name,
                  "_perm' type: 'Permute' bottom: '", name, "' top: '", name,
                  "_perm' permute_param { order: 0 order: 2 order: 3 order: 1 } }\nlayer { name: '", name,
                  "_flat' type: 'Flatten' bottom: '", name, "_perm' top: '", name, "_flat' }\n");
  };
  const auto relu = [](const std::string& name) {
    return StrCat("layer { name: '", name, "_relu' type: 'ReLU' bottom: '", name, "' top: '", name, "' }\n");
  };
  return StrCat(
      "layer { name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '", database,
      "' batch_size: 4 backend: LMDB } transform_param { scale: 0.00784 mean_value: 20 } }\n",
      conv("conv1", "data", 8, "kernel_size: 5 stride: 2 pad: 2"), relu("conv1"),
      conv("conv2", "conv1", 16, "kernel_size: 3 stride: 2 pad: 1"), relu("conv2"),
      conv("conv3", "conv2", 16, "kernel_size: 3 pad: 1"), relu("conv3"), head("loc", 8), head("conf", 6),
      "layer { name: 'prior' type: 'PriorBox' bottom: 'conv3' bottom: 'data' top: 'prior' prior_box_param { min_size: "
      "12 "
      "max_size: 16 variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } }\n"
      "layer { name: 'mbox_loss' type: 'MultiBoxLoss' bottom: 'loc_flat' bottom: 'conf_flat' bottom: 'prior' bottom: "
      "'label' top: 'mbox_loss' include { phase: TRAIN } propagate_down: true propagate_down: true propagate_down: "
      "false "
      "propagate_down: false multibox_loss_param { num_classes: 3 code_type: CENTER_SIZE overlap_threshold: 0.5 "
      "neg_pos_ratio: 3 neg_overlap: 0.5 } loss_param { normalization: VALID } }\n"
      "layer { name: 'shaped' type: 'Reshape' bottom: 'conf_flat' top: 'shaped' include { phase: TEST } reshape_param "
      "{ "
      "shape { dim: 0 dim: -1 dim: 3 } } }\n"
      "layer { name: 'prob' type: 'Softmax' bottom: 'shaped' top: 'prob' include { phase: TEST } softmax_param { axis: "
      "2 } "
      "}\n"
      "layer { name: 'prob_flat' type: 'Flatten' bottom: 'prob' top: 'prob_flat' include { phase: TEST } }\n"
      "layer { name: 'found' type: 'DetectionOutput' bottom: 'loc_flat' bottom: 'prob_flat' bottom: 'prior' top: "
      "'found' "
      "include { phase: TEST } detection_output_param { num_classes: 3 code_type: CENTER_SIZE keep_top_k: 20 "
      "confidence_threshold: 0.05 nms_param { nms_threshold: 0.45 top_k: 50 } } }\n"
      "layer { name: 'eval' type: 'DetectionEvaluate' bottom: 'found' bottom: 'label' top: 'detection_eval' include { "
      "phase: TEST } detection_evaluate_param { num_classes: 3 overlap_threshold: 0.5 } }\n");
}

TEST_F(DetectionTest, AnSsdNetLearnsAFewPictures) {
  std::string list;
  for (int i = 0; i < 8; ++i) {
    WritePicture(folder_, i);
    list += StrCat(i, ".png ", i, ".txt\n");
  }
  std::ofstream(At("list.txt")) << list;
  AnnotationOptions annotations;
  annotations.format = "txt";
  ImportAnnotated(At("list.txt"), folder_.string() + "/", annotations, At("db"), {});
  const std::string net = SsdNet(At("db").string());
  SolverNets nets;
  nets.train = NetText(net, TRAIN);
  nets.tests = {NetText(net, TEST)};
  const auto train = [&](const std::string& more) {
    auto trainer = std::make_unique<Trainer>(
        Solver(
            Quoted(StrCat("type: 'Adam' base_lr: 0.004 momentum: 0.9 momentum2: 0.999 lr_policy: 'fixed' test_iter: 2 "
                          "random_seed: 7 eval_type: 'detection' ap_version: '11point' ",
                          more))),
        nets, TrainerOptions{});
    trainer->Run();
    return trainer;
  };
  const auto before = train("max_iter: 1");
  const auto after = train("max_iter: 20 average_loss: 5");
  EXPECT_LT(after->state().smoothed_loss, 0.7 * before->state().smoothed_loss);
  const std::vector<OutputValue> tested = after->test_net(0).Run(2);
  ASSERT_EQ(tested.size(), 1U);
  EXPECT_EQ(tested[0].classes.size(), 2U);
  EXPECT_GT(tested[0].value, 0.5);  // all are found: 1
}

}  // namespace
}  // namespace moka
