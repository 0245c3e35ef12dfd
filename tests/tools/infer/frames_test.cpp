// Pictures of videos as files: an AVI written here byte by byte, ffmpeg's part played by a script.
#include "tools/infer/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv
#include <unistd.h>

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/image/image.h"
#include "tools/infer/drawn_video.h"
#include "tools/infer/source.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::string LittleEndian(size_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFFU);
  return bytes;
}

// Name, size, contents, and a byte that makes the size even.
std::string RiffChunk(const std::string& id, const std::string& contents) {
  return StrCat(id, LittleEndian(contents.size()), contents, contents.size() % 2 == 1 ? std::string(1, '\0') : "");
}

std::string RiffList(const std::string& id, const std::string& type, const std::string& contents) {
  return RiffChunk(id, type + contents);
}

// A JPEG of an odd number of bytes: what follows it in the file is padded.
std::string OddJpeg(uint8_t gray) {
  Image image;
  image.Resize(16, 16, 1);
  std::ranges::fill(image.pixels, gray);
  std::string bytes = EncodeJpeg(image);
  if (bytes.size() % 2 == 0) bytes += '\0';
  return bytes;
}

class FramesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "moka_frames_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = getenv("PATH");  // NOLINT(concurrency-mt-unsafe): one thread
  }
  void TearDown() override {
    SetPath(path_);
    fs::remove_all(folder_);
  }
  static void SetPath(const std::string& path) { setenv("PATH", path.c_str(), 1); }  // NOLINT(concurrency-mt-unsafe)

  fs::path Write(const std::string& name, const std::string& bytes) {
    WriteFileAtomically(folder_ / name, bytes);
    return folder_ / name;
  }
  // Sound between the pictures, one of no bytes, a list around the second, a second RIFF as in large files.
  std::string Avi(const std::vector<std::string>& pictures) {
    const std::string movie =
        RiffList("LIST", "movi",
                 StrCat(RiffChunk("00dc", pictures[0]), RiffChunk("01wb", "odd"), RiffChunk("00dc", ""),
                        RiffList("LIST", "rec ", RiffChunk("00dc", pictures[1]))));
    return StrCat(RiffList("RIFF", "AVI ",
                           StrCat(RiffList("LIST", "hdrl", RiffChunk("avih", std::string(56, '\1'))), movie,
                                  RiffChunk("idx1", "00dc"))),
                  RiffList("RIFF", "AVIX", RiffList("LIST", "movi", RiffChunk("00dc", pictures[2]))));
  }
  // Writes as many pictures as its video's file has bytes.
  void FakeFfmpeg() {
    fs::create_directories(folder_ / "bin");
    WriteFileAtomically(folder_ / "bin/ffmpeg",
                        "#!/bin/sh\n"
                        "for last; do :; done\n"
                        "while [ \"$1\" != -i ]; do shift; done\n"
                        "video=${2#file:}\n"
                        "[ \"$(cat \"$video\")\" != bad ] || { echo 'moov atom not found' >&2; exit 1; }\n"
                        "count=$(wc -c < \"$video\")\n"
                        "[ ! -e \"$video.times\" ] || cat \"$video.times\"\n"
                        "for i in $(seq $count); do printf \"$i\" > \"$(printf \"${last#file:}\" $i)\"; done\n");
    fs::permissions(folder_ / "bin/ffmpeg", fs::perms::owner_all);
    SetPath(StrCat((folder_ / "bin").string(), ":", path_));
  }

  fs::path folder_;
  std::string path_;
};

template <class Action>
std::string ErrorOf(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return StrCat(static_cast<int>(error.kind()), ": ", error.text(), "; ", error.hint());
  }
  return "none";
}

TEST_F(FramesTest, AnAviOfMotionJpegIsTakenApart) {
  const std::vector<std::string> pictures = {OddJpeg(10), OddJpeg(120), OddJpeg(250)};
  SetPath("");  // nothing else is needed
  const std::vector<fs::path> files = WriteFrames(Write("cells.AVI", Avi(pictures)), folder_ / "frames");
  ASSERT_THAT(files, ElementsAre(folder_ / "frames/cells_000001.jpg", folder_ / "frames/cells_000002.jpg",
                                 folder_ / "frames/cells_000003.jpg"));
  for (size_t i = 0; i < files.size(); ++i) EXPECT_EQ(ReadFile(files[i]), pictures[i]) << i;
}

TEST_F(FramesTest, AnAviThatEndsWithinAPictureGivesThoseBefore) {
  const std::vector<std::string> pictures = {OddJpeg(10), OddJpeg(120), OddJpeg(250)};
  const std::string whole = Avi(pictures);
  const fs::path cut = Write("cut.avi", whole.substr(0, whole.size() - 10));
  EXPECT_EQ(WriteFrames(cut, folder_ / "frames").size(), 2U);
}

TEST_F(FramesTest, OtherVideosAreDecodedByFfmpeg) {
  FakeFfmpeg();
  EXPECT_THAT(WriteFrames(Write("a 100% clip.mp4", "xx"), folder_ / "frames"),
              ElementsAre(folder_ / "frames/a 100% clip_000001.png", folder_ / "frames/a 100% clip_000002.png"));
  // An AVI that is not motion JPEG too.
  EXPECT_GT(WriteFrames(Write("raw.avi", Avi({"pixels", "pixels", "pixels"})), folder_ / "raw").size(), 3U);
  EXPECT_EQ(ErrorOf([&] { WriteFrames(Write("broken.mp4", "bad"), folder_ / "frames"); }),
            StrCat("65: ", (folder_ / "broken.mp4").string(), ": ffmpeg: moov atom not found; "));
  EXPECT_EQ(ErrorOf([&] { WriteFrames(Write("empty.mp4", ""), folder_ / "frames"); }),
            StrCat("65: ", (folder_ / "empty.mp4").string(), " holds no pictures; "));
}

TEST_F(FramesTest, PicturesHaveTheTimesOfTheirVideo) {
  const std::vector<std::string> pictures = {OddJpeg(10), OddJpeg(120), OddJpeg(250)};
  const double apart_s = 0x01010101 * 1e-6;  // by the header's microseconds
  const VideoPictures avi = ReadVideo(Write("cells.avi", Avi(pictures)), folder_ / "avi");
  ASSERT_EQ(avi.times_s.size(), 3U);
  EXPECT_DOUBLE_EQ(avi.times_s[0], 0);
  EXPECT_DOUBLE_EQ(avi.times_s[1], 2 * apart_s) << "the first stood for one of no bytes";
  EXPECT_DOUBLE_EQ(avi.times_s[2], 3 * apart_s);

  FakeFfmpeg();
  const auto times = [&](const std::string& said) {
    Write("clip.mp4.times", said);
    return ReadVideo(Write("clip.mp4", "xxx"), folder_ / "clip").times_s;
  };
  const std::string head = "#software: Lavf\n#tb 0: 1/12800\n#dimensions 0: 160x120\n";
  const auto line = [](int shown) { return StrCat("0, 0, ", shown, ", 512, 472, 0x64201587\n"); };
  EXPECT_THAT(times(StrCat(head, line(6400), line(7680), line(19200))), ElementsAre(0, 0.1, 1));
  EXPECT_THAT(times(StrCat(head, line(0), line(512))), ElementsAre()) << "of three pictures";
  EXPECT_THAT(times(StrCat(head, line(0), line(512), line(512))), ElementsAre()) << "they stand still";
  EXPECT_THAT(times(StrCat(line(0), line(512), line(1024))), ElementsAre()) << "no unit is said";
  EXPECT_THAT(times("0, 0, now, 512\n"), ElementsAre());
  EXPECT_THAT(times(""), ElementsAre());
}

TEST(VideoTimes, PicturesAtARateAreThoseShownThen) {
  const auto at = [](const std::vector<double>& times_s, double fps) {
    VideoPictures video{.files = {}, .times_s = times_s};
    for (size_t i = 0; i < std::max<size_t>(4, times_s.size()); ++i) video.files.emplace_back(std::to_string(i));
    const VideoPictures taken = AtRate(video, fps);
    std::vector<std::string> text;
    for (size_t i = 0; i < taken.files.size(); ++i) {
      text.push_back(StrCat(taken.files[i].string(), "@", taken.times_s[i]));
    }
    return text;
  };
  EXPECT_THAT(at({}, 2), ElementsAre("0@0", "1@0.5", "2@1", "3@1.5")) << "no time is known";
  EXPECT_THAT(at({0, 0.1, 0.2, 0.3, 0.4, 0.5}, 5), ElementsAre("0@0", "2@0.2", "4@0.4"));
  EXPECT_THAT(at({0, 0.1, 0.2, 0.3, 0.4}, 10), ElementsAre("0@0", "1@0.1", "2@0.2", "3@0.3", "4@0.4"));
  EXPECT_THAT(at({0, 0.1, 1, 1.1}, 4), ElementsAre("0@0", "1@0.25", "2@1")) << "one that stands long counts once";
  EXPECT_THAT(at({0, 0.125, 0.25, 0.375}, 8), ElementsAre("0@0", "1@0.125", "2@0.25", "3@0.375"));
}

// Both ways through the real program: pictures at uneven times, of odd sides.
TEST_F(FramesTest, ADrawnMp4HasThePicturesAtTheirTimes) {
  if (!HasFfmpeg()) GTEST_SKIP() << "ffmpeg is not installed";
  const std::vector<double> times_s = {0, 0.04, 0.08, 0.33, 0.37, 1.25};
  DrawnVideo drawn((folder_ / "it's 50% drawn").string(), DrawnFormat::kMp4, 25);
  for (size_t i = 0; i < times_s.size(); ++i) {
    Image image;
    image.Resize(33, 21, 3);
    std::ranges::fill(image.pixels, static_cast<uint8_t>(40 * i));
    drawn.Add(image, times_s[i]);
  }
  drawn.Finish();
  ASSERT_EQ(drawn.file(), (folder_ / "it's 50% drawn.mp4").string());
  EXPECT_FALSE(fs::exists(folder_ / "it's 50% drawn.mp4.pictures/00000001.jpg"));
  const VideoPictures read = ReadVideo(drawn.file(), folder_ / "read");
  ASSERT_EQ(read.files.size(), times_s.size());
  ASSERT_EQ(read.times_s.size(), times_s.size());
  for (size_t i = 0; i < times_s.size(); ++i) {
    EXPECT_NEAR(read.times_s[i], times_s[i], 2e-5) << i;
    Image image;
    ImageDecoder().Decode(ReadFile(read.files[i]), {}, image);
    EXPECT_EQ(image.width, 34);
    EXPECT_EQ(image.height, 22);
    EXPECT_NEAR(image.pixels[3 * 34 * 5 + 30], 40 * static_cast<int>(i), 6) << i;
  }
}

TEST_F(FramesTest, ADrawnAviKeepsTimesByRepeats) {
  const std::vector<double> times_s = {0, 0.1, 0.5, 0.6};
  DrawnVideo drawn((folder_ / "drawn").string(), DrawnFormat::kAvi, 10);
  Image image;
  image.Resize(33, 21, 3);
  for (const double time_s : times_s) drawn.Add(image, time_s);
  drawn.Finish();
  const VideoPictures read = ReadVideo(folder_ / "drawn.avi", folder_ / "read");
  ASSERT_EQ(read.times_s.size(), times_s.size());
  for (size_t i = 0; i < times_s.size(); ++i) EXPECT_NEAR(read.times_s[i], times_s[i], 1e-9) << i;
}

TEST_F(FramesTest, ADrawnMp4WithoutItsProgramIsSaid) {
  SetPath((folder_ / "nowhere").string());
  EXPECT_EQ(UsualDrawnFormat(), DrawnFormat::kAvi);
  DrawnVideo drawn((folder_ / "drawn").string(), DrawnFormat::kMp4, 10);
  Image image;
  image.Resize(16, 16, 3);
  drawn.Add(image, 0);
  EXPECT_EQ(ErrorOf([&] { drawn.Finish(); }),
            StrCat("69: ", (folder_ / "drawn.mp4").string(),
                   " cannot be made: ffmpeg: it is not installed; --drawn avi needs no other program"));
  EXPECT_FALSE(fs::exists(folder_ / "drawn.mp4"));
}

TEST_F(FramesTest, WhatIsMissingIsSaid) {
  SetPath((folder_ / "nowhere").string());
  EXPECT_EQ(ErrorOf([&] { WriteFrames(Write("clip.mp4", "xx"), folder_ / "frames"); }),
            StrCat("69: the pictures of ", (folder_ / "clip.mp4").string(),
                   " are decoded by ffmpeg, which is not installed; install it (package ffmpeg), or give an AVI of "
                   "motion JPEG or a folder of pictures"));
  EXPECT_THAT(ErrorOf([&] { WriteFrames(folder_ / "none.mp4", folder_ / "frames"); }),
              HasSubstr("none.mp4: no such file"));
}

TEST_F(FramesTest, TwoVideosOfOneNameDoNotOverwriteEachOther) {
  const std::vector<std::string> pictures = {OddJpeg(10), OddJpeg(120), OddJpeg(250)};
  fs::create_directories(folder_ / "other");
  const std::string first = Write("clip.avi", Avi(pictures)).string();
  const std::string second = Write("other/clip.avi", Avi({pictures[2], pictures[1], pictures[0]})).string();
  const std::vector<fs::path> files = PicturesOf({first, second}, folder_ / "frames");
  ASSERT_EQ(files.size(), 6U);
  EXPECT_EQ(ReadFile(files[0]), pictures[0]);
  EXPECT_EQ(ReadFile(files[3]), pictures[2]);
  EXPECT_EQ(files[3], folder_ / "frames/clip-2/clip_000001.jpg");
}

TEST_F(FramesTest, BytesOfAPictureBecomeAFile) {
  const std::string jpeg = OddJpeg(7);
  const auto file = WritePictureBytes(jpeg, folder_ / "frames");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(*file, folder_ / "frames/stdin.jpg");
  EXPECT_EQ(ReadFile(*file), jpeg);
  EXPECT_FALSE(WritePictureBytes("pictures/a.jpg\npictures/b.jpg\n", folder_ / "frames").has_value());
}

TEST(VideoNames, AreKnownByTheirEnding) {
  EXPECT_TRUE(IsVideoName("a.MP4"));
  EXPECT_TRUE(IsVideoName("b/c.avi"));
  EXPECT_FALSE(IsVideoName("mp4"));
  EXPECT_FALSE(IsVideoName("a.gif"));
}

}  // namespace
}  // namespace moka
