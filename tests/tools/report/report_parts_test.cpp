// The parts of a report: which blobs are read, pixels, the worst mistakes, and a page that hostile names do not break.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/file.h"
#include "core/text.h"
#include "tools/report/pixel_confusion.h"
#include "tools/report/record_names.h"
#include "tools/report/report_json.h"
#include "tools/report/report_page.h"
#include "tools/report/scored_blobs.h"
#include "tools/report/worst_mistakes.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Scores [1,2,1,4] and labels of four pixels, the last of which is ignored.
TEST(PixelConfusionTest, CountsPixelsAndTakesTheLastOfEqualScores) {
  PixelConfusion pixels(2, {7});
  const std::vector<float> scores = {.9F, .2F, .5F, .1F, .1F, .8F, .5F, .9F};
  const std::vector<float> labels = {0, 0, 1, 7};
  pixels.Add({1, 2, 1, 4}, scores, labels);
  EXPECT_THAT(pixels.Cells(), ElementsAre(ConfusionCell{0, 0, 1}, ConfusionCell{0, 1, 1}, ConfusionCell{1, 1, 1}));
  const std::vector<ClassCounts> counts = CountsOf(pixels.Cells(), 2);
  EXPECT_NEAR(*counts[0].overlap(), 1 / 2.0, 1e-12);
  EXPECT_NEAR(*counts[1].overlap(), 1 / 2.0, 1e-12);
}

TEST(RecordNamesTest, AreThePathsThatTheDataLayerReads) {
  const auto list = std::filesystem::temp_directory_path() / "moka_record_names.txt";
  LayerParameter layer;
  layer.mutable_image_data_param()->set_source(list.string());
  const auto named = [&](const std::string& text) {
    WriteFileAtomically(list, text);
    std::vector<ReportMistake> mistakes(2);
    mistakes[0].sample.number = 1;
    mistakes[1].sample.number = 7;
    NameRecords(layer, nullptr, mistakes);
    return std::vector<std::string>{mistakes[0].record, mistakes[1].record};
  };
  EXPECT_THAT(named("a.jpg 0\r\n\nmy cats/b c.jpg\t 1\r\n"), ElementsAre("my cats/b c.jpg", ""));
  EXPECT_THAT(named("a.jpg 0\n\"b \"\"c\"\".jpg\" 1\n"), ElementsAre("b \"c\".jpg", ""));
  EXPECT_THAT(named("a.jpg 0\nb.jpg 1.5\n"), ElementsAre("", "")) << "no layer reads it";
  std::filesystem::remove(list);
}

ScoredSample Wrong(int64_t number, float loss) {
  return {.number = number, .label = 0, .predicted = 1, .confidence = .5F, .loss = loss};
}

TEST(WorstMistakesTest, KeepsTheWorstAndAsksForTheirPicturesAlone) {
  WorstMistakes worst(2);
  int asked = 0;
  const auto picture = [&] {
    ++asked;
    Image image;
    image.Resize(300, 200, 3);
    return image;
  };
  worst.Add(Wrong(0, 1), picture);
  worst.Add(Wrong(1, 3), picture);
  worst.Add(Wrong(2, .5F), picture);
  worst.Add(Wrong(3, 3), picture);
  worst.Add({.number = 4, .label = 2, .predicted = 2, .loss = 9}, picture);
  EXPECT_EQ(worst.in_all(), 4);
  EXPECT_EQ(asked, 3) << "not for one that is right or better than those there are";
  const std::vector<ReportMistake> taken = worst.Take(1 << 20);
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].sample.number, 1) << "of equal losses the earlier";
  EXPECT_EQ(taken[1].sample.number, 3);
  EXPECT_EQ(taken[0].media, "image/jpeg");
  EXPECT_EQ(taken[0].side, 128);
}

TEST(WorstMistakesTest, PicturesEndWithTheirRoom) {
  WorstMistakes worst(3);
  for (int i = 0; i < 3; ++i) {
    worst.Add(Wrong(i, 1), [] {
      Image image;
      image.Resize(8, 8, 1);
      return image;
    });
  }
  const int64_t one = [] {
    Image image;
    image.Resize(8, 8, 1);
    return static_cast<int64_t>(EncodePng(image).size());
  }();
  const std::vector<ReportMistake> taken = worst.Take(2 * one);
  EXPECT_FALSE(taken[1].picture.empty());
  EXPECT_TRUE(taken[2].picture.empty());
  EXPECT_EQ(taken[2].sample.number, 2) << "the mistake itself stays";
}

NetParameter NetOf(const std::string& text) {
  NetParameter net;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &net)) << text;
  return net;
}

constexpr const char* kData = R"(layer { name: "d" type: "Data" top: "data" top: "label" }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" }
)";

TEST(ScoredBlobsTest, AreThoseOfTheLossThatAnswers) {
  const auto blobs = ScoredBlobsOf(NetOf(std::string(kData) + R"(
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss"
            loss_param { ignore_label: 3 } })"));
  ASSERT_TRUE(blobs);
  EXPECT_EQ(blobs->scores, "ip");
  EXPECT_EQ(blobs->labels, "label");
  EXPECT_EQ(blobs->kind, ScoreKind::kLogits);
  EXPECT_THAT(blobs->ignored, ElementsAre(3));
}

TEST(ScoredBlobsTest, AnAccuracyTellsWhetherASoftmaxWroteItsScores) {
  const auto blobs = ScoredBlobsOf(NetOf(std::string(kData) + R"(
    layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
    layer { name: "acc" type: "Accuracy" bottom: "prob" bottom: "label" top: "acc" })"));
  ASSERT_TRUE(blobs);
  EXPECT_EQ(blobs->scores, "prob");
  EXPECT_EQ(blobs->kind, ScoreKind::kProbabilities);
  const auto hinge = ScoredBlobsOf(NetOf(std::string(kData) + R"(
    layer { name: "acc" type: "Accuracy" bottom: "ip" bottom: "label" top: "acc" }
    layer { name: "loss" type: "HingeLoss" bottom: "ip" bottom: "label" top: "loss" })"));
  ASSERT_TRUE(hinge);
  EXPECT_EQ(hinge->kind, ScoreKind::kScores);
}

TEST(ScoredBlobsTest, ARegressionHasNone) {
  EXPECT_FALSE(ScoredBlobsOf(NetOf(std::string(kData) + R"(
    layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "label" top: "loss" })")));
  EXPECT_FALSE(ScoredBlobsOf(NetOf(std::string(kData) + R"(
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" softmax_param { axis: 2 } })")));
}

constexpr const char* kHostile = "<script>alert(\"1\")</script>";

ReportContent Hostile() {
  ReportContent content{.run = "{{sections}}</title>", .net = kHostile, .task = "classification"};
  content.pass = {.samples = 3, .batch = 3};
  content.metrics = {{.name = kHostile, .value = 2 / 3.0, .interval = WilsonInterval(2, 3)},
                     {.name = "bad", .value = NAN}};
  content.confusion = {{0, 0, 2}, {1, 0, 1}};
  for (int64_t c = 0; c < 2; ++c) {
    ReportClass one{.number = c, .name = kHostile};
    one.counts = CountsOf(content.confusion, 2)[static_cast<size_t>(c)];
    content.classes.push_back(one);
  }
  content.curves = {{.name = kHostile, .average_precision = .5, .precisions = std::vector<double>(101, .5)}};
  content.reliability.emplace().Add(.9, true);
  content.mistakes = {{.sample = Wrong(2, 4), .record = "\"><img src=x onerror=alert(1)>"}};
  content.mistakes_in_all = 1;
  content.facts = {{"training", StrCat("moka train ", kHostile)}};
  content.notes = {kHostile};
  PlotSeries series{.name = kHostile, .points = {{0, 1}, {1, NAN}}};
  content.charts = {{"loss", {.x_label = kHostile, .y_label = kHostile}, {series}}};
  return content;
}

TEST(ReportPageTest, HostileNamesStayText) {
  const std::string page = ReportPage(Hostile());
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<img src=x")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;"));
  EXPECT_THAT(page, HasSubstr("<title>{{sections}}&lt;/title&gt;</title>")) << "a name is no place of the template";
  // One script, and nothing from elsewhere: what names a scheme is SVG's own name.
  EXPECT_EQ(page.find("<script"), page.rfind("<script"));
  EXPECT_THAT(page, Not(HasSubstr("https://")));
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(page, Not(HasSubstr(">nan<")));
}

TEST(ReportPageTest, RowsOfTheMatrixAreShares) {
  const std::string page = ReportPage(Hostile());
  EXPECT_THAT(page, HasSubstr("title=\"2 of 2\">100.0</td>"));
  EXPECT_THAT(page, HasSubstr("title=\"1 of 1\">100.0</td>"));
  // The one frequent confusion is of one sample, all of its class.
  EXPECT_THAT(page, HasSubstr("<td data-v=\"1\">1</td><td data-v=\"1\">1.0000</td>"));
}

TEST(ReportPageTest, ARunWithoutATestHasItsCurvesAlone) {
  ReportContent content{.run = "gan-0001"};
  content.charts = {{"loss", {.y_label = "loss"}, {{.name = "train loss", .points = {{0, 1}, {1, 2}}}}}};
  const std::string page = ReportPage(content);
  EXPECT_THAT(page, HasSubstr("<h2>Curves</h2>"));
  EXPECT_THAT(page, Not(HasSubstr("<h2>Confusion")));
  EXPECT_THAT(page, Not(HasSubstr("<h2>Worst mistakes")));
}

TEST(ReportJsonTest, HoldsTheNumbers) {
  const nlohmann::ordered_json json = ReportJson(Hostile());
  EXPECT_TRUE(json["metrics"]["bad"]["value"].is_null());
  EXPECT_NEAR(json["metrics"][kHostile]["low"].get<double>(), 0.2077, 5e-5);
  EXPECT_EQ(json["classes"][1]["support"], 1);
  EXPECT_EQ(json["classes"][1]["recall"], 0.0);
  EXPECT_TRUE(json["classes"][1]["precision"].is_null()) << "nothing was taken for it";
  EXPECT_EQ(json["confusion"]["cells"][1], nlohmann::ordered_json::array({1, 0, 1}));
  EXPECT_NEAR(json["calibration"]["expected_calibration_error"].get<double>(), 0.1, 1e-9);
  EXPECT_EQ(json["mistakes"]["worst"][0]["sample"], 2);
  EXPECT_TRUE(json["curves"]["loss"][kHostile][1][1].is_null());
}

}  // namespace
}  // namespace moka
