// Frechet distances as numpy has them; a small GAN from the command line: train by turns, generate, measure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "data/image/image.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/http_client.h"
#include "tests/tools/serve/server_process.h"
#include "tools/measure/frechet.h"

namespace moka {
namespace {

PointSums SumsOfPoints(const Json& points) {
  PointSums sums(static_cast<int64_t>(points.at(0).size()));
  for (const Json& point : points) sums.Add(point.get<std::vector<float>>());
  return sums;
}

TEST(FrechetTest, DistancesEqualNumpys) {
  std::ifstream file(StrCat(MOKA_SOURCE_DIR, "/tests/golden/frechet.json"));
  const Json cases = Json::parse(file).at("cases");
  ASSERT_EQ(cases.size(), 5U);
  for (const Json& c : cases) {
    SCOPED_TRACE(c.at("name"));
    const double expected = c.at("distance");
    const PointSums a = SumsOfPoints(c.at("a"));
    const PointSums b = SumsOfPoints(c.at("b"));
    EXPECT_NEAR(FrechetDistance(a, b), expected, 1e-6 * std::max(expected, 1.0));
    EXPECT_NEAR(FrechetDistance(b, a), expected, 1e-6 * std::max(expected, 1.0));
  }
}

TEST(FrechetTest, SumsAreOfAllPoints) {
  PointSums sums(2);
  for (const auto& [x, y] : {std::pair(1.0F, 10.0F), std::pair(2.0F, 14.0F), std::pair(6.0F, 12.0F)}) {
    sums.Add(std::array{x, y});
  }
  EXPECT_EQ(sums.count(), 3);
  EXPECT_THAT(sums.Mean(), testing::ElementsAre(3, 12));
  EXPECT_THAT(sums.Covariance(), testing::ElementsAre(7, 1, 1, 4));
}

constexpr const char* kGanNet = R"(name: "tiny"
layer { name: "data" type: "DummyData" top: "data" include { stage: "critic" } dummy_data_param {
  shape { dim: 8 dim: 3 dim: 6 dim: 6 } data_filler { type: "uniform" min: -1 max: 1 } } }
layer { name: "z" type: "RandomNoise" top: "z" random_noise_param { shape { dim: 8 dim: 4 } } }
layer { name: "g_fc" type: "InnerProduct" bottom: "z" top: "g" inner_product_param { num_output: 108
  weight_filler { type: "gaussian" std: 0.5 } } }
layer { name: "g_map" type: "Reshape" bottom: "g" top: "map" reshape_param { shape { dim: 0 dim: 3 dim: 6 dim: 6 } } }
layer { name: "made" type: "TanH" bottom: "map" top: "made" }
layer { name: "drawn" type: "Silence" bottom: "made" include { phase: TEST not_stage: "deploy" } }
layer { name: "both" type: "Concat" bottom: "data" bottom: "made" top: "pictures" concat_param { axis: 0 }
  include { stage: "critic" } }
layer { name: "alone" type: "Split" bottom: "made" top: "pictures" include { stage: "generator" } }
layer { name: "d_fc" type: "InnerProduct" bottom: "pictures" top: "score" include { phase: TRAIN } spectral_norm_param {}
  inner_product_param { num_output: 1 weight_filler { type: "xavier" } } }
layer { name: "apart" type: "Slice" bottom: "score" top: "real" top: "fake" slice_param { axis: 0 }
  include { stage: "critic" } }
layer { name: "loss_real" type: "GanLoss" bottom: "real" top: "loss_real" include { stage: "critic" } }
layer { name: "loss_made" type: "GanLoss" bottom: "fake" top: "loss_made" include { stage: "critic" }
  gan_loss_param { side: FAKE } }
layer { name: "loss" type: "GanLoss" bottom: "score" top: "loss" include { stage: "generator" }
  gan_loss_param { side: GENERATOR } }
)";
constexpr const char* kGanSolver = R"(net: "train_val.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 6 display: 2
turn { name: "critic" stage: "critic" train: "d_*" }
turn { name: "generator" stage: "generator" train: "g_*" }
test_iter: 1 test_interval: 3 sample_grid { blob: "made" count: 4 columns: 2 } random_seed: 3
)";

class GenerateCliTest : public CliTest {
 protected:
  static const std::string& Gan() {
    static const std::string run = [] {
      fs::create_directories(folder_ / "tiny");
      WriteFileAtomically(folder_ / "tiny/train_val.prototxt", kGanNet);
      WriteFileAtomically(folder_ / "tiny/solver.prototxt", kGanSolver);
      WriteFileAtomically(folder_ / "tiny/model.prototxt", "name: \"tiny\" task: GENERATE\n");
      const Outcome trained = Moka("train tiny");
      EXPECT_EQ(trained.code, 0) << trained.err;
      EXPECT_THAT(trained.err, testing::HasSubstr("net tiny of turn critic: "));
      EXPECT_THAT(trained.err, testing::HasSubstr("net tiny of turn generator: "));
      return std::string("runs/tiny-0001");
    }();
    return run;
  }
  static Image Decoded(const std::string& file) {
    Image image;
    ImageDecoder().Decode(ReadFile(folder_ / file), {}, image);
    return image;
  }
};

TEST_F(GenerateCliTest, TurnsAreTrainedAndDrawn) {
  const std::string metrics = ReadFile(folder_ / Gan() / "metrics.jsonl");
  EXPECT_THAT(metrics, testing::HasSubstr("\"critic/loss_real\":"));
  EXPECT_THAT(metrics, testing::HasSubstr("\"generator/loss\":"));
  for (const char* name : {"iter_0000000.png", "iter_0000003.png", "iter_0000006.png"}) {
    const Image sheet = Decoded(StrCat(Gan(), "/samples/", name));
    EXPECT_EQ(sheet.width, 2 * 6 + 3);
    EXPECT_EQ(sheet.height, 2 * 6 + 3);
  }
  const Outcome resumed = Moka(StrCat("train --resume ", Gan(), " max_iter=8"));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const Outcome looked = Moka("train tiny --dry-run");
  EXPECT_EQ(looked.code, 0) << looked.err;
  EXPECT_THAT(looked.out, testing::HasSubstr("program train:critic\n"));
  EXPECT_THAT(looked.out, testing::HasSubstr("program train:generator\n"));
}

TEST_F(GenerateCliTest, SheetsFollowTheSeed) {
  const Outcome sheet = Moka(StrCat("generate ", Gan(), " --count 10 --columns 4 --out a.png"));
  ASSERT_EQ(sheet.code, 0) << sheet.err;
  const Image a = Decoded("a.png");
  EXPECT_EQ(a.width, 4 * 6 + 5);
  EXPECT_EQ(a.height, 3 * 6 + 4);
  EXPECT_EQ(Moka(StrCat("infer ", Gan(), " --count 10 --columns 4 --out b.png")).code, 0);
  EXPECT_EQ(ReadFile(folder_ / "a.png"), ReadFile(folder_ / "b.png"));
  EXPECT_EQ(Moka(StrCat("generate ", Gan(), " --count 10 --columns 4 --seed 2 --out c.png")).code, 0);
  EXPECT_NE(ReadFile(folder_ / "a.png"), ReadFile(folder_ / "c.png"));
  ASSERT_EQ(Moka(StrCat("generate ", Gan(), " --count 10 --out apart")).code, 0);
  EXPECT_EQ(ListFiles(folder_ / "apart", ".png").size(), 10U);
  // The ninth picture is the first of the second batch, and stands first in the third row of the sheet.
  const Image ninth = Decoded("apart/000008.png");
  ASSERT_EQ(ninth.width, 6);
  for (int64_t i = 0; i < 6 * 3; ++i)
    EXPECT_EQ(ninth.pixels[static_cast<size_t>(i)], a.pixels[static_cast<size_t>((15 * 29 + 1) * 3 + i)]);
}

TEST_F(GenerateCliTest, FoldersAreMeasuredByANetsFeatures) {
  ASSERT_EQ(Moka(StrCat("generate ", Gan(), " --count 40 --out first")).code, 0);
  ASSERT_EQ(Moka(StrCat("generate ", Gan(), " --count 40 --seed 2 --out second")).code, 0);
  const Outcome same = Moka(StrCat("frechet ", Run(), " first first --blob ip2 --json"));
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_NEAR(Json::parse(same.out).at("frechet").get<double>(), 0, 1e-4);
  EXPECT_EQ(Json::parse(same.out).at("features"), 10);
  const Outcome other = Moka(StrCat("frechet ", Run(), " first second --blob ip2 --batch 7"));
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.out, testing::MatchesRegex("frechet [0-9.]+  .10 features of \"ip2\", 40 and 40 pictures.\n"));
  EXPECT_EQ(other.out.find("frechet 0.0000"), std::string::npos);
  EXPECT_THAT(Moka(StrCat("frechet ", Run(), " first second --blob ip1")).err,
              testing::HasSubstr("40 pictures are too few for 500 features"));
}

TEST_F(GenerateCliTest, ValuesThatAreCutOffAreTold) {
  const std::string& run = Gan();
  fs::create_directories(folder_ / "narrow");
  fs::copy_file(folder_ / "tiny/train_val.prototxt", folder_ / "narrow/train_val.prototxt");
  const auto told = [&](const std::string& generation) {
    WriteFileAtomically(folder_ / "narrow/model.prototxt",
                        StrCat("name: \"narrow\" task: GENERATE generation { blob: \"made\" ", generation, " }\n"));
    const Outcome made = Moka(
        StrCat("generate narrow --count 8 --out narrow.png --weights ", run, "/checkpoints/iter_0000006.safetensors"));
    EXPECT_EQ(made.code, 0) << made.err;
    return made.err;
  };
  EXPECT_THAT(told("low: 0 high: 0.1"), testing::HasSubstr("% of the pictures' values lie outside [0, 0.1]"));
  EXPECT_THAT(told("low: -1 high: 1"), testing::Not(testing::HasSubstr("lie outside")));
}

TEST_F(GenerateCliTest, MistakesAreNamed) {
  const auto fails = [](const std::string& words, int code, const std::string& text) {
    const Outcome outcome = Moka(words);
    EXPECT_EQ(outcome.code, code) << words;
    EXPECT_THAT(outcome.err, testing::HasSubstr(text));
  };
  fails(StrCat("generate ", Run()), 64, "net \"LeNet\" is no generator: it has no RandomNoise layer");
  fails(StrCat("generate ", Gan(), " x.png"), 64, "a generator reads nothing, found \"x.png\"");
  fails(StrCat("generate ", Gan(), " --count 5000"), 64, "one sheet has at most 4096 pictures, found --count 5000");
  for (const char* name : {"x.jpg", "X.PNG", "x.webp"}) {
    fails(StrCat("generate ", Gan(), " --count 1 --out ", name), 64,
          StrCat("a sheet FILE.png or a folder, found ", name));
    EXPECT_FALSE(fs::exists(folder_ / name));
  }
  fails(StrCat("generate ", Gan(), " --count 1 --columns 2 --out f"), 64, "--columns is of a sheet");
  ASSERT_EQ(Moka(StrCat("generate ", Gan(), " --count 3 --out again")).code, 0);
  fails(StrCat("generate ", Gan(), " --count 2 --out again"), 73, "again has pictures already, 000000.png the first");
  fails("generate", 64, "missing argument: a run, a model folder or a deploy prototxt");
  fs::create_directories(folder_ / "flat");
  fs::copy_file(folder_ / "tiny/train_val.prototxt", folder_ / "flat/train_val.prototxt");
  WriteFileAtomically(folder_ / "flat/model.prototxt",
                      "name: \"flat\" task: GENERATE generation { blob: \"made\" low: 1 high: 1 }\n");
  fails(StrCat("generate flat --weights ", Gan(), "/checkpoints/iter_0000006.safetensors"), 78,
        "the card's generation: black is 1 and white 1, expected low below high");
  fails(StrCat("frechet ", Run(), " first first --blob conv1"), 64, "\"conv1\" has 11520 features, more than 8192");
  fails(StrCat("frechet ", Run(), " first"), 64, "moka frechet wants a net and two folders of pictures");
  fails(StrCat("frechet ", Run(), " first second --blob ip3"), 64, "has no blob \"ip3\"\n  help: did you mean \"ip1\"");
  fails(StrCat("frechet ", Run(), " first second --blob nothing"), 64, "has no blob \"nothing\"\n  help: it has ");
}

// A server draws the sheet that moka generate writes.
TEST_F(GenerateCliTest, SheetsAreServed) {
  const ServerProcess server(folder_, {Gan()});
  HttpClient client(server.port());
  const std::string path = "/v2/models/tiny-0001/predict";
  ASSERT_EQ(Moka(StrCat("generate ", Gan(), " --count 5 --seed 3 --columns 2 --out served.png")).code, 0);
  const Reply sheet = client.Ask("POST", path, "count=5&seed=3&columns=2");
  EXPECT_EQ(sheet.status, 200) << sheet.body;
  EXPECT_EQ(sheet.Header("Content-Type"), "image/png");
  EXPECT_EQ(sheet.body, ReadFile(folder_ / "served.png"));
  EXPECT_EQ(client.Ask("POST", path, "").status, 200);
  for (const char* wrong : {"count=0", "count=257", "counts=3", "count=", "count=-1", "seed=x", "cat"}) {
    const Reply reply = client.Ask("POST", path, wrong);
    EXPECT_EQ(reply.status, 400) << wrong;
    EXPECT_THAT(reply.body, testing::HasSubstr("sheet")) << wrong;
  }
}

}  // namespace
}  // namespace moka
