// Lines that objects cross and zones that they are in, on ways whose counts can be seen by eye; and what is no line or
// zone.
#include "tools/track/place_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

using testing::HasSubstr;

// A box of 4x4 around a point.
TrackedBox At(int64_t id, double x, double y, int32_t label = 1) {
  return {.id = id, .label = label, .box = {x - 2, y - 2, x + 2, y + 2}};
}

// "to the right, to the left" of one object that is seen at these points, one after another.
std::string Crossings(const std::string& line, const std::vector<PlacePoint>& way) {
  PlaceCounter counter(LinesOfText(line), {});
  int64_t frame = 0;
  for (const PlacePoint& at : way) {
    const std::vector<TrackedBox> boxes = {At(1, at.x, at.y)};
    counter.Add(frame++, boxes);
  }
  return StrCat(counter.lines()[0].to_right(), " ", counter.lines()[0].to_left());
}

TEST(PlaceCountsTest, AWayToTheOtherSideIsACrossing) {
  const std::string level = "0,50,100,50";  // below it is to its right
  EXPECT_EQ(Crossings(level, {{20, 10}, {20, 40}, {30, 60}, {30, 90}}), "1 0");
  EXPECT_EQ(Crossings(level, {{20, 90}, {20, 10}}), "0 1");
  EXPECT_EQ(Crossings("100,50,0,50", {{20, 90}, {20, 10}}), "1 0") << "its ends are swapped";
  EXPECT_EQ(Crossings(level, {{20, 10}, {20, 90}, {20, 10}, {20, 90}}), "2 1");
  EXPECT_EQ(Crossings(level, {{20, 10}, {20, 50}, {40, 50}, {20, 60}}), "1 0") << "it stays on the line for a while";
  EXPECT_EQ(Crossings(level, {{20, 10}, {20, 50}, {20, 10}}), "0 0") << "it turns on the line";
  EXPECT_EQ(Crossings(level, {{20, 50}, {20, 90}}), "0 0") << "it began on the line";
}

TEST(PlaceCountsTest, AWayAroundALinesEndIsNone) {
  const std::string half = "0,50,50,50";
  EXPECT_EQ(Crossings(half, {{80, 10}, {80, 90}}), "0 0");
  EXPECT_EQ(Crossings(half, {{80, 10}, {80, 90}, {20, 90}, {20, 10}}), "0 1") << "around the end, and back through it";
  EXPECT_EQ(Crossings(half, {{50, 10}, {50, 90}}), "1 0") << "an end belongs to the line";
  EXPECT_EQ(Crossings("10,10,90,90", {{20, 80}, {80, 20}}), "0 1");
}

TEST(PlaceCountsTest, CrossingsAreNamed) {
  PlaceCounter counter(LinesOfText("0,50,100,50:50,0,50,100"), {});
  counter.Add(0, std::vector<TrackedBox>{At(1, 20, 20), At(2, 80, 80, 3)});
  counter.Add(1, std::vector<TrackedBox>{At(2, 80, 20, 3)});
  counter.Add(5, std::vector<TrackedBox>{At(1, 80, 80), At(2, 20, 20, 3)});
  ASSERT_EQ(counter.lines().size(), 2U);
  const std::vector<LineCrossing>& level = counter.lines()[0].crossings;
  ASSERT_EQ(level.size(), 2U);
  EXPECT_EQ(level[0].track, 2);
  EXPECT_EQ(level[0].label, 3);
  EXPECT_EQ(level[0].frame, 1);
  EXPECT_FALSE(level[0].is_to_right);
  EXPECT_EQ(level[1].track, 1) << "it was not seen in between";
  EXPECT_EQ(level[1].frame, 5);
  EXPECT_EQ(counter.lines()[1].to_right(), 1) << "down a line, the right is on the left of the picture";
  EXPECT_EQ(counter.lines()[1].to_left(), 1);
}

TEST(PlaceCountsTest, ZonesCountThoseInside) {
  PlaceCounter counter({}, ZonesOfText("10,10,50,10,50,50,10,50:60,0,100,0,80,40"));
  counter.Add(0, std::vector<TrackedBox>{At(1, 30, 30), At(2, 5, 5, 2)});
  counter.Add(1, std::vector<TrackedBox>{At(1, 31, 30), At(2, 20, 20, 2), At(3, 80, 20)});
  counter.Add(2, std::vector<TrackedBox>{At(1, 70, 30), At(2, 20, 20, 2)});
  counter.Add(3, {});
  const ZoneCount& square = counter.zones()[0];
  EXPECT_EQ(square.tracks, (std::map<int64_t, int32_t>{{1, 1}, {2, 2}}));
  EXPECT_EQ(square.entered, 1) << "the first began inside";
  EXPECT_EQ(square.left, 1) << "the other was seen no more";
  EXPECT_EQ(square.inside, 0);
  EXPECT_EQ(square.most_inside, 2);
  EXPECT_EQ(square.most_frame, 1);
  EXPECT_EQ(square.boxes, 4);
  const ZoneCount& triangle = counter.zones()[1];
  EXPECT_EQ(triangle.tracks, (std::map<int64_t, int32_t>{{3, 1}})) << "70,30 is outside of it";
  EXPECT_EQ(triangle.most_inside, 1);
}

TEST(PlaceCountsTest, ZonesMayBeAnyPolygon) {
  const CountZone bent = ZonesOfText("0,0,90,0,90,90,60,90,60,30,0,30")[0];
  EXPECT_TRUE(IsInside(bent, {30, 15}));
  EXPECT_TRUE(IsInside(bent, {75, 80}));
  EXPECT_FALSE(IsInside(bent, {30, 60}));
  EXPECT_FALSE(IsInside(bent, {95, 15}));
  EXPECT_TRUE(TouchesPicture(bent.corners, 40, 40));
  EXPECT_FALSE(TouchesPicture(ZonesOfText("50,0,60,0,60,9")[0].corners, 40, 40));
}

TEST(PlaceCountsTest, WhatIsNoPlaceIsRefused) {
  const auto refusal = [](const auto& read) -> std::string {
    try {
      read();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return StrCat(error.text(), "; ", error.hint());
    }
    return "none";
  };
  for (const char* text :
       {"", "1,2", "1,2,3", "1,2,3,x", "1,2,3,nan", "1,2,3,4,5,6", "5,5,5,5", "1,2,3,4:", "1,2,3,1e9"}) {
    EXPECT_THAT(refusal([&] { LinesOfText(text); }), HasSubstr("--line: \"")) << text;
  }
  for (const char* text : {"", "1,2,3,4", "0,0,1,1,2,2", "1,1,1,1,1,1", "0,0,5,0,5,5,2", "0,0,5,0,5,5:"}) {
    EXPECT_THAT(refusal([&] { ZonesOfText(text); }), HasSubstr("--zone: \"")) << text;
  }
  EXPECT_EQ(refusal([&] { LinesOfText("5,5,5,5"); }),
            "--line: \"5,5,5,5\" is no line from one point to another; expected X1,Y1,X2,Y2 in pixels; several lines "
            "are given by several --line");
  std::string many = "0,0,1,1";
  for (int i = 0; i < 100; ++i) many += ":0,0,1,1";
  EXPECT_EQ(refusal([&] { LinesOfText(many); }), "--line has 101 places, at most 100; ");
}

}  // namespace
}  // namespace moka
