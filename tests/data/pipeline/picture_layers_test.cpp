// Layers of label images, windows and clips, against what OpenCV makes of the same pictures
// (tests/golden/make_image_data_goldens.py).
#include <set>
#include <span>

#include "core/text.h"
#include "proto/weights/weights.h"
#include "tests/data/picture_fixture.h"

namespace moka {
namespace {

constexpr const char* kMeans = " mean_value: 10.5 mean_value: 20 mean_value: 30 ";

std::string SegFields(const std::string& data, const std::string& transform, int tops = 3) {
  std::string text;
  for (int i = 0; i < tops; ++i) text += "top: 't" + std::to_string(i) + "' ";
  return text + "image_data_param { source: 'list.txt' root_folder: 'p/' " + data + " } transform_param { " +
         transform + " }";
}

TEST_F(PictureLayers, ImageSegDataResizesScalesPadsAndCrops) {
  WritePair();
  const auto pipeline = Open("ImageSegData", SegFields("label_type: PIXEL new_height: 10 new_width: 12",
                                                       std::string("crop_size: 8 scale: 0.5") + kMeans));
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[1,3,8,8]");
  EXPECT_EQ(pipeline->types()[1].ToString(), "float32[1,1,8,8]");
  EXPECT_EQ(pipeline->types()[2].ToString(), "float32[1,1,1,2]");
  ExpectGolden("seg_resized_crop", Next(*pipeline));
  ExpectGolden("seg_padded", Next(*Open("ImageSegData", SegFields("label_type: PIXEL", std::string("crop_height: 12 "
                                                                                                   "crop_width: 8") +
                                                                                           kMeans))));
  ExpectGolden("seg_scaled",
               Next(*Open("ImageSegData", SegFields("label_type: PIXEL", std::string("crop_height: 6 crop_width: 7 "
                                                                                     "scale_factors: 1.5") +
                                                                             kMeans))));
}

TEST_F(PictureLayers, ImageSegDataWithoutLabelImages) {
  WritePair();
  Write("list.txt", "image.png 7\nimage.png 255\n");
  const auto numbers = Next(*Open("ImageSegData", SegFields("batch_size: 2", "")));
  EXPECT_THAT(std::span(numbers[1]).first(63), testing::Each(7.0F));
  EXPECT_THAT(std::span(numbers[1]).last(63), testing::Each(255.0F));
  EXPECT_THAT(numbers[2], testing::ElementsAre(7, 9, 7, 9));
  for (const char* fields : {"label_type: NONE ignore_label: 254", "has_label: false ignore_label: 254"}) {
    const auto none = Next(*Open("ImageSegData", SegFields(fields, "", 2)));
    EXPECT_THAT(none[1], testing::Each(254.0F));
    EXPECT_EQ(Next(*Open("ImageSegData", SegFields(fields, "", 1)))[0], none[0]);
  }
}

// The same cut for both: an image whose pixels are its label's tells.
TEST_F(PictureLayers, CropsAndMirrorsAreTheSameForImageAndLabels) {
  const Image gray = Picture(9, 11, 1, 5);
  Write("p/image.png", EncodePng(gray));
  Write("list.txt", "image.png image.png\n");
  const std::string crop = "crop_size: 4 mirror: true";
  const std::string dense =
      "top: 'a' top: 'b' dense_image_data_param { source: 'list.txt' root_folder: 'p/' batch_size: 3 is_color: false "
      "mirror: true crop_height: 4 crop_width: 4 }";
  std::set<std::vector<float>> seen;
  for (const Phase phase : {TRAIN, TEST}) {
    for (const auto& [type, fields] :
         {std::pair<std::string, std::string>("ImageSegData",
                                              SegFields("label_type: PIXEL is_color: false batch_size: 3", crop, 2)),
          std::pair<std::string, std::string>("DenseImageData", dense)}) {
      const auto pipeline = Open(type, fields, phase);
      for (int i = 0; i < 8; ++i) {
        const auto tops = Next(*pipeline);
        EXPECT_EQ(tops[0], tops[1]) << type;
        for (size_t n = 0; n < 3; ++n) {
          const auto part = std::span(tops[0]).subspan(16 * n, 16);
          seen.insert({part.begin(), part.end()});
        }
      }
      // Resuming gives the same random choices.
      const auto again = Open(type, fields, phase);
      again->Seek(pipeline->position());
      EXPECT_EQ(Next(*again), Next(*pipeline)) << type;
    }
  }
  EXPECT_GT(seen.size(), 20U);
}

TEST_F(PictureLayers, DenseImageDataDividesTheLabelImage) {
  WritePair();
  const std::string fields =
      "top: 'a' top: 'b' dense_image_data_param { source: 'list.txt' root_folder: 'p/' batch_size: 1 new_height: 10 "
      "new_width: 12 label_divide_factor: 2 } transform_param { " +
      std::string(kMeans) + " }";
  const auto pipeline = Open("DenseImageData", fields);
  EXPECT_EQ(pipeline->types()[1].ToString(), "float32[1,1,5,6]");
  ExpectGolden("dense_divided", Next(*pipeline));
}

TEST_F(PictureLayers, ImageLabelmapDataMakesEdges) {
  WritePair();
  const auto tops = Next(*Open("ImageLabelmapData", SegFields("new_height: 10 new_width: 12", kMeans, 2)));
  ExpectGolden("labelmap", tops);
  // DSS: `normalize: false` leaves the labels as they are.
  const auto plain = Next(*Open("ImageLabelmapData", SegFields("normalize: false", "", 2)));
  const Image label = Picture(7, 9, 1, 2);
  EXPECT_THAT(plain[1], testing::ElementsAreArray(label.pixels));
}

TEST_F(PictureLayers, WindowSegDataCutsWindowsBeyondTheImage) {
  WritePair();
  Write("list.txt", "image.png label.png -2 1 5 9\n");
  const auto tops = Next(*Open("WindowSegData", SegFields("label_type: PIXEL new_height: 9 new_width: 10",
                                                          std::string("crop_size: 8") + kMeans)));
  ExpectGolden("seg_window", tops);
}

TEST_F(PictureLayers, MistakesInListsOfPairsAreErrors) {
  WritePair();
  const std::string fields = SegFields("label_type: PIXEL", "");
  const auto with = [&](const std::string& list, const std::string& type = "ImageSegData") {
    Write("list.txt", list);
    return OpenError(type, fields);
  };
  EXPECT_THAT(with("image.png label.png\n\nimage.png\n"),
              testing::AllOf(testing::HasSubstr("list.txt:3"), testing::HasSubstr("expected \"image label\"")));
  EXPECT_THAT(with("image.png none.png"),
              testing::AllOf(testing::HasSubstr("list.txt:1"), testing::HasSubstr("none.png")));
  Write("p/small.png", EncodePng(Picture(6, 9, 1, 0)));
  EXPECT_THAT(with("image.png small.png"), testing::HasSubstr("the label image is 6x9"));
  Write("p/tall.png", EncodePng(Picture(8, 9, 3, 0)));
  Write("p/tall_label.png", EncodePng(Picture(8, 9, 1, 0)));
  Write("list.txt", "image.png label.png\ntall.png tall_label.png\n");
  const auto pipeline = Open("ImageSegData", fields);
  Next(*pipeline);
  EXPECT_THAT(ErrorOf([&] { Next(*pipeline); }),
              testing::AllOf(testing::HasSubstr("list.txt:2"), testing::HasSubstr("set new_height and new_width")));
  EXPECT_THAT(with("image.png label.png 1 2 3", "WindowSegData"), testing::HasSubstr("list.txt:1"));
  EXPECT_THAT(with("image.png label.png 1 2 3 x", "WindowSegData"), testing::HasSubstr("found \"x\""));
  EXPECT_THAT(with("image.png label.png 3 2 1 4", "WindowSegData"), testing::HasSubstr("is empty or larger"));
  Write("list.txt", "image.png label.png\n");
  EXPECT_THAT(OpenError("ImageSegData", SegFields("label_type: PIXEL", "mean_file: 'm'")),
              testing::HasSubstr("does not read transform_param.mean_file"));
  EXPECT_THAT(OpenError("ImageSegData", SegFields("label_type: PIXEL", "scale_factors: 2")),
              testing::HasSubstr("set a crop"));
  EXPECT_THAT(OpenError("ImageSegData", SegFields("label_type: PIXEL batch_size: 0", "")),
              testing::HasSubstr("batch_size is 0"));
}

class Windows : public PictureLayers {
 protected:
  // One background and one foreground window (class 3).
  void WriteWindows(const std::string& sides) const {
    Write("p/image.png", EncodePng(Picture(7, 9, 3, 1)));
    Write("windows.txt", "# 0\nimage.png\n3\n7\n9\n3\n3 0.9 " + sides + "\n2 0.1 " + sides + "\n2 0.4 0 0 1 1\n");
  }
  static std::string Fields(const std::string& window, const std::string& transform) {
    return "top: 'data' top: 'label' window_data_param { source: 'windows.txt' root_folder: 'p/' bg_threshold: 0.3 "
           "scale: 0.25 " +
           window + " } transform_param { " + transform + kMeans + " }";
  }
};

TEST_F(Windows, AreWarpedAsCaffeWarpsThem) {
  const std::pair<std::string, std::string> modes[] = {
      {"warp", "crop_size: 6"}, {"context", "crop_size: 8"}, {"square", "crop_size: 8"}};
  for (const auto& [name, crop] : modes) {
    const std::string fields = name == "context"  ? "context_pad: 2"
                               : name == "square" ? "context_pad: 1 crop_mode: 'square'"
                                                  : "";
    for (const auto& [place, sides] : {std::pair<std::string, std::string>("inside", "2 1 6 4"),
                                       std::pair<std::string, std::string>("corner", "0 0 3 5"),
                                       std::pair<std::string, std::string>("right", "4 2 8 6")}) {
      WriteWindows(sides);
      ExpectGolden("window_" + name + "_" + place,
                   {Next(*Open("WindowData", Fields(fields + " batch_size: 1", crop), TRAIN))[0]});
      // If the layer mirrors, each window is one of two.
      const auto plain = goldens_.at("window_" + name + "_" + place).at("data").get<std::vector<float>>();
      const auto turned =
          goldens_.at("window_" + name + "_" + place + "_mirrored").at("data").get<std::vector<float>>();
      const auto pipeline = Open("WindowData", Fields(fields + " batch_size: 1", crop + " mirror: true"), TRAIN);
      int mirrored = 0;
      for (int i = 0; i < 12; ++i) {
        const auto data = Next(*pipeline)[0];
        const auto near = [&](const std::vector<float>& golden) {
          return std::ranges::equal(data, golden, [](float a, float b) { return std::abs(a - b) < 1e-3; });
        };
        ASSERT_TRUE(near(plain) || near(turned)) << name << " " << place;
        mirrored += static_cast<int>(!near(plain));
      }
      EXPECT_GT(mirrored, 0);
      EXPECT_LT(mirrored, 12);
    }
  }
}

TEST_F(Windows, BackgroundComesFirstThenTheFractionOfForeground) {
  WriteWindows("2 1 6 4");
  const auto pipeline = Open("WindowData", Fields("batch_size: 8 fg_fraction: 0.3", "crop_size: 4"), TRAIN);
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[8,3,4,4]");
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Next(*pipeline)[1], testing::ElementsAre(0, 0, 0, 0, 0, 0, 3, 3));
  const auto again = Open("WindowData", Fields("batch_size: 8 fg_fraction: 0.3", "crop_size: 4"), TRAIN);
  again->Seek(24);
  EXPECT_EQ(Next(*again), Next(*pipeline));
}

TEST_F(Windows, MistakesAreErrors) {
  WriteWindows("2 1 6 4");
  const std::string good = Fields("batch_size: 4", "crop_size: 4");
  const auto with = [&](const std::string& file) {
    Write("windows.txt", file);
    return OpenError("WindowData", good);
  };
  EXPECT_THAT(with("0\n"), testing::AllOf(testing::HasSubstr("windows.txt:1"), testing::HasSubstr("\"# index\"")));
  EXPECT_THAT(with("# 1\n"), testing::HasSubstr("numbered from 0"));
  EXPECT_THAT(with("# 0\nimage.png 3 7\n9 2\n1 0.9 0 0 1"),
              testing::AllOf(testing::HasSubstr("windows.txt:4"), testing::HasSubstr("the file ends")));
  EXPECT_THAT(with("# 0\nimage.png 3 7 9 1\n1 x 0 0 1 1\n"),
              testing::AllOf(testing::HasSubstr("windows.txt:3"), testing::HasSubstr("found \"x\"")));
  EXPECT_THAT(with("# 0\nimage.png 3 7 9 1\n0 0.9 0 0 1 1\n"), testing::HasSubstr("classes are counted from 1"));
  EXPECT_THAT(with("# 0\nimage.png 3 7 9 1\n1 0.9 0 0 1 1\n"), testing::HasSubstr("no background window"));
  EXPECT_THAT(with("# 0\nimage.png 3 7 9 2\n1 0.9 0 0 9 1\n1 0 0 0 9 1\n"),
              testing::AllOf(testing::HasSubstr("line 4"), testing::HasSubstr("does not lie in the image")));
  WriteWindows("2 1 6 4");
  EXPECT_THAT(OpenError("WindowData", Fields("batch_size: 4", "")), testing::HasSubstr("crop_size is 0"));
  EXPECT_THAT(OpenError("WindowData", Fields("batch_size: 4 context_pad: 2", "crop_size: 4")),
              testing::HasSubstr("leaves nothing"));
  EXPECT_THAT(OpenError("WindowData", Fields("batch_size: 4 crop_mode: 'round'", "crop_size: 4")),
              testing::HasSubstr("expected \"warp\" or \"square\""));
}

class Clips : public PictureLayers {
 protected:
  // Frames 1..count of constant colour: frame f of `folder` has pixels (10 f, 10 f + 1, 10 f + 2).
  void WriteFrames(const std::string& folder, const std::string& prefix, int digits, int count, int height = 6,
                   int width = 8) const {
    for (int f = 1; f <= count; ++f) {
      Image image;
      image.Resize(width, height, 3);
      for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(10 * f + i % 3);
      std::string number = std::to_string(f);
      number.insert(0, static_cast<size_t>(digits) - number.size(), '0');
      Write(folder + "/" + prefix + number + ".jpg", EncodePng(image));  // readers go by the bytes
    }
  }
  // The first pixel of each plane of a sample.
  static std::vector<float> Planes(const std::vector<float>& data, size_t planes) {
    std::vector<float> first;
    for (size_t i = 0; i < planes; ++i) first.push_back(data[i * data.size() / planes]);
    return first;
  }
};

TEST_F(Clips, SegmentsLieAlongTheChannels) {
  WriteFrames("v/a", "image_", 4, 9);
  Write("clips.txt", "v/a 9 5\n");
  const std::string fields =
      "top: 'data' top: 'label' video_data_param { source: 'clips.txt' num_segments: 3 new_length: 2 modality: RGB }";
  const auto pipeline = Open("VideoData", fields);
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[1,18,6,8]");
  const auto tops = Next(*pipeline);
  // Segments of three frames; (3 - 2 + 1) / 2 = 1 is left out before the first.
  EXPECT_THAT(Planes(tops[0], 18),
              testing::ElementsAre(20, 21, 22, 30, 31, 32, 50, 51, 52, 60, 61, 62, 80, 81, 82, 90, 91, 92));
  EXPECT_THAT(tops[1], testing::ElementsAre(5));
  const auto first = Next(*Open("VideoData", fields.substr(0, fields.size() - 1) + "length_first: true }"));
  const std::vector<float> planes = Planes(first[0], 18);
  EXPECT_THAT(std::span(planes).first(6), testing::ElementsAre(20, 30, 21, 31, 22, 32));
  // In TRAIN each segment begins at a frame of its own.
  const auto train = Open("VideoData", fields, TRAIN);
  std::set<float> starts;
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> drawn = Planes(Next(*train)[0], 18);
    starts.insert(drawn[6]);
    EXPECT_EQ(drawn[9], drawn[6] + 10);
  }
  EXPECT_THAT(starts, testing::ElementsAre(40, 50));
}

TEST_F(Clips, MirroredFlowTurnsItsX) {
  for (const char* axis : {"x", "y"}) {
    for (int f = 1; f <= 2; ++f) {
      Image image = Picture(5, 6, 1, axis[0] + f);
      Write("v/flow_" + std::string(axis) + "_000" + std::to_string(f) + ".jpg", EncodePng(image));
    }
  }
  Write("clips.txt", "v 2 0\n");
  const std::string fields =
      "top: 'data' video_data_param { source: 'clips.txt' modality: FLOW new_length: 2 } transform_param { mirror: "
      "true "
      "is_flow: true }";
  const auto pipeline = Open("VideoData", fields);
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[1,4,5,6]");
  int mirrored = 0;
  for (int i = 0; i < 12; ++i) {
    const auto data = Next(*pipeline)[0];
    const Image x = Picture(5, 6, 1, 'x' + 1);
    const Image y = Picture(5, 6, 1, 'y' + 1);
    const bool is_mirrored = data[0] != x.pixels[0];
    mirrored += static_cast<int>(is_mirrored);
    for (size_t row = 0; row < 5; ++row) {
      for (size_t column = 0; column < 6; ++column) {
        const size_t from = row * 6 + (is_mirrored ? 5 - column : column);
        const int pixel = x.pixels[from];
        ASSERT_EQ(data[row * 6 + column], is_mirrored ? 255 - pixel : pixel);
        ASSERT_EQ(data[30 + row * 6 + column], y.pixels[from]);
      }
    }
  }
  EXPECT_GT(mirrored, 0);
  EXPECT_LT(mirrored, 12);
}

TEST_F(Clips, MultiScaleResizesACrop) {
  for (int f = 1; f <= 2; ++f) Write("v/f" + std::to_string(f) + ".png", EncodePng(Picture(12, 12, 3, f + 2)));
  Write("clips.txt", "v 2 0\n");
  const auto tops = Next(*Open("VideoData",
                               "top: 'data' video_data_param { source: 'clips.txt' modality: RGB new_length: 2 "
                               "name_pattern: 'f%d.png' } transform_param { crop_size: 6 multi_scale: true "
                               "scale_ratios: 1 fix_crop: true" +
                                   std::string(kMeans) + " }",
                               TRAIN));
  ExpectGolden("clip_multi_scale", {tops[0]});
}

TEST_F(Clips, VolumesHaveAnAxisOfFrames) {
  WriteFrames("v/a", "image_", 4, 5);
  WriteFrames("v/c3d", "", 6, 5);
  Write("clips.txt", "v/a 3 7\n");
  const auto pipeline = Open("VideoData",
                             "top: 'data' top: 'label' video_data_param { source: 'clips.txt' new_length: 3 } "
                             "transform_param { crop_size: 4 mean_value: 1 }");
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[1,3,3,4,4]");
  const auto tops = Next(*pipeline);
  EXPECT_THAT(Planes(tops[0], 9), testing::ElementsAre(29, 39, 49, 30, 40, 50, 31, 41, 51));
  EXPECT_THAT(tops[1], testing::ElementsAre(7));
  // C3D 1.0: the fields of image_data_param.
  Write("clips.txt", "v/c3d 1 7\n");
  const auto c3d = Next(*Open("VideoData",
                              "top: 'data' top: 'label' image_data_param { source: 'clips.txt' new_length: 2 "
                              "use_image: true sampling_rate: 3 crop_size: 4 mean_value: 10 scale: 2 }"));
  EXPECT_THAT(Planes(c3d[0], 6), testing::ElementsAre(0, 60, 2, 62, 4, 64));
}

TEST_F(Clips, MistakesAreErrors) {
  WriteFrames("v/a", "image_", 4, 2);
  Write("clips.txt", "v/a 4 0\n");
  const auto fields = [](const std::string& more) {
    return "top: 'data' video_data_param { source: 'clips.txt' modality: RGB " + more + " }";
  };
  EXPECT_THAT(OpenError("VideoData", fields("new_length: 4")),
              testing::AllOf(testing::HasSubstr("clips.txt:1"), testing::HasSubstr("image_0003.jpg")));
  EXPECT_THAT(OpenError("VideoData", fields("name_pattern: 'image_%s.jpg'")),
              testing::HasSubstr("followed by no d or c"));
  EXPECT_THAT(OpenError("VideoData", fields("name_pattern: 'image.jpg'")), testing::HasSubstr("names no frame"));
  EXPECT_THAT(OpenError("VideoData", fields("name_pattern: 'flow_%c_%d.jpg'")), testing::HasSubstr("optical flow"));
  EXPECT_THAT(OpenError("VideoData", fields("new_length: 0")), testing::HasSubstr("new_length is 0"));
  EXPECT_THAT(OpenError("VideoData", fields("new_length: 60000 num_segments: 60000")),
              testing::HasSubstr("is larger than 4.00 GiB"));
  EXPECT_THAT(OpenError("VideoData", "top: 'data' video_data_param { video_type: WEBCAM }"),
              testing::HasSubstr("cameras and video files are not read"));
  EXPECT_THAT(OpenError("VideoData", "top: 'data' image_data_param { source: 'clips.txt' new_length: 1 }"),
              testing::HasSubstr("video files are not read"));
  Write("clips.txt", "v/a 4\n");
  EXPECT_THAT(OpenError("VideoData", fields("")), testing::HasSubstr("expected \"folder frames label\""));
}

}  // namespace
}  // namespace moka
