// Tracks read from CVAT's XML, MOT's text and lines of JSON, their boxes between key frames, videos imported with them,
// and what is refused.
#include "data/tracks/track_file.h"

#include "data/import/import.h"
#include "tests/data/sample_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class TracksTest : public SampleImports {
 protected:
  TrackSet Read(const std::string& text, TrackRole role = TrackRole::kTruth) const {
    Write("tracks", text);
    return ReadTracks(At("tracks"), role);
  }
  std::string Refusal(const std::string& text) const {
    return ErrorOf([&] { Read(text); });
  }
  // "id label xmin ymin xmax ymax" of each box.
  static std::vector<std::string> Lines(const std::vector<TrackedBox>& boxes) {
    std::vector<std::string> lines;
    for (const TrackedBox& b : boxes) lines.push_back(StrCat(b.id, " ", b.label, " ", b.box.ToText()));
    return lines;
  }
  static std::string Box(int frame, const std::string& corners, int outside = 0) {
    const std::vector<std::string> c = Split(corners, ' ');
    return StrCat("<box frame=\"", frame, "\" xtl=\"", c[0], "\" ytl=\"", c[1], "\" xbr=\"", c[2], "\" ybr=\"", c[3],
                  "\" outside=\"", outside, "\" occluded=\"0\" keyframe=\"1\"/>");
  }
  // Pictures of 32x24 in a folder, by their number.
  void Pictures(int count) const {
    Image image;
    image.Resize(32, 24, 3);
    for (int i = 1; i <= count; ++i) Write(StrCat("clip/", i, ".png"), EncodePng(image));
  }
};

TEST_F(TracksTest, BoxesOfCvatMoveBetweenKeys) {
  const TrackSet set =
      Read(StrCat("<annotations><version>1.1</version><meta><task><original_size><width>32</width><height>24</height>"
                  "</original_size></task></meta><track id=\"7\" label=\"car\">",
                  Box(0, "0 0 4 4"), Box(2, "4 2 8 8"), Box(3, "4 2 8 8", 1), Box(5, "10 10 12 12"),
                  "</track><track id=\"2\" label=\"bus\">", Box(1, "1 1 2 2"), "</track></annotations>"));
  EXPECT_EQ(set.size.width, 32);
  EXPECT_THAT(set.labels, ElementsAre("none", "bus", "car"));
  const auto boxes = BoxesByFrame(set, 7);
  EXPECT_THAT(Lines(boxes[0]), ElementsAre("7 2 0 0 4 4"));
  EXPECT_THAT(Lines(boxes[1]), ElementsAre("2 1 1 1 2 2", "7 2 2 1 6 6"));
  EXPECT_THAT(Lines(boxes[2]), ElementsAre("7 2 4 2 8 8"));
  EXPECT_TRUE(boxes[3].empty()) << "outside ends it";
  EXPECT_TRUE(boxes[4].empty());
  EXPECT_THAT(Lines(boxes[5]), ElementsAre("7 2 10 10 12 12"));
  EXPECT_TRUE(boxes[6].empty()) << "after the last key there is nothing";
}

TEST_F(TracksTest, MoreBoxesBetweenKeysThanMemoryHoldsAreRefused) {
  constexpr int kFar = 2'000'000;
  const std::string two = Box(0, "0 0 4 4") + "\n" + Box(kFar, "4 2 8 8");
  const TrackSet one = Read(StrCat("<annotations><track id=\"1\" label=\"car\">", two, "</track></annotations>"));
  EXPECT_EQ(FramesOf(one), kFar + 1);
  const TrackSet set = Read(StrCat("<annotations><track id=\"1\" label=\"car\">", two,
                                   "</track>\n<track id=\"2\" label=\"car\">", two, "</track></annotations>"));
  const std::string refusal = ErrorOf([&] { BoxesByFrame(set, kFar + 1); });
  EXPECT_THAT(refusal, HasSubstr("tracks:4: track 2: with the boxes between keys there are more than 2097152 boxes"));
}

TEST_F(TracksTest, LinesOfMotAreBoxesOfTheirFramesAlone) {
  const TrackSet set = Read("1,1,10,20,5,6,1,2,1\n3,1,12,20,5,6,1,2,0.5\n\n2,9,1,1,2,2,0,1,1\n");
  EXPECT_THAT(set.labels, ElementsAre("none", "1", "2"));
  EXPECT_THAT(set.warnings, ElementsAre(HasSubstr("1 box of conf 0, which does not count, left out")));
  const auto boxes = BoxesByFrame(set, 3);
  EXPECT_THAT(Lines(boxes[0]), ElementsAre("1 2 10 20 15 26"));
  EXPECT_TRUE(boxes[1].empty());
  EXPECT_EQ(Read("2,9,1,1,2,2,0\n", TrackRole::kFound).tracks.size(), 1U) << "a tracker's boxes all count";
  EXPECT_EQ(MotLines(2, boxes[0]), "3,1,10.00,20.00,5.00,6.00,1.000000,2,-1\n");
}

TEST_F(TracksTest, LinesOfJsonAreKeys) {
  const TrackSet set = Read(
      "{\"track\": 1, \"frame\": 1, \"label\": \"cat\", \"box\": [0, 0, 2, 2]}\n"
      "{\"track\": 1, \"frame\": 3, \"label\": \"cat\", \"box\": [2, 2, 4, 4]}\n");
  const auto boxes = BoxesByFrame(set, 3);
  EXPECT_THAT(Lines(boxes[1]), ElementsAre("1 1 1 1 3 3"));
  EXPECT_TRUE(Read("").tracks.empty());
}

TEST_F(TracksTest, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_THAT(Refusal("1,1,10,20,5,6\n1,1,11,20,5,6\n"),
              HasSubstr("tracks:2: track 1 has two boxes in picture 1: the other is in line 1"));
  EXPECT_THAT(Refusal("1,1,10,20,5,6\n0,1,11,20,5,6\n"), HasSubstr("tracks:2: the frame is 0"));
  EXPECT_THAT(Refusal("1,1,10,20,0,6\n"), HasSubstr("tracks:1: track 1: the box 10 20 10 26 has no area"));
  EXPECT_THAT(Refusal("1,1,10,20,nan,6\n"), HasSubstr("value 5 is no number: \"nan\""));
  EXPECT_THAT(Refusal("1,1.5,10,20,5,6\n"), HasSubstr("the id is 1.5"));
  EXPECT_THAT(Refusal("1 1 10 20\n"), HasSubstr("expected \"frame,id,x,y,width,height"));
  EXPECT_THAT(Refusal("1,1,10,20,5,6,1,2\n2,1,10,20,5,6,1,3\n"),
              HasSubstr("is of class \"3\", and was of \"2\" in line 1"));
  EXPECT_THAT(Refusal("{\"track\": 1, \"frame\": 1, \"lable\": \"cat\", \"box\": [0, 0, 2, 2]}\n"),
              HasSubstr("did you mean \"label\"?"));
  EXPECT_THAT(Refusal("{\"track\": 1}\n"), HasSubstr("tracks:1: has no whole number \"frame\""));
  EXPECT_THAT(Refusal("<annotations><image id=\"0\" name=\"a.png\"/></annotations>"),
              HasSubstr("annotations of single pictures"));
  EXPECT_THAT(Refusal("<annotation/>"), HasSubstr("the XML is no <annotations>"));
  EXPECT_THAT(Refusal("<annotations><track id=\"1\" label=\"a\"><box frame=\"0\"/></track></annotations>"),
              HasSubstr("<box> has no xtl"));
  EXPECT_THAT(Refusal("<!DOCTYPE a [<!ENTITY b \"bbbb\"><!ENTITY c \"&b;&b;\">]><annotations>&c;</annotations>"),
              HasSubstr("has a document type"));
  EXPECT_THAT(Refusal("<annotations><track"), HasSubstr("this is no XML"));
}

TEST_F(TracksTest, AVideosPicturesHaveTheBoxesOfTheirFrames) {
  Pictures(5);
  Write("tracks.jsonl",
        "{\"track\": 1, \"frame\": 1, \"label\": \"cat\", \"box\": [0, 0, 16, 12]}\n"
        "{\"track\": 1, \"frame\": 5, \"label\": \"cat\", \"box\": [16, 12, 40, 24]}\n"
        "{\"track\": 2, \"frame\": 3, \"label\": \"dog\", \"box\": [-9, -9, -1, -1]}\n");
  const ImportReport report = Import(StrCat("video:", Text("clip"), ",", Text("tracks.jsonl"), ",2"), At("db"), {});
  EXPECT_EQ(report.records, 3);
  EXPECT_THAT(report.labels, ElementsAre("none", "cat", "dog"));
  const std::vector<SampleRecord> records = Records();
  EXPECT_THAT(Boxes(records[0]), ElementsAre("1 0 0 0.5 0.5"));
  EXPECT_THAT(Boxes(records[1]), ElementsAre("1 0.25 0.25 0.875 0.75"));
  EXPECT_THAT(Boxes(records[2]), ElementsAre("1 0.5 0.5 1 1"));
  ASSERT_EQ(report.warnings.size(), 2U);
  EXPECT_THAT(report.warnings[0] + report.warnings[1], HasSubstr("has no area in the picture: it is left out"));
  EXPECT_THAT(report.warnings[0] + report.warnings[1], HasSubstr("reaches outside the picture of 32 x 24"));
}

TEST_F(TracksTest, FramesBeyondTheVideoAreRefused) {
  Pictures(2);
  Write("tracks.txt", "1,1,1,1,5,5\n3,1,1,1,5,5\n");
  const std::string source = StrCat("video:", Text("clip"), ",", Text("tracks.txt"));
  EXPECT_THAT(ErrorOf([&] { Import(source, At("db"), {}); }),
              HasSubstr("tracks.txt:2: track 1 has a box in picture 3, and there are 2"));
  EXPECT_FALSE(fs::exists(At("db")));
  EXPECT_THAT(ErrorOf([&] { Import(StrCat(source, ",0"), At("db"), {}); }), HasSubstr("EVERY is \"0\""));
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("video:", Text("none.mp4")), At("db"), {}); }), HasSubstr("does not exist"));
}

TEST_F(TracksTest, TheSizeOfTheVideoIsChecked) {
  Pictures(1);
  Write("tracks.xml",
        StrCat("<annotations><meta><job><original_size><width>64</width><height>48</height></original_size>"
               "</job></meta><track id=\"1\" label=\"a\">",
               Box(0, "0 0 4 4"), "</track></annotations>"));
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("video:", Text("clip"), ",", Text("tracks.xml")), At("db"), {}); }),
              HasSubstr("the size stated is 64 x 48 and the picture's 32 x 24"));
}

}  // namespace
}  // namespace moka
