// moka bench as a person and as tools/bench/compare use it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/text.h"
#include "tests/tools/shell.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class BenchTest : public testing::Test {
 protected:
  BenchTest() { fs::create_directories(folder_); }
  ~BenchTest() override { fs::remove_all(folder_); }

  // Runs moka bench from the repository's root; the words are a shell line written here. No kernels are timed, so that
  // the user's file of their times stays as it is.
  Outcome Bench(const std::string& words, const std::string& input = {}) const {
    WriteFileAtomically(folder_ / "in.txt", input);
    return RunShell(StrCat("cd '", MOKA_SOURCE_DIR, "' && OMP_NUM_THREADS=1 '", MOKA_BINARY, "' bench ", words,
                           " --kernels listed"),
                    folder_, (folder_ / "in.txt").string());
  }
  static std::vector<Json> Lines(const std::string& text) {
    std::vector<Json> lines;
    for (const std::string& line : Split(text, '\n')) {
      if (!line.empty()) lines.push_back(Json::parse(line));
    }
    return lines;
  }

  const fs::path folder_ = fs::temp_directory_path() / StrCat("moka_bench_test_", getpid());
};

TEST_F(BenchTest, AModelIsMeasuredByItsNameWithEveryFact) {
  const Outcome outcome = Bench("model lenet --batch 8 --iterations 3 --warmup 1 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("model"), "lenet");
  EXPECT_EQ(json.at("mode"), "train");
  EXPECT_EQ(json.at("batch"), 8);
  EXPECT_EQ(json.at("items"), 8);
  EXPECT_EQ(json.at("threads"), 1);
  EXPECT_EQ(json.at("parameters"), 431080);
  EXPECT_EQ(json.at("image_size"), 28);
  EXPECT_EQ(json.at("steps_ms").size(), 3U);
  for (const char* field : {"items_per_second", "step_ms", "gflop", "gigabytes", "fma_gflops", "copy_gbs", "fma_share",
                            "copy_share", "peak_bytes", "arena_bytes", "arena_bound_bytes", "state_bytes", "parse_ms",
                            "build_ms", "compile_ms", "forward_gflop", "activations"}) {
    EXPECT_GT(json.at(field).get<double>(), 0) << field;
  }
  EXPECT_GE(json.at("arena_bytes").get<int64_t>(), json.at("arena_bound_bytes").get<int64_t>());
  const auto outside = json.at("outside_kernels_share").get<double>();
  EXPECT_TRUE(outside >= 0 && outside < 1) << outside;
  EXPECT_NEAR(json.at("items_per_second").get<double>() * json.at("step_ms").get<double>(), 8000, 1);
}

TEST_F(BenchTest, TheBatchOfADeployNetAndOfASegmentationNetIsReplaced) {
  const Outcome lenet = Bench("model models/lenet --infer --batch 3 --iterations 1 --warmup 0 --json");
  ASSERT_EQ(lenet.code, 0) << lenet.err;
  EXPECT_EQ(Json::parse(lenet.out).at("batch"), 3);
  EXPECT_EQ(Json::parse(lenet.out).at("mode"), "infer");
  const Outcome unet = Bench("model unet --batch 1 --shape 'data=1,3,32,32;label=1,1,32,32' --iterations 1 --json");
  ASSERT_EQ(unet.code, 0) << unet.err;
  EXPECT_EQ(Json::parse(unet.out).at("image_size"), 32);
  const Outcome looked = Bench("model unet --batch 2 --dry-run");
  ASSERT_EQ(looked.code, 0) << looked.err;
  EXPECT_NE(looked.out.find("lower bound"), std::string::npos);
}

TEST_F(BenchTest, RowsHaveTimmsColumns) {
  const std::string train = (folder_ / "train.csv").string();
  const std::string infer = (folder_ / "infer.csv").string();
  ASSERT_EQ(Bench("model lenet --iterations 1 --csv " + train).code, 0);
  ASSERT_EQ(Bench("model lenet --iterations 1 --batch 4 --csv " + train).code, 0);
  ASSERT_EQ(Bench("model lenet --infer --iterations 1 --csv " + infer).code, 0);
  const std::vector<std::string> rows = Split(ReadFile(train), '\n');
  ASSERT_EQ(rows.size(), 4U);  // the last is empty
  EXPECT_EQ(rows[0], "model,train_samples_per_sec,train_step_time,train_batch_size,train_img_size,param_count");
  EXPECT_TRUE(rows[1].starts_with("lenet,") && rows[1].ends_with(",64,28,0.43")) << rows[1];
  EXPECT_TRUE(rows[2].ends_with(",4,28,0.43")) << rows[2];
  const std::vector<std::string> inferred = Split(ReadFile(infer), '\n');
  EXPECT_EQ(inferred[0],
            "model,infer_samples_per_sec,infer_step_time,infer_batch_size,infer_img_size,infer_gmacs,infer_macts,"
            "param_count");
  // 2.3 MMACs; 16,200 values from convolutions and matrix products an image: both round to their hundredths.
  EXPECT_TRUE(inferred[1].ends_with(",64,28,0.00,0.02,0.43")) << inferred[1];
  const Outcome mixed = Bench("model lenet --infer --iterations 1 --csv " + train);
  EXPECT_EQ(mixed.code, 73);
  EXPECT_NE(mixed.err.find("has other columns"), std::string::npos) << mixed.err;
}

TEST_F(BenchTest, AWorkerAnswersEveryCommandWithALine) {
  const Outcome outcome = Bench("model lenet --batch 2 --worker", "run 3\noutside 1\nrun 1\nquit\nrun 5\n");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = Lines(outcome.out);
  ASSERT_EQ(lines.size(), 4U) << outcome.out;
  EXPECT_EQ(lines[0].at("ready"), true);
  EXPECT_EQ(lines[0].at("batch"), 2);
  EXPECT_EQ(lines[1].at("ms").size(), 3U);
  EXPECT_GT(lines[1].at("peak_bytes").get<int64_t>(), 1 << 20);
  EXPECT_TRUE(lines[2].contains("outside_kernels_share"));
  EXPECT_EQ(lines[3].at("ms").size(), 1U);
  const Outcome wrong = Bench("model lenet --batch 2 --worker", "walk 3\n");
  EXPECT_EQ(wrong.code, 64);
  EXPECT_NE(wrong.err.find("found \"walk 3\""), std::string::npos) << wrong.err;
  EXPECT_EQ(Bench("model lenet --batch 2 --worker", "run 0\n").code, 64);
}

TEST_F(BenchTest, TurnsOfASolverAreItsStep) {
  const Outcome outcome = Bench(
      "model dcgan_cifar10 'layer[*].random_noise_param.shape.dim[0]=2' --batch 2 --iterations 1 --warmup 0 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // Each of the two nets trains its own half, though both hold the generator and the discriminator.
  EXPECT_EQ(Json::parse(outcome.out).at("parameters"), 538468);
}

// Boxes, rows of words and numbers have values that their nets take, without the data and without a net for deployment.
TEST_F(BenchTest, NetsThatReadNoPlainPicturesAreMeasured) {
  for (const char* model : {"bccd_ssd", "babi_memn2n", "auto_mpg"}) {
    for (const char* mode : {"--train", "--infer"}) {
      const Outcome outcome = Bench(StrCat("model ", model, " --batch 3 --iterations 1 --warmup 0 --json ", mode));
      ASSERT_EQ(outcome.code, 0) << model << " " << mode << ": " << outcome.err;
      EXPECT_EQ(Json::parse(outcome.out).at("batch"), 3) << model;
    }
  }
}

TEST_F(BenchTest, HalvesOfAGanTakeTurnsOnTheSameParameters) {
  const Outcome outcome = Bench(
      "model dcgan --then tools/bench/nets/dcgan/discriminator.prototxt solver.type=Adam solver.momentum=0.5 "
      "solver.weight_decay=0 --iterations 1 --warmup 0 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("parameters"), 3576707 + 2765633);  // the generator's, the discriminator's
}

TEST_F(BenchTest, MistakesAreNamed) {
  const Outcome unknown = Bench("model resnet5000");
  EXPECT_EQ(unknown.code, 66);
  EXPECT_NE(unknown.err.find("no file, folder, run or model resnet5000"), std::string::npos) << unknown.err;
  EXPECT_EQ(Bench("model").code, 64);
  EXPECT_EQ(Bench("model lenet --train --infer").code, 64);
  EXPECT_EQ(Bench("model lenet --batch 0").code, 64);
  EXPECT_EQ(Bench("model lenet solver.type=Adamm").code, 78);
  EXPECT_NE(Bench("modle lenet").err.find("did you mean \"model\"?"), std::string::npos);
}

class DataBenchTest : public BenchTest {
 protected:
  // A database of drawn digits, and what `bench data` says of it.
  Outcome Data(const std::string& words, const std::string& input = {}) const {
    const std::string database = (folder_ / "digits").string();
    if (!fs::exists(database)) {
      const Outcome import =
          RunShell(StrCat("'", MOKA_BINARY, "' data import glyphs:60:1 '", database, "' --storage jpeg"), folder_);
      EXPECT_EQ(import.code, 0) << import.err;
    }
    WriteFileAtomically(folder_ / "in.txt", input);
    return RunShell(StrCat("'", MOKA_BINARY, "' bench data '", database, "' --batch 7 --size 20 --workers 2 ", words),
                    folder_, (folder_ / "in.txt").string());
  }
};

TEST_F(DataBenchTest, ADatabaseGoesThroughTheRecipeAndIsCheckedAgainstOneWorker) {
  const Outcome outcome = Data("--iterations 60 --warmup 1 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("type"), "Data");
  EXPECT_EQ(json.at("batch"), 7);
  EXPECT_EQ(json.at("batches"), 60);
  EXPECT_EQ(json.at("bad_records"), 0);
  EXPECT_EQ(json.at("threads"), 2);
  for (const char* stage : {"read_ms", "decode_ms", "transform_ms"})
    EXPECT_GT(json.at(stage).get<double>(), 0) << stage;
  const Outcome text = Data("--iterations 60 --warmup 1");
  EXPECT_NE(text.out.find("of the time for input"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("each stage alone on 2 threads: "), std::string::npos) << text.out;
  EXPECT_GT(json.at("samples_per_second").get<double>(), 0);
}

TEST_F(DataBenchTest, AWorkerOfAPipelineAnswersWithAnArrayATurn) {
  const Outcome outcome = Data("--worker", "run 3\nrun 1\nquit\n");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = Lines(outcome.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].at("batch"), 7);
  EXPECT_EQ(lines[1].at("ms").size(), 3U);
  EXPECT_EQ(lines[2].at("ms").size(), 1U);
  EXPECT_EQ(Data("--worker", "outside 2\n").code, 64);
}

TEST_F(DataBenchTest, ANetWithoutADataLayerIsNamed) {
  WriteFileAtomically(folder_ / "net.prototxt", "layer { name: 'x' type: 'Input' top: 'x' }");
  const Outcome outcome =
      RunShell(StrCat("'", MOKA_BINARY, "' bench data '", (folder_ / "net.prototxt").string(), "'"), folder_);
  EXPECT_EQ(outcome.code, 64);
  EXPECT_NE(outcome.err.find("has no layer that reads data when training"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace moka
