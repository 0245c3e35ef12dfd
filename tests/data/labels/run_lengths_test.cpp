// Polygons against COCO's own programs, and faults by name.
#include "data/labels/run_lengths.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RunLengthsTest, PolygonsAsCocosProgramsDrawThem) {
  nlohmann::json cases;
  std::ifstream(MOKA_SOURCE_DIR "/tests/golden/data_masks.json") >> cases;
  ASSERT_GE(cases.size(), 40U);
  for (const nlohmann::json& golden : cases) {
    const auto width = golden["width"].get<int64_t>();
    const auto height = golden["height"].get<int64_t>();
    const auto counts = golden["counts"].get<RunLengths>();
    std::vector<RunLengths> parts;
    for (const nlohmann::json& polygon : golden["polygons"]) {
      parts.push_back(RunLengthsOf(polygon.get<std::vector<double>>(), width, height));
    }
    EXPECT_EQ(Union(parts, width, height), counts) << golden["polygons"];
    EXPECT_EQ(RunLengthsOf(std::string_view(golden["text"].get<std::string>())), counts) << golden["text"];
    const ImageWindow window = WindowOf(counts, width, height);
    EXPECT_EQ(nlohmann::json({window.x, window.y, window.width, window.height}), golden["box"]) << golden["polygons"];
    EXPECT_EQ(RunLengthsOf(MaskOf(counts, width, height)), counts);
  }
}

TEST(RunLengthsTest, ValuesApart) {
  const std::vector<uint16_t> values = {5, 5, 0,  //
                                        5, 9, 9,  //
                                        0, 9, 5};
  const auto runs = RunLengthsByValue(values, 3, 3);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_THAT(runs.at(5), ElementsAre(0, 2, 1, 1, 4, 1));
  EXPECT_THAT(runs.at(9), ElementsAre(4, 2, 1, 1, 1));
  EXPECT_TRUE(RunLengthsByValue(std::vector<uint16_t>(6), 2, 3).empty());
}

TEST(RunLengthsTest, FaultsAreNamed) {
  EXPECT_THAT(ErrorOf([] {
                MaskOf(RunLengths{3, 4}, 2, 3);
              }),
              HasSubstr("the run lengths of a mask sum to 7, expected 3 x 2 = 6"));
  EXPECT_THAT(ErrorOf([] {
                RunLengthsOf(std::vector<double>{1, 2, 3, 4}, 5, 5);
              }),
              HasSubstr("a polygon of 4 numbers, expected x and y of at least three corners"));
  EXPECT_THAT(ErrorOf([] {
                RunLengthsOf(std::vector<double>{1, 2, 3, 4, 5, NAN}, 5, 5);
              }),
              HasSubstr("a corner at 5, "));
  EXPECT_THAT(ErrorOf([] { RunLengthsOf(std::vector<double>{1, 2, 3, 4, 1e9, 1}, 5, 5); }), HasSubstr("a corner at"));
  EXPECT_THAT(ErrorOf([] { RunLengthsOf(std::string_view("1P")); }),
              HasSubstr("bad text of run lengths at character 2"));
  EXPECT_THAT(ErrorOf([] { RunLengthsOf(std::string_view("1 2")); }), HasSubstr("at character 1"));
  EXPECT_THAT(ErrorOf([] { RunLengthsOf(std::string_view("PPPPPPPPPPP1")); }), HasSubstr("bad text of run lengths"));
  EXPECT_THAT(ErrorOf([] { RunLengthsOf(std::string_view("O")); }), HasSubstr("a run of -1 pixels"));
}

}  // namespace
}  // namespace moka
