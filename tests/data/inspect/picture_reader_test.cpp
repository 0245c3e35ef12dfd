// Inference makes of a picture what the test phase of the data layer makes of the same picture, bit for bit.
#include "data/inspect/picture_reader.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/text.h"
#include "data/import/copy_records.h"
#include "data/import/import.h"
#include "data/import/record_maker.h"
#include "data/pipeline/open_pipeline.h"
#include "tests/data/record_fixture.h"

namespace moka {
namespace {

// A JPEG that must be turned a quarter to stand upright.
std::string TurnedJpeg(const Image& image) {
  const std::string jpeg = EncodeJpeg(image);
  std::string exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06", 25);
  exif += std::string("\0\0\0\0\0\0\0", 7);
  std::string segment("\xFF\xE1\0", 3);
  segment += static_cast<char>(exif.size() + 2);
  return jpeg.substr(0, 2) + segment + exif + jpeg.substr(2);
}

class PictureReaders : public RecordLayers {
 protected:
  struct File {
    std::string name;
    std::string bytes;
  };
  std::vector<File> Files() const {
    return {{"colour.png", EncodePng(Picture(50, 80, 3, 1))},
            {"grey.png", EncodePng(Picture(61, 47, 1, 2))},
            {"photo.jpg", EncodeJpeg(Picture(90, 120, 3, 3))},
            {"turned.jpg", TurnedJpeg(Picture(64, 100, 3, 4))},
            {"small.png", EncodePng(Picture(24, 25, 3, 5))}};
  }

  // The file as the only record of every kind of source.
  void WriteSources(const File& file) const {
    for (const char* name : {"db", "boxes", "records"}) std::filesystem::remove_all(At(name));
    Write(file.name, file.bytes);
    Write("list.txt", StrCat(file.name, " 0\n"));
    Datum datum;
    datum.set_encoded(true);
    datum.set_data(file.bytes);
    WriteDatabase(At("db"), {datum});
    AnnotatedDatum annotated;
    *annotated.mutable_datum() = datum;
    annotated.set_type(AnnotatedDatum::BBOX);
    LmdbWriter writer(At("boxes"));
    writer.Put(LmdbKey(0, "r"), annotated.SerializeAsString());
    writer.Finish();
    SampleRecord record;
    record.set_version(1);
    record.set_picture(file.bytes);
    WriteRecords({record}, "version: 1", "records");
  }

  // Whether the layer takes the picture, and then whether both ways gave the same.
  enum class Outcome { kRefused, kSame, kOther };
  Outcome Compare(const LayerParameter& layer, const File& file) const {
    std::unique_ptr<Pipeline> pipeline;
    std::vector<float> tested;
    try {
      pipeline = OpenPipeline(layer, {.phase = TEST, .seed = 3, .threads = 1, .base_folder = folder_});
      tested = Next(*pipeline)[0];
    } catch (const Error&) {
      return Outcome::kRefused;
    }
    const Shape sample = pipeline->types()[0].shape.Erased(0);
    PictureReader reader(layer, sample, folder_);
    std::vector<float> inferred(tested.size(), -1e9F);
    reader.Load(file.bytes, inferred);
    return inferred == tested ? Outcome::kSame : Outcome::kOther;
  }

  // The image [C,H,W] with a value of its own for each pixel.
  void WriteMean(const std::string& name, int64_t channels, int64_t height, int64_t width) const {
    BlobProto blob;
    for (const int64_t dim : {int64_t{1}, channels, height, width}) blob.mutable_shape()->add_dim(dim);
    for (int64_t i = 0; i < channels * height * width; ++i) blob.add_data(static_cast<float>(i % 97) * 0.5F);
    Write(name, blob.SerializeAsString());
  }
};

// An input layer for deployment has its number of channels by its shape.
TEST_F(PictureReaders, FieldsThatContradictTheInputAreRefused) {
  const auto fault = [&](const std::string& fields, int64_t channels) {
    LayerParameter layer = Layer("Input", "top: 'data' transform_param { " + fields + " }");
    return ErrorOf([&] { PictureReader(layer, Shape({channels, 8, 8}), folder_); });
  };
  EXPECT_THAT(fault("force_gray: true", 3),
              testing::HasSubstr("transform_param.force_gray makes pictures of 1 channel, "
                                 "and the net's input is [3,8,8]"));
  EXPECT_THAT(fault("force_color: true", 1), testing::HasSubstr("force_color makes pictures of 3 channels"));
  EXPECT_NO_THROW(
      PictureReader(Layer("Input", "top: 'data' transform_param { force_gray: true }"), Shape({1, 8, 8}), folder_));
}

constexpr const char* kTops = "top: 'data' top: 'label' ";

TEST_F(PictureReaders, EveryCombinationOfFieldsGivesTheBytesOfTheTest) {
  const std::string list = "image_data_param { source: 'list.txt' batch_size: 1 ";
  const std::string tops = kTops;
  std::vector<std::pair<std::string, std::string>> layers;  // type and fields
  for (const char* more : {"", "new_height: 32 new_width: 40", "new_height: 100 new_width: 90", "is_color: false",
                           "is_color: false new_height: 30 new_width: 31", "short_side: 28", "new_dim: 45",
                           "scale: 0.5", "crop_size: 20"}) {
    layers.emplace_back("ImageData", StrCat(tops, list, more, " } "));
  }
  for (const char* more : {"", "force_encoded_color: true", "scale: 0.25"}) {
    layers.emplace_back("Data", StrCat(tops, "data_param { source: 'db' batch_size: 1 backend: LMDB ", more, " } "));
  }
  layers.emplace_back("AnnotatedData", StrCat(tops, "data_param { source: 'boxes' batch_size: 1 backend: LMDB } "));
  for (const char* more : {"", "height: 36 width: 44", "canvas_height: 70 canvas_width: 60"}) {
    layers.emplace_back("RecordData", StrCat("top: 'data' data_param { source: 'records' batch_size: 1 } ",
                                             "record_data_param { output: PICTURE ", more, " } "));
  }
  const std::vector<std::string> sizes = {"",
                                          "resize_short: 30",
                                          "resize_short: 120",
                                          "resize_param { height: 33 width: 29 }",
                                          "resize_param { height: 40 width: 50 resize_mode: FIT_LARGE_SIZE_AND_PAD }",
                                          "resize_param { height: 26 width: 26 interp_mode: AREA }"};
  const std::vector<std::string> crops = {"", "crop_size: 24", "crop_h: 20 crop_w: 22", "pad: 3",
                                          "pad: 2 crop_size: 27"};
  const std::vector<std::string> values = {"", "mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.017",
                                           "mean_value: 110 std_value: 60",
                                           "std_value: 57 std_value: 58 std_value: 59"};
  const std::vector<std::string> channels = {"", "force_color: true", "force_gray: true"};
  int same = 0;
  int refused = 0;
  std::vector<std::string> others;
  for (const File& file : Files()) {
    WriteSources(file);
    for (const auto& [type, fields] : layers) {
      for (const std::string& size : sizes) {
        for (const std::string& crop : crops) {
          for (const std::string& value : values) {
            for (const std::string& channel : channels) {
              const std::string text = Join({fields, "transform_param {", size, crop, value, channel, "}"}, " ");
              const Outcome outcome = Compare(Layer(type, text), file);
              same += outcome == Outcome::kSame ? 1 : 0;
              refused += outcome == Outcome::kRefused ? 1 : 0;
              if (outcome == Outcome::kOther) others.push_back(StrCat(file.name, ": ", type, " ", text));
            }
          }
        }
      }
    }
  }
  EXPECT_TRUE(others.empty()) << others.size() << " differ, as " << others[0] << "\n" << others[others.size() / 2];
  EXPECT_GT(same, 4000) << refused << " refused";
}

TEST_F(PictureReaders, AMeanImageSaysTheSizeOfTheRecords) {
  const File file{"x.png", EncodePng(Picture(50, 80, 3, 1))};
  Image picture = Picture(50, 80, 3, 1);
  Image stored;
  ResizeImage(picture, 16, 10, Interpolation::kArea, stored);  // as an import stores it
  Datum datum;
  datum.set_encoded(true);
  datum.set_data(EncodePng(stored));
  WriteDatabase(At("db"), {datum});
  WriteMean("mean.binaryproto", 3, 10, 16);
  for (const char* crop : {"", "crop_size: 6", "crop_h: 4 crop_w: 7"}) {
    const LayerParameter layer =
        Layer("Data", StrCat(kTops, "data_param { source: 'db' batch_size: 1 backend: LMDB } transform_param { ",
                             "mean_file: 'mean.binaryproto' scale: 0.5 ", crop, " }"));
    EXPECT_EQ(Compare(layer, file), Outcome::kSame) << crop;
    // The database may be gone: the mean image stays.
    LayerParameter alone = layer;
    alone.mutable_data_param()->set_source("nowhere");
    const std::vector<float> tested =
        Next(*OpenPipeline(layer, {.phase = TEST, .seed = 1, .threads = 1, .base_folder = folder_}))[0];
    const auto pipeline = OpenPipeline(layer, {.phase = TEST, .seed = 1, .threads = 1, .base_folder = folder_});
    PictureReader reader(alone, pipeline->types()[0].shape.Erased(0), folder_);
    std::vector<float> inferred(tested.size());
    reader.Put(picture, inferred);
    EXPECT_EQ(inferred, tested) << crop;
  }
}

TEST_F(PictureReaders, RecordsOfOneSizeSayWhatACropIsCutFrom) {
  const File file{"x.png", EncodePng(Picture(50, 80, 3, 1))};
  Image stored;
  ResizeImage(Picture(50, 80, 3, 1), 20, 18, Interpolation::kArea, stored);
  Datum datum;
  datum.set_channels(3);
  datum.set_height(18);
  datum.set_width(20);
  datum.set_data(PlanarBytes(stored));
  WriteDatabase(At("db"), {datum, datum});
  const std::string data = StrCat(kTops, "data_param { source: 'db' batch_size: 1 backend: LMDB } ");
  EXPECT_EQ(Compare(Layer("Data", data + "transform_param { crop_size: 8 mean_value: 9 }"), file), Outcome::kSame);
  // Records of several sizes say nothing: the crop is cut from the picture as it is, as of a record.
  Datum other = datum;
  other.set_height(20);
  other.set_width(18);
  std::filesystem::remove_all(At("db"));
  WriteDatabase(At("db"), {datum, other});
  const std::optional<ImageSize> found = StoredPicturesOf(Layer("Data", data), folder_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->height, 0);
  EXPECT_EQ(found->channels, 3);
}

// Records whose sides an import bounded have many sizes; a picture is brought to the same bounds before it is cut.
TEST_F(PictureReaders, AnImportsBoundsOfSidesHoldForPictures) {
  const File file{"set/a/x.png", EncodePng(Picture(50, 80, 3, 1))};
  Write(file.name, file.bytes);
  Write("set/b/y.png", EncodePng(Picture(80, 40, 3, 2)));
  Import(At("set").string(), At("db"), {.max_dim = 30});
  const std::string data = StrCat(kTops, "data_param { source: 'db' batch_size: 1 backend: LMDB } ");
  for (const char* fields : {"crop_size: 8", "resize_short: 12 crop_size: 8", "crop_size: 8 mean_value: 9"}) {
    const std::string transform = StrCat("transform_param { ", fields, " }");
    EXPECT_EQ(Compare(Layer("Data", data + transform), file), Outcome::kSame) << fields;
  }
  std::optional<StoredPictures> found = StoredPicturesOf(Layer("Data", data), folder_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->height, 0);
  EXPECT_EQ(found->max_side, 30);
  ShuffleLmdb(At("db"), At("mixed"), {});
  found = StoredPicturesOf(Layer("Data", StrCat(kTops, "data_param { source: 'mixed' }")), folder_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->max_side, 30);
}

// An import may take the colours of pictures, or resize them before a layer does.
TEST_F(PictureReaders, RecordsOfOtherChannelsSayWhatAPictureLoses) {
  const File file{"x.png", EncodePng(Picture(50, 80, 3, 1))};
  for (const int64_t channels : {1, 3}) {
    for (const bool is_resized : {false, true}) {
      Image stored = Picture(50, 80, 3, 1);
      ConvertChannels(channels, stored);
      if (is_resized) {
        Image resized;
        ResizeImage(stored, 20, 18, Interpolation::kArea, resized);
        stored = resized;
      }
      std::filesystem::remove_all(At("db"));
      std::filesystem::remove_all(At("boxes"));
      Datum datum;
      datum.set_channels(static_cast<int32_t>(channels));
      datum.set_height(static_cast<int32_t>(stored.height));
      datum.set_width(static_cast<int32_t>(stored.width));
      datum.set_data(PlanarBytes(stored));
      WriteDatabase(At("db"), {datum, datum});
      AnnotatedDatum annotated;
      *annotated.mutable_datum() = datum;
      annotated.set_type(AnnotatedDatum::BBOX);
      LmdbWriter writer(At("boxes"));
      writer.Put(LmdbKey(0, "r"), annotated.SerializeAsString());
      writer.Finish();
      for (const char* forced : {"force_color: true", "force_gray: true"}) {
        for (const char* size : {"crop_size: 8", "crop_size: 8 mean_value: 9", "resize_short: 12 crop_size: 8"}) {
          if (is_resized && std::string_view(size).starts_with("resize")) continue;  // the import's size is not known
          const std::string fields = StrCat("transform_param { ", size, " ", forced, " }");
          const std::string data = StrCat(kTops, "data_param { source: 'db' batch_size: 1 backend: LMDB } ", fields);
          EXPECT_EQ(Compare(Layer("Data", data), file), Outcome::kSame) << channels << is_resized << fields;
        }
        if (is_resized) continue;
        const std::string boxes =
            StrCat(kTops, "data_param { source: 'boxes' batch_size: 1 backend: LMDB } transform_param { ", forced,
                   " resize_param { height: 16 width: 18 interp_mode: LINEAR } }");
        EXPECT_EQ(Compare(Layer("AnnotatedData", boxes), file), Outcome::kSame) << channels << boxes;
      }
    }
  }
}

TEST_F(PictureReaders, ALayerThatMakesOtherSamplesIsRefused) {
  // Returns the error's text, or nothing.
  const auto refused = [&](const std::string& type, const std::string& fields, const Shape& sample) -> std::string {
    try {
      const PictureReader reader(Layer(type, fields), sample, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return error.text();
    }
    return "";
  };
  const auto expect_made = [&](const std::string& type, const std::string& fields, const Shape& made) {
    EXPECT_EQ(refused(type, fields, made), "") << type << " " << fields;
    const std::string error = refused(type, fields, made.With(1, made[1] + 2));
    EXPECT_NE(error.find(StrCat("makes ", made.ToString(), " of a picture")), std::string::npos) << error;
  };
  const std::string crop = "transform_param { crop_size: 20 }";
  const std::string listed = "image_data_param { new_height: 30 new_width: 40 } ";
  expect_made("Input", crop, {3, 20, 20});
  expect_made("ImageData", listed, {3, 30, 40});
  expect_made("ImageData", listed + crop, {3, 20, 20});
  expect_made("AnnotatedData", "transform_param { resize_param { height: 33 width: 29 } }", {3, 33, 29});
  expect_made("RecordData", "record_data_param { canvas_height: 70 canvas_width: 60 }", {3, 70, 60});
  EXPECT_NE(refused("Input", crop, {4, 20, 20}).find("pictures have 1 or 3 channels"), std::string::npos);
  EXPECT_NE(refused("Input", "transform_param { force_gray: true }", {3, 9, 9}).find("1 channel,"), std::string::npos);
}

TEST_F(PictureReaders, MirrorsAndDistortionsThatATestDrawsAreLeftOut) {
  const Image picture = Picture(30, 31, 3, 1);
  const std::string box = StrCat(kTops, "transform_param { resize_param { height: 30 width: 31 interp_mode: LINEAR ");
  std::vector<float> plain(3 * 30 * 31);
  std::vector<float> drawn(plain.size());
  PictureReader(Layer("AnnotatedData", box + "} }"), {3, 30, 31}, {}).Put(picture, plain);
  PictureReader(Layer("AnnotatedData", box + "interp_mode: NEAREST } mirror: true distort_param { brightness_prob: 1 "
                                             "brightness_delta: 32 } expand_param { prob: 1 max_expand_ratio: 4 } }"),
                {3, 30, 31}, {})
      .Put(picture, drawn);
  EXPECT_EQ(plain, drawn);
  EXPECT_EQ(plain[0], static_cast<float>(picture.pixels[0]));
  for (int i = 0; i < 8; ++i) {
    PictureReader(Layer("Data", "transform_param { mirror: true }"), {3, 30, 31}, {}).Put(picture, drawn);
    EXPECT_EQ(plain, drawn);
  }
}

TEST_F(PictureReaders, TheyKnowWhatPartOfAPictureTheSampleShows) {
  const auto shown = [&](const std::string& type, const std::string& fields, const Shape& sample) {
    PictureReader reader(Layer(type, fields), sample, {});
    std::vector<float> out(static_cast<size_t>(sample.Count()));
    reader.Put(Picture(40, 80, 3, 1), out);
    const ImageBox& box = reader.shown();
    return std::vector<double>{box.x, box.y, box.width, box.height};
  };
  using Parts = std::vector<double>;
  EXPECT_EQ(shown("ImageData", "", {3, 40, 80}), (Parts{0, 0, 1, 1}));
  EXPECT_EQ(shown("ImageData", "transform_param { crop_size: 20 }", {3, 20, 20}), (Parts{0.375, 0.25, 0.25, 0.5}));
  EXPECT_EQ(shown("ImageData", "transform_param { resize_short: 20 crop_size: 20 }", {3, 20, 20}),
            (Parts{0.25, 0, 0.5, 1}));
  EXPECT_EQ(shown("ImageData", "image_data_param { new_height: 10 new_width: 10 }", {3, 10, 10}), (Parts{0, 0, 1, 1}));
  EXPECT_EQ(shown("AnnotatedData", "transform_param { resize_param { height: 30 width: 30 } }", {3, 30, 30}),
            (Parts{0, 0, 1, 1}));
  // The picture fills the middle half of the sample's rows.
  EXPECT_EQ(shown("AnnotatedData",
                  "transform_param { resize_param { height: 32 width: 32 resize_mode: FIT_LARGE_SIZE_AND_PAD } }",
                  {3, 32, 32}),
            (Parts{0, -0.5, 1, 2}));
  EXPECT_EQ(shown("RecordData", "record_data_param { canvas_height: 80 canvas_width: 160 }", {3, 80, 160}),
            (Parts{0, 0, 2, 2}));
}

TEST_F(PictureReaders, PartsOfPicturesGoInAsTheyAre) {
  const Image tile = Picture(20, 20, 3, 1);
  std::vector<float> out(3 * 20 * 20);
  PictureReader reader(Layer("ImageData",
                             "image_data_param { new_height: 40 new_width: 50 } transform_param { crop_size: 20 "
                             "resize_short: 30 mean_value: 3 scale: 0.5 }"),
                       {3, 20, 20}, {});
  reader.PutAsIs(tile, out);
  for (size_t i = 0; i < 400; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      ASSERT_EQ(out[c * 400 + i], (static_cast<float>(tile.pixels[i * 3 + c]) - 3) * 0.5F) << i << " " << c;
    }
  }
}

TEST_F(PictureReaders, DamagedPicturesAreRefusedAsByAnImport) {
  PictureReader reader(Layer("ImageData", "image_data_param { new_height: 8 new_width: 8 }"), {3, 8, 8}, {});
  std::vector<float> out(3 * 8 * 8);
  for (const File& file : Files()) {
    reader.Load(file.bytes, out);
    EXPECT_NE(ErrorOf([&] { reader.Load(file.bytes.substr(0, file.bytes.size() * 2 / 3), out); }), "") << file.name;
  }
  EXPECT_NE(ErrorOf([&] { reader.Load("", out); }), "");
}

}  // namespace
}  // namespace moka
