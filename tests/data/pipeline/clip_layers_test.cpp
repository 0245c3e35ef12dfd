// The forks' layers of clips and sequences, against their sources' arithmetic in numpy and OpenCV
// (tests/golden/make_clip_goldens.py).
#include <set>
#include <span>

#include "core/text.h"
#include "tests/data/picture_fixture.h"

namespace moka {
namespace {

class ClipLayers : public PictureLayers {
 protected:
  ClipLayers() : PictureLayers("data_clips.json") {}

  void WriteShot(const std::string& name, int seed, int channels) const {
    Write(name, EncodePng(Picture(6, 8, channels, seed)));  // readers go by the bytes, not by the name
  }
  // Frames first..last of a video, of the seeds 50 * video + 2 * frame + axis.
  void WriteFlow(int video, int last) const {
    for (int f = 0; f <= last; ++f) {
      for (const int axis : {0, 1}) {
        const std::string name = StrCat("v", video, "/", f, axis == 0 ? "_x.png" : "_y.png");
        WriteShot(name, 50 * video + 2 * f + axis, 1);
      }
    }
  }
  // A video's lines for RgbVideoData and FlowVideoData.
  static std::string Lines(const std::string& folder, int count, const std::string& between, int first_label, int step,
                           int pictures) {
    std::string text = StrCat(folder, " ", count * pictures, "\n");
    for (int f = 0; f < count; ++f) {
      for (int p = 0; p < pictures; ++p) {
        const std::string axis = pictures == 1 ? "" : p == 0 ? "_x" : "_y";
        text += StrCat(folder, "/", between, f, axis, ".jpg ", first_label + f * step, "\n");
      }
    }
    return text;
  }

  void ExpectTops(const std::string& name, const std::vector<std::vector<float>>& tops) const {
    const auto& golden = goldens_.at(name);
    ASSERT_EQ(tops.size(), golden.size()) << name;
    for (size_t t = 0; t < tops.size(); ++t) {
      const auto expected = golden[t].get<std::vector<float>>();
      ASSERT_EQ(tops[t].size(), expected.size()) << name << " top " << t;
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(tops[t][i], expected[i], 1e-3) << name << " top " << t << " value " << i;
      }
    }
  }
  static std::vector<std::string> Types(const Pipeline& pipeline) {
    std::vector<std::string> types;
    for (const TensorType& type : pipeline.types()) types.push_back(type.ToString());
    return types;
  }
  // A pipeline that goes on after some batches gives what one that was never left gives.
  void ExpectResumes(const std::string& type, const std::string& fields, int batches = 5) const {
    const auto whole = Open(type, fields, TRAIN);
    for (int i = 0; i < batches; ++i) Next(*whole);
    const auto again = Open(type, fields, TRAIN);
    again->Seek(whole->position());
    for (int i = 0; i < batches; ++i) EXPECT_EQ(Next(*again), Next(*whole)) << type << " batch " << i;
  }
};

std::string Tops(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += StrCat("top: 't", i, "' ");
  return text;
}

TEST_F(ClipLayers, VideoDataRnnLaysSequencesStepByStep) {
  WriteFlow(1, 11);
  WriteFlow(2, 4);
  Write("list.txt", "v1 12 4\nv2 5 7\n");
  const std::string fields =
      "video_data_param { source: 'list.txt' batch_size: 2 seq_length: 3 stride_seq: 2 new_length: 2 ";
  const std::string transform =
      "transform_param { crop_size: 4 mean_value: 128 mean_value: 128 mean_value: 128 "
      "mean_value: 128 mean_value: 128 is_flow: true } ";
  const auto pipeline = Open("VideoDataRNN", Tops(3) + fields + "num_segments: 2 } " + transform);
  EXPECT_THAT(Types(*pipeline), testing::ElementsAre("float32[12,4,4,4]", "float32[3,4,1]", "float32[3,4,1]"));
  ExpectTops("rnn", Next(*pipeline));
  EXPECT_EQ(pipeline->position(), 12);
  EXPECT_EQ(pipeline->epoch_size(), 12);
  ExpectResumes("VideoDataRNN", Tops(3) + fields + "shuffle: true } " + transform);
  EXPECT_THAT(ErrorOf([&] { Open("VideoDataRNN", Tops(3) + fields + "num_segments: 2 }", TRAIN); }),
              testing::HasSubstr("one sequence in TRAIN"));
}

TEST_F(ClipLayers, SequencesMayRollOverTheVideosEnd) {
  WriteFlow(1, 4);
  Write("list.txt", "v1 5 4\n");
  const auto tops = Next(*Open("VideoDataRNN",
                               Tops(3) + "video_data_param { source: 'list.txt' seq_length: 4 stride_seq: 2 "
                                         "do_rolling: true eval_num: 2 }",
                               TEST));
  // Frames 0, 2, 4 and 1, their x first.
  for (const auto& [step, frame] : {std::pair<size_t, int>{0, 0}, {1, 2}, {2, 4}, {3, 1}}) {
    const Image x = Picture(6, 8, 1, 50 + 2 * frame);
    EXPECT_THAT(std::span(tops[0]).subspan(step * 96, 48), testing::ElementsAreArray(x.pixels)) << step;
  }
  EXPECT_THAT(tops[1], testing::ElementsAre(-1, -1, 4, 4));
  EXPECT_THAT(tops[2], testing::ElementsAre(-4, 1, 1, 1));
}

TEST_F(ClipLayers, ActionVideoDataMakesItemsOfSegments) {
  WriteFlow(1, 8);
  WriteFlow(2, 2);
  WriteFlow(3, 1);
  Write("list.txt", "v1 9 4\nv2 3 7\nv3 2 1\n");
  const std::string fields = Tops(2) +
                             "video_data_param { source: 'list.txt' batch_size: 9 new_length: 2 num_segments: 3 "
                             "rep_label: 1 } transform_param { crop_size: 4 mean_value: 128 num_segments: 3 }";
  const auto pipeline = Open("VideoData", fields);
  EXPECT_THAT(Types(*pipeline), testing::ElementsAre("float32[9,4,4,4]", "float32[3,1,1,1]"));
  ExpectTops("items", Next(*pipeline));
  ExpectResumes("VideoData", fields);
  // In TRAIN the segments of nine frames begin at a drawn place and lie 8 / 3 frames apart.
  Write("list.txt", "v1 9 4\n");
  const auto train = Open("VideoData",
                          Tops(1) +
                              "video_data_param { source: 'list.txt' batch_size: 3 new_length: 2 "
                              "num_segments: 3 rep_label: 1 }",
                          TRAIN);
  std::set<std::vector<int>> seen;
  for (int i = 0; i < 20; ++i) {
    const auto data = Next(*train)[0];
    std::vector<int> frames;
    for (size_t item = 0; item < 3; ++item) {
      for (int f = 0; f < 9; ++f) {
        if (data[item * 192] == static_cast<float>(Picture(6, 8, 1, 50 + 2 * f).pixels[0])) frames.push_back(f);
      }
    }
    seen.insert(frames);
  }
  EXPECT_THAT(seen, testing::ElementsAre(testing::ElementsAre(0, 3, 5), testing::ElementsAre(1, 4, 6)));
}

TEST_F(ClipLayers, ImageDataOfThreeTopsReadsSequencesOfSixteen) {
  for (const int video : {1, 2}) {
    for (int t = 0; t < 16; ++t) {
      WriteShot(StrCat("root/v", video, "/frame.", 1000 + t, ".jpg"), 50 * video + t, 3);
    }
  }
  Write("root/v1/notes.txt", "not a picture");
  Write("list.txt", "split/v1 3\nsplit/v2 5\n");
  const std::string fields =
      Tops(3) +
      "image_data_param { source: 'list.txt' root_folder: 'root' batch_size: 32 } transform_param { crop_size: "
      "2 mean_value: 10.5 mean_value: 20 mean_value: 30 }";
  const auto pipeline = Open("ImageData", fields);
  EXPECT_THAT(Types(*pipeline), testing::ElementsAre("float32[32,3,2,2]", "float32[32]", "float32[32]"));
  ExpectTops("run", Next(*pipeline));
  ExpectResumes("ImageData", fields);
  Write("list.txt", "split/none 3\n");
  EXPECT_THAT(OpenError("ImageData", fields),
              testing::AllOf(testing::HasSubstr("list.txt:1"), testing::HasSubstr("root/none")));
  Write("root/few/a.jpg", "");
  Write("list.txt", "split/few 3\n");
  EXPECT_THAT(OpenError("ImageData", fields), testing::HasSubstr("has 1 pictures, a sequence needs 16"));
  EXPECT_THAT(OpenError("ImageData", Tops(3) + "image_data_param { source: 'list.txt' batch_size: 20 }"),
              testing::HasSubstr("expected a multiple of the 16"));
}

TEST_F(ClipLayers, RgbVideoDataSpreadsPicturesOverVideos) {
  for (int f = 0; f < 7; ++f) WriteShot(StrCat("a/f", f, ".jpg"), 50 + f, 3);
  for (int f = 0; f < 3; ++f) WriteShot(StrCat("b/f", f, ".jpg"), 100 + f, 3);
  Write("list.txt", Lines("a", 7, "f", 4, 0, 1) + Lines("b", 3, "f", 50, 1, 1));
  const std::string fields =
      Tops(2) +
      "image_data_param { source: 'list.txt' batch_size: 8 pair_size: 4 new_height: 5 new_width: "
      "7 } transform_param { crop_size: 4 mean_value: 10.5 mean_value: 20 mean_value: 30 }";
  const auto pipeline = Open("RgbVideoData", fields);
  EXPECT_THAT(Types(*pipeline), testing::ElementsAre("float32[8,3,4,4]", "float32[8,2,1,1]"));
  ExpectTops("rgb", Next(*pipeline));
  std::string drawn = fields;
  drawn.insert(drawn.find("batch_size"), "color_aug: true rand_frame: true shuffle: true ");
  ExpectResumes("RgbVideoData", drawn);
}

TEST_F(ClipLayers, ColorFactorsAreOfAVideo) {
  Write("a/0.jpg", EncodePng(Picture(6, 8, 3, 1)));
  Write("a/1.jpg", EncodePng(Picture(6, 8, 3, 1)));
  Write("list.txt", Lines("a", 2, "", 0, 0, 1));
  const auto data = Next(*Open("RgbVideoData",
                               Tops(1) + "image_data_param { source: 'list.txt' batch_size: 2 pair_size: 2 color_aug: "
                                         "true }",
                               TRAIN))[0];
  const Image image = Picture(6, 8, 3, 1);
  for (size_t c = 0; c < 3; ++c) {
    const float factor = data[c * 48] / static_cast<float>(image.pixels[c]);
    EXPECT_GE(factor, 0.8F);
    EXPECT_LT(factor, 1.2F);
    EXPECT_NE(factor, 1.0F);
    for (size_t i = 0; i < 48; ++i) {
      const float expected = std::min(static_cast<float>(image.pixels[i * 3 + c]) * factor, 255.0F);
      ASSERT_NEAR(data[c * 48 + i], expected, 1e-3);
      ASSERT_NEAR(data[144 + c * 48 + i], expected, 1e-3);  // the second picture
    }
  }
}

TEST_F(ClipLayers, FlowVideoDataStacksPicturesThatFollow) {
  for (const auto& [video, last] : {std::pair{1, 5}, std::pair{2, 2}}) {
    for (int f = 0; f <= last; ++f) {
      for (const int axis : {0, 1}) {
        WriteShot(StrCat("v", video, "/000", f, axis == 0 ? "_x.jpg" : "_y.jpg"), 50 * video + 2 * f + axis, 1);
      }
    }
  }
  Write("list.txt", Lines("v1", 5, "", 4, 0, 2) + Lines("v2", 2, "", 7, 1, 2));
  const std::string fields =
      Tops(2) +
      "image_data_param { source: 'list.txt' batch_size: 6 pair_size: 3 pair_size_sub: 2 frame_num: 2 is_color: false "
      "bound: 20 ";
  const std::string transform = "} transform_param { crop_size: 4 mean_value: 8 mirror: ";
  const auto pipeline = Open("FlowVideoData", fields + "read_mode: 5 " + transform + "false }");
  EXPECT_THAT(Types(*pipeline), testing::ElementsAre("float32[6,4,4,4]", "float32[6,2,1,1]"));
  ExpectTops("flow_pixels", Next(*pipeline));
  ExpectTops("flow_values", Next(*Open("FlowVideoData", fields + "read_mode: 4 " + transform + "false }")));
  ExpectResumes("FlowVideoData", fields + "read_mode: 5 shuffle: true rand_frame: true " + transform + "true }");
  // A mirrored x has its sign turned, its y has not: with a bound of 20 and a mean of 0 the flow's negative.
  const auto coin = Open("FlowVideoData", fields + "read_mode: 4 } transform_param { mirror: true }", TEST);
  std::set<bool> mirrored;
  for (int i = 0; i < 12; ++i) {
    const auto data = Next(*coin)[0];
    const auto flow = [](int seed, size_t x) {
      return static_cast<float>(Picture(6, 8, 1, seed).pixels[x]) / 255 * 40 - 20;
    };
    const bool is_mirrored = std::abs(data[0] - flow(50, 0)) > 1e-3;
    mirrored.insert(is_mirrored);
    EXPECT_NEAR(data[0], is_mirrored ? -flow(50, 7) : flow(50, 0), 1e-3);
    EXPECT_NEAR(data[48], is_mirrored ? flow(51, 7) : flow(51, 0), 1e-3);
  }
  EXPECT_EQ(mirrored.size(), 2U);
}

TEST_F(ClipLayers, ImageVideoDataGoesThroughVideos) {
  int line = 0;
  for (const int files : {44, 22, 30, 66}) {
    ++line;
    for (int f = 1; f <= files; ++f) {
      WriteShot(StrCat("v", line, "/image_00", f < 10 ? "0" : "", f, ".jpg"), line * 100 + f, 3);
    }
  }
  Write("list.txt", "v1 44 1\nv2 22 2\nv3 30 3\nv4 66 4\n");
  const std::string fields = Tops(3) +
                             "video_data_param { source: 'list.txt' batch_size: 2 new_length: 22 } transform_param { "
                             "crop_size: 2 }";
  const auto pipeline = Open("ImageVideoData", fields);
  EXPECT_THAT(Types(*pipeline), testing::ElementsAre("float32[2,3,22,2,2]", "float32[2,3,2,2]", "float32[2]"));
  for (int i = 0; i < 4; ++i) ExpectTops(StrCat("image_video_", i), Next(*pipeline));
  EXPECT_EQ(pipeline->epoch_size(), 8);  // seven clips, in batches of two
  ExpectTops("image_video_0", Next(*pipeline));
  std::string shuffled = fields;
  shuffled.insert(shuffled.find("new_length"), "shuffle: true ");
  ExpectResumes("ImageVideoData", shuffled, 2);

  const auto with = [&](const std::string& list, const std::string& more) {
    Write("list.txt", list);
    return OpenError("ImageVideoData", Tops(3) + "video_data_param { source: 'list.txt' " + more + " }");
  };
  EXPECT_THAT(with("v1 44 1\n", "new_length: 20"), testing::HasSubstr("new_length is 20, expected 21"));
  EXPECT_THAT(with("v1 44 1\n", "new_length: 22 batch_size: 2"), testing::HasSubstr("1 videos, and each of the 2"));
  EXPECT_THAT(with("v1 44 1\nv2 22 1\n", "new_length: 23"),
              testing::AllOf(testing::HasSubstr("list.txt:2"), testing::HasSubstr("has 22 pictures")));
  EXPECT_THAT(with("none 44 1\n", "new_length: 22"),
              testing::AllOf(testing::HasSubstr("list.txt:1"), testing::HasSubstr("none")));
}

TEST_F(ClipLayers, VideoDataSegReadsLabelPictures) {
  for (const int slice : {3, 4}) {
    WriteShot(StrCat("scan/img_", slice, ".png"), 10 + slice, 1);
    WriteShot(StrCat("truth/label_", slice, ".png"), 20 + slice, 1);
  }
  Write("list.txt", "scan 3 truth\n");
  const std::string fields = Tops(2) + "video_data_param { source: 'list.txt' new_length: 2 ";
  const auto pipeline = Open("VideoDataSeg", fields + "new_height: 5 new_width: 7 }");
  EXPECT_THAT(Types(*pipeline), testing::ElementsAre("float32[1,1,2,5,7]", "float32[1,1,2,5,7]"));
  ExpectTops("scan", Next(*pipeline));

  Write("truth/label_4.png", EncodePng(Picture(6, 7, 1, 0)));
  EXPECT_THAT(OpenError("VideoDataSeg", fields + "}"),
              testing::AllOf(testing::HasSubstr("list.txt:1"), testing::HasSubstr("truth/label_4.png\" is 6x7")));
  std::filesystem::remove(At("truth/label_4.png"));
  EXPECT_THAT(OpenError("VideoDataSeg", fields + "}"), testing::HasSubstr("truth/label_4.png"));
  std::filesystem::copy_file(MOKA_SOURCE_DIR "/tests/data/images/grey16.png", At("scan/img_3.png"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(OpenError("VideoDataSeg", fields + "}"), testing::HasSubstr("16 bits a channel"));
  EXPECT_THAT(OpenError("VideoDataSeg", fields + "} transform_param { mirror: true }"),
              testing::HasSubstr("does not read transform_param.mirror"));
  Write("list.txt", "scan 3\n");
  EXPECT_THAT(OpenError("VideoDataSeg", fields + "}"),
              testing::AllOf(testing::HasSubstr("list.txt:1"), testing::HasSubstr("folder_of_labels")));
}

TEST_F(ClipLayers, TridimDataIsC3dsVideoData) {
  for (int f = 1; f <= 5; ++f) WriteShot(StrCat("v/00000", f, ".jpg"), f, 3);
  Write("list.txt", "v 1 7\n");
  const std::string fields = "source: 'list.txt' new_length: 2 sampling_rate: 3 ";
  const auto mine = Next(*Open("TridimData", Tops(2) + "tridim_data_param { use_image: true " + fields + "}"));
  const auto c3d = Next(*Open("VideoData", Tops(2) + "video_data_param { use_image: true " + fields + "}"));
  EXPECT_EQ(mine, c3d);
  EXPECT_THAT(OpenError("TridimData", Tops(2) + "tridim_data_param { " + fields + "}"),
              testing::HasSubstr("video files are not read"));
}

TEST_F(ClipLayers, MistakesInListsAndFieldsAreErrors) {
  WriteFlow(1, 4);
  const auto rnn = [&](const std::string& list, const std::string& more) {
    Write("list.txt", list);
    return OpenError("VideoDataRNN", Tops(3) + "video_data_param { source: 'list.txt' " + more + " }");
  };
  EXPECT_THAT(rnn("v1 5\n", ""), testing::AllOf(testing::HasSubstr("list.txt:1"), testing::HasSubstr("frames label")));
  EXPECT_THAT(rnn("v1 5 x\n", ""), testing::AllOf(testing::HasSubstr("list.txt:1"), testing::HasSubstr("\"x\"")));
  EXPECT_THAT(rnn("v1 4294967296 0\n", ""),
              testing::HasSubstr("expected a whole number of 32 bits as the frame number, found \"4294967296\""));
  EXPECT_THAT(rnn("v1 2 0\n", "new_length: 3"), testing::HasSubstr("the video has 2 frames, a sequence needs 3"));
  EXPECT_THAT(rnn("v1 -2000000000 0\n", ""), testing::HasSubstr("-2000000000 frames"));
  EXPECT_THAT(rnn("v1 9 0\n", "new_length: 9"), testing::HasSubstr("v1/5_x.png"));
  EXPECT_THAT(rnn("v1 2147483647 0\n", "num_segments: 7"), testing::HasSubstr("_x.png"));
  EXPECT_THAT(rnn("v1 5 0\n", "seq_length: 0"), testing::HasSubstr("seq_length is 0"));
  EXPECT_THAT(rnn("v1 5 0\n", "stride_seq: -1"), testing::HasSubstr("stride_seq is -1"));
  EXPECT_THAT(rnn("v1 5 0\n", "seq_length: 65536 num_segments: 65536"), testing::HasSubstr("clips"));
  EXPECT_THAT(rnn("v1 5 0\n", "num_views: 2"), testing::HasSubstr("several views"));
  EXPECT_THAT(rnn("v1 5 0\n", "suffix: '../x'"), testing::HasSubstr("is no file suffix"));
  EXPECT_THAT(rnn("v1 5 0\n", "eval_last: false"), testing::HasSubstr("last clips"));
  EXPECT_THAT(rnn("", ""), testing::HasSubstr("the list is empty"));

  const auto flow = [&](const std::string& list, const std::string& more) {
    Write("list.txt", list);
    return OpenError("FlowVideoData", Tops(2) + "image_data_param { source: 'list.txt' is_color: false " + more + " }");
  };
  EXPECT_THAT(flow("a 2\na/1.jpg 0\n", ""),
              testing::AllOf(testing::HasSubstr("list.txt:1"), testing::HasSubstr("lacks the lines of its last 1")));
  EXPECT_THAT(flow("a 0\n", ""), testing::HasSubstr("has 0 pictures"));
  EXPECT_THAT(flow("a 3\n", "pair_size_sub: 2"), testing::HasSubstr("expected 1 or more, 2 a frame"));
  EXPECT_THAT(flow("a 1\na/x.jpg 0\n", ""), testing::HasSubstr("has no frame number"));
  EXPECT_THAT(flow("a 1\na/99999999999999999999.jpg 0\n", ""), testing::HasSubstr("has no frame number"));
  EXPECT_THAT(flow("a 1\na/1.jpg 0\n", "read_mode: 1"), testing::HasSubstr("expected 0, 4 or 5"));
  EXPECT_THAT(flow("a 1\na/1.jpg 0\n", "multiview: true"), testing::HasSubstr("given by the list"));
  EXPECT_THAT(flow("a 1\na/1.jpg 0\n", "pair_size: 2 batch_size: 3"), testing::HasSubstr("multiple of the 2"));
}

}  // namespace
}  // namespace moka
