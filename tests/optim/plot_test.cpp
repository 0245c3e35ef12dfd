// Charts: ticks, gaps, escapes and tables.
#include "optim/run/plot.h"

#include <cmath>

#include "optim_fixture.h"

namespace moka {
namespace {

TEST(PlotTest, TicksAreRoundNumbers) {
  EXPECT_EQ(AxisTicks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(AxisTicks(-1, 1, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(AxisTicks(0, 64000, 8), (std::vector<double>{0, 10000, 20000, 30000, 40000, 50000, 60000}));
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PlotTest, NotANumberMakesAGap) {
  const PlotSeries series{.name = "a", .points = {{0, 1}, {1, 2}, {2, NAN}, {3, 1}, {4, INFINITY}, {5, 7}}};
  const std::string svg = LineChart({.title = "t", .x_label = "x", .y_label = "y"}, {series});
  const size_t begin = svg.find("stroke-linejoin");
  const std::string path = svg.substr(svg.rfind("<path d=\"", begin), 200);
  const std::string data = path.substr(0, path.find("\" fill"));
  EXPECT_EQ(Count(data, "M"), 3U) << data;  // 0-1, then 3 alone, then 5 alone
  EXPECT_EQ(Count(data, "L"), 1U);
  EXPECT_EQ(Count(data, "h.01"), 2U);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(PlotTest, TextsAreEscaped) {
  const std::string svg = LineChart({.title = "<a & \"b\">", .x_label = "x", .y_label = "y"}, {});
  EXPECT_THAT(svg, testing::HasSubstr("&lt;a &amp; &quot;b&quot;&gt;"));
}

TEST(PlotTest, SeriesMayShareAColorAndALineOfTheLegend) {
  const std::vector<PlotSeries> series = {{.name = "a", .points = {{0, 1}, {1, 2}}, .color = 1},
                                          {.name = "", .points = {{0, 2}, {1, 3}}, .color = 1, .is_thin = true},
                                          {.name = "b", .points = {{0, 3}, {1, 4}}, .color = 0}};
  const std::string svg = LineChart({.title = "t", .x_label = "x", .y_label = "y"}, series);
  EXPECT_EQ(Count(svg, "stroke-linejoin"), 3U);
  EXPECT_EQ(Count(svg, "h18\""), 2U) << "names in the legend";
  EXPECT_EQ(Count(svg, "stroke=\"#dc2626\""), 3U) << "two curves and a name";
  EXPECT_EQ(Count(svg, "stroke=\"#2563eb\""), 2U);
}

TEST(PlotTest, ALevelIsDrawnWhereverTheCurvesLie) {
  const PlotSeries series{.name = "a", .points = {{0, 1}, {1, 2}}};
  PlotOptions options{.title = "t", .x_label = "x", .y_label = "y"};
  options.level = PlotLevel{.y = 9, .name = "<goal>"};
  const std::string svg = LineChart(options, {series});
  EXPECT_EQ(Count(svg, "stroke-dasharray"), 1U);
  EXPECT_THAT(svg, testing::HasSubstr("&lt;goal&gt;"));
  EXPECT_THAT(svg, testing::HasSubstr(">8</text>")) << "the axis reaches it";
  options.log_y = true;
  options.level->y = -1;
  EXPECT_EQ(Count(LineChart(options, {series}), "stroke-dasharray"), 0U) << "below every logarithm";
}

TEST(PlotTest, OddSeriesAreDrawnWithoutHarm) {
  for (const std::vector<std::pair<double, double>>& points : std::vector<std::vector<std::pair<double, double>>>{
           {}, {{0, 0}}, {{5, 5}, {5, 5}}, {{0, NAN}}, {{0, -1e300}, {1, 1e300}}}) {
    for (const bool log_y : {false, true}) {
      const std::string svg = LineChart({.title = "t", .x_label = "x", .y_label = "y", .log_y = log_y},
                                        {{.name = "a", .points = points, .smoothing = 3}});
      EXPECT_TRUE(svg.ends_with("</svg>\n"));
      EXPECT_EQ(svg.find("nan"), std::string::npos);
    }
  }
}

TEST(PlotTest, TheTableHasACellForEachSeries) {
  const std::vector<PlotSeries> series = {{.name = "a", .points = {{0, 1}, {2, NAN}}},
                                          {.name = "b,c", .points = {{2, 5}}}};
  EXPECT_EQ(PlotCsv({.title = "t", .x_label = "iteration", .y_label = "y"}, series),
            "iteration,a,b c\n0,1,\n2,nan,5\n");
}

class PlotFileTest : public FolderTest {};

TEST_F(PlotFileTest, PictureAndTableLieSideBySide) {
  std::vector<std::pair<double, double>> loss;
  std::vector<std::pair<double, double>> test;
  for (int i = 0; i <= 600; ++i) {
    const double noise = 0.15 * std::sin(i * 12.9898) * std::exp(-i / 400.0);
    loss.emplace_back(i * 10, i == 300 ? NAN : 2.3 * std::exp(-i / 120.0) + 0.08 + noise);
    if (i % 100 == 0) test.emplace_back(i * 10, 2.3 * std::exp(-i / 110.0) + 0.06);
  }
  const std::vector<PlotSeries> series = {{.name = "test loss", .points = test, .markers = true},
                                          {.name = "train loss", .points = loss, .smoothing = 5}};
  WritePlot(folder_, "loss", {.title = "lenet-0001: loss", .x_label = "iteration", .y_label = "loss"}, series);
  EXPECT_THAT(ReadFile(At("loss.svg")), testing::StartsWith("<svg"));
  EXPECT_THAT(ReadFile(At("loss.csv")), testing::StartsWith("iteration,test loss,train loss\n"));
  if (const char* keep = getenv("MOKA_KEEP_PLOT")) std::filesystem::copy_file(At("loss.svg"), keep);
}

}  // namespace
}  // namespace moka
