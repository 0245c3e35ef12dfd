// Random changes and mixing in the layers' pipelines: the same bits for any number of workers and after a jump, each
// layer's labels with its picture, and the errors of wrong fields.
#include <cmath>
#include <map>
#include <set>

#include "core/log.h"
#include "data/augment/mixer.h"
#include "data/pipeline/open_pipeline.h"
#include "layers/shapes/data_guess.h"
#include "tests/data/augment/augment_fixture.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

constexpr const char* kAll =
    "augment { affine { degrees: 20 translate: 0.1 } } augment { color { brightness: 0.4 hue: 0.1 } } "
    "augment { lighting {} } augment { elastic { alpha: 10 sigma: 2 } } augment { policy { kind: TRIVIAL_AUGMENT } } "
    "augment { probability: 0.5 erase { noise: true } } ";

class AugmentLayers : public DataTest {
 protected:
  AugmentLayers() { SetStderrLevel(LogLevel::kError); }

  LayerParameter Data(const std::string& transform, const std::string& data = "", const std::string& more = "") const {
    return FieldsOf<LayerParameter>("name: 'data' type: 'Data' top: 'data' top: 'label' transform_param { " +
                                    transform + " } data_param { source: 'db' backend: LMDB batch_size: 10 " + data +
                                    " } " + more);
  }
  std::unique_ptr<Pipeline> Open(const LayerParameter& layer, int64_t threads = 2, Phase phase = TRAIN) const {
    return OpenPipeline(layer, {.phase = phase, .seed = 3, .threads = threads, .base_folder = folder_});
  }
  void WriteRecords(int count, int classes = 1 << 20) const {
    std::vector<Datum> datums;
    for (int i = 0; i < count; ++i) datums.push_back(RawDatum(3, 16, 12, i * 11, i % classes));
    WriteDatabase(At("db"), datums);
  }
  // The error of opening and reading a layer.
  std::string ErrorFrom(const LayerParameter& layer) const {
    return ErrorOf([&] { Next(*Open(layer)); });
  }
};

TEST_F(AugmentLayers, SamplesAreTheSameForAnyNumberOfWorkersAndAfterAJump) {
  WriteRecords(64);
  for (const std::string& mixing :
       {std::string(), std::string("mixing { mixup_alpha: 0.5 cutmix_alpha: 1 classes: 64 }")}) {
    const LayerParameter layer = Data(kAll + mixing + " mirror: true", "shuffle: true");
    std::vector<std::vector<std::vector<float>>> expected;
    const auto one = Open(layer, 1);
    for (int i = 0; i < 20; ++i) expected.push_back(Next(*one));
    EXPECT_NE(expected[0][0], expected[1][0]);
    for (const int64_t threads : {2, 8}) {
      const auto many = Open(layer, threads);
      for (size_t i = 0; i < 20; ++i) ASSERT_EQ(Next(*many), expected[i]) << threads << " " << i;
      many->Seek(70);
      for (size_t i = 7; i < 12; ++i) ASSERT_EQ(Next(*many), expected[i]) << threads << " " << i;
    }
  }
}

TEST_F(AugmentLayers, EpochsDiffer) {
  WriteRecords(10);
  const auto pipeline = Open(Data(kAll));
  const auto first = Next(*pipeline);
  const auto second = Next(*pipeline);
  EXPECT_EQ(first[1], second[1]);
  EXPECT_NE(first[0], second[0]);
}

TEST_F(AugmentLayers, ChangesComeAfterCropAndMirrorAndBeforeTheMean) {
  WriteRecords(10);
  const std::string crop = "crop_size: 8 mirror: true mean_value: 20 mean_value: 30 mean_value: 40 scale: 0.5 ";
  const auto plain = Next(*Open(Data(crop)));
  const auto nothing = Next(*Open(Data(crop + "augment { probability: 0 lighting {} }")));
  EXPECT_EQ(plain, nothing);
  // Brightness in [0, 2]: values of a sample are (f * pixel - mean) * scale.
  const auto brighter = Next(*Open(Data(crop + "augment { color { brightness: 1 } }")));
  for (size_t n = 0; n < 10; ++n) {
    std::set<int64_t> factors;
    for (size_t i = 0; i < 3 * 64; ++i) {
      const float mean = 20.0F + 10.0F * static_cast<float>(i / 64);
      const float was = plain[0][n * 192 + i] * 2 + mean;
      const float is = brighter[0][n * 192 + i] * 2 + mean;
      if (was >= 100 && is < 250) factors.insert(std::lround(is / was * 20));
    }
    EXPECT_LE(factors.size(), 2U) << n;
  }
}

TEST_F(AugmentLayers, PaddedCropsAreChangedWithTheirZeros) {
  WriteRecords(10);
  const std::string fields = "pad: 4 crop_size: 16 mean_value: 5 ";
  const auto plain = Next(*Open(Data(fields)));
  EXPECT_EQ(Next(*Open(Data(fields + "augment { probability: 0 lighting {} }"))), plain);
}

TEST_F(AugmentLayers, FloatsAndOtherChannelsAreRefused) {
  WriteDatabase(At("db"), {RawDatum(4, 8, 8, 0, 0)});
  EXPECT_THAT(ErrorFrom(Data("augment { color { hue: 0.1 } }")),
              HasSubstr("8-bit records of 1 or 3 channels, found 4"));
  Datum floats;
  floats.set_channels(1);
  floats.set_height(2);
  floats.set_width(2);
  for (int i = 0; i < 4; ++i) floats.add_float_data(1.5F);
  WriteDatabase(At("floats"), {floats});
  LayerParameter layer = Data("augment { color { hue: 0.1 } }");
  layer.mutable_data_param()->set_source("floats");
  EXPECT_THAT(ErrorFrom(layer), HasSubstr("found floats of 1"));
  WriteDatabase(At("grey"), {RawDatum(1, 8, 8, 0, 0)});
  layer = Data("augment { lighting {} }");
  layer.mutable_data_param()->set_source("grey");
  EXPECT_THAT(ErrorFrom(layer), HasSubstr("lighting needs pictures of 3 channels"));
}

TEST_F(AugmentLayers, WrongFieldsAreNamed) {
  WriteRecords(10);
  const std::pair<const char*, const char*> cases[] = {
      {"augment { }", "augment[0] holds 0 changes"},
      {"augment { lighting {} color {} }", "augment[0] holds 2 changes"},
      {"augment { probability: 1.5 lighting {} }", "augment[0].probability is 1.5, expected 0..1"},
      {"augment { affine { degrees: 181 } }", "augment[0].affine.degrees is 181, expected 0..180"},
      {"augment { affine { degrees: -1 } }", "augment[0].affine.degrees is -1"},
      {"augment { affine { degrees: nan } }", "augment[0].affine.degrees is nan"},
      {"augment { affine { translate: 2 } }", "affine.translate is 2"},
      {"augment { affine { scale_min: 0 } }", "affine.scale_min is 0 and scale_max 1"},
      {"augment { affine { scale_min: 2 } }", "affine.scale_min is 2 and scale_max 1"},
      {"augment { affine { shear: 90 } }", "affine.shear is 90, expected 0..80"},
      {"augment { affine { fill: 256 } }", "affine.fill is 256"},
      {"augment { lighting {} } augment { color { hue: 0.6 } }", "augment[1].color.hue is 0.6, expected 0..0.5"},
      {"augment { color { brightness: -1 } }", "color.brightness is -1"},
      {"augment { color { contrast: inf } }", "color.contrast is inf"},
      {"augment { color { saturation: -0.1 } }", "color.saturation is -0.1"},
      {"augment { lighting { std: -1 } }", "lighting.std is -1"},
      {"augment { lighting { value: 1 value: 2 } }", "lighting.value has 2 numbers, not 3"},
      {"augment { lighting { vector: 1 } }", "lighting.vector has 1 numbers, not 9"},
      {"augment { lighting { value: 1 value: 1 value: 1 } }", "lighting needs value and vector together"},
      {"augment { elastic { alpha: -1 } }", "elastic.alpha is -1"},
      {"augment { elastic { sigma: 0 } }", "elastic.sigma is 0"},
      {"augment { policy { count: 0 } }", "policy.count is 0"},
      {"augment { policy { magnitude: 31 } }", "policy.magnitude is 31, expected 0..30"},
      {"augment { policy { fill: 300 } }", "policy.fill is 300"},
      {"augment { policy { kind: TRIVIAL_AUGMENT count: 3 } }", "policy.count is of RAND_AUGMENT only"},
      {"augment { policy { kind: AUTO_AUGMENT_CIFAR10 magnitude: 3 } }", "policy.magnitude is of RAND_AUGMENT only"},
      {"augment { erase { area_min: 0.5 } }", "erase.area_min is 0.5 and area_max 0.33"},
      {"augment { erase { ratio_min: 4 } }", "erase.ratio_min is 4 and ratio_max 3.3"},
      {"augment { erase { size: 4 area_max: 0.5 } }", "erase.size does not go with an area"},
      {"augment { erase {} } augment { lighting {} }", "augment[1] comes after an erase"},
      {"mean_file: 'x' augment { lighting {} }", "a mean image does not fit pictures that augment changes"},
      {"mixing { classes: 3 }", "mixing needs mixup_alpha or cutmix_alpha"},
      {"mixing { mixup_alpha: 1 }", "mixing.classes is 0"},
      {"mixing { mixup_alpha: -1 classes: 3 }", "mixing.mixup_alpha is -1"},
      {"mixing { cutmix_alpha: nan classes: 3 }", "mixing.cutmix_alpha is nan"}};
  for (const auto& [fields, expected] : cases) {
    for (const Phase phase : {TRAIN, TEST}) {
      EXPECT_THAT(ErrorOf([&] { Open(Data(fields), 1, phase); }), HasSubstr(expected)) << fields;
    }
  }
  LayerParameter lonely = Data("mixing { mixup_alpha: 1 classes: 10 }");
  lonely.mutable_top()->RemoveLast();
  EXPECT_THAT(ErrorFrom(lonely), HasSubstr("needs the tops data and label, the layer has 1"));
  EXPECT_THAT(ErrorFrom(Data("mixing { mixup_alpha: 1 classes: 5 }")), HasSubstr("is none of the 5 classes"));
}

TEST_F(AugmentLayers, LayersThatDoNotReadThemSaySo) {
  for (const std::string type : {"HDF5Data", "WindowData", "VideoData", "MemoryData", "DummyData", "ImageVideoData"}) {
    const std::string start = "name: 'd' type: '" + type + "' top: 'd' ";
    const auto error = [&](const std::string& fields) {
      return ErrorFrom(FieldsOf<LayerParameter>(start + "transform_param { " + fields + " }"));
    };
    EXPECT_THAT(error("augment { lighting {} }"), HasSubstr(type + " does not read transform_param.augment"));
    EXPECT_THAT(error("mixing { mixup_alpha: 1 }"), HasSubstr(type + " does not read transform_param.mixing"));
  }
  const auto boxes = FieldsOf<LayerParameter>(
      "name: 'd' type: 'AnnotatedData' top: 'd' top: 'l' transform_param { mixing { mixup_alpha: 1 } }");
  EXPECT_THAT(ErrorFrom(boxes), HasSubstr("AnnotatedData does not read transform_param.mixing"));
  const auto small = FieldsOf<LayerParameter>(
      "name: 'd' type: 'AnnotatedData' top: 'd' top: 'l' top: 's' transform_param { augment { affine {} } }");
  EXPECT_THAT(ErrorFrom(small), HasSubstr("augment[0].affine moves pixels, and label pictures smaller"));
}

// Boxes
// ----------------------------------------------------------------------------------------------------------------

TEST_F(AugmentLayers, BoxesFollowTheirPicture) {
  constexpr int kSide = 64;
  std::vector<std::string> records;
  LmdbWriter writer(At("boxes"));
  for (int i = 0; i < 24; ++i) {
    AnnotatedDatum record;
    *record.mutable_datum() = RawDatum(3, kSide, kSide, 0, 0);
    std::string& pixels = *record.mutable_datum()->mutable_data();
    std::ranges::fill(pixels, '\0');
    const int left = 20 + i % 5;
    const int top = 24 + i % 7;
    for (int c = 0; c < 3; ++c) {
      for (int y = top; y < top + 14; ++y) {
        for (int x = left; x < left + 18; ++x) {
          pixels[static_cast<size_t>((c * kSide + y) * kSide + x)] = static_cast<char>(250);
        }
      }
    }
    record.set_type(AnnotatedDatum::BBOX);
    AnnotationGroup& group = *record.add_annotation_group();
    group.set_group_label(1);
    NormalizedBBox& box = *group.add_annotation()->mutable_bbox();
    box.set_xmin(static_cast<float>(left) / kSide);
    box.set_ymin(static_cast<float>(top) / kSide);
    box.set_xmax(static_cast<float>(left + 18) / kSide);
    box.set_ymax(static_cast<float>(top + 14) / kSide);
    writer.Put(LmdbKey(i, "r"), record.SerializeAsString());
  }
  writer.Finish();
  const auto pipeline = Open(FieldsOf<LayerParameter>(
      "name: 'd' type: 'AnnotatedData' top: 'd' top: 'l' data_param { source: 'boxes' backend: LMDB batch_size: 24 } "
      "transform_param { mirror: true crop_size: 60 emit_constraint { emit_type: MIN_OVERLAP emit_overlap: 0.6 } "
      "augment { affine { degrees: 45 translate: 0.5 scale_min: 0.8 scale_max: 1.1 } } "
      "augment { color { brightness: 0.2 } } }"));
  int dropped = 0;
  int kept = 0;
  for (int batch = 0; batch < 8; ++batch) {
    const auto tops = Next(*pipeline);
    for (size_t n = 0; n < 24; ++n) {
      const float* row = &tops[1][n * 8];
      double left = 60;
      double right = 0;
      double top = 60;
      double bottom = 0;
      int painted = 0;
      for (int y = 0; y < 60; ++y) {
        for (int x = 0; x < 60; ++x) {
          if (tops[0][n * 3 * 3600 + static_cast<size_t>(y * 60 + x)] < 100) continue;
          ++painted;
          left = std::min(left, x + 0.0);
          right = std::max(right, x + 1.0);
          top = std::min(top, y + 0.0);
          bottom = std::max(bottom, y + 1.0);
        }
      }
      if (row[0] < 0) {
        ++dropped;
        EXPECT_LT(painted, 200) << "a box of which more than 0.6 is left was dropped";
        continue;
      }
      ++kept;
      EXPECT_NEAR(row[3] * 60, left, 2.5);
      EXPECT_NEAR(row[4] * 60, top, 2.5);
      EXPECT_NEAR(row[5] * 60, right, 2.5);
      EXPECT_NEAR(row[6] * 60, bottom, 2.5);
    }
  }
  EXPECT_GT(dropped, 5);
  EXPECT_GT(kept, 100);
}

// Label pictures
// -------------------------------------------------------------------------------------------------------

// Red counts the label: wherever a whole neighbourhood has one label, picture and label agree after all changes.
TEST_F(AugmentLayers, LabelPicturesFollowTheirPicture) {
  constexpr int64_t kSide = 48;
  Image image;
  image.Resize(kSide, kSide, 3);
  Image label;
  label.Resize(kSide, kSide, 1);
  for (int64_t y = 0; y < kSide; ++y) {
    for (int64_t x = 0; x < kSide; ++x) {
      const auto value = static_cast<uint8_t>(1 + x / 16 + 3 * (y / 16));
      label.pixels[static_cast<size_t>(y * kSide + x)] = value;
      image.pixels[static_cast<size_t>((y * kSide + x) * 3 + 2)] = static_cast<uint8_t>(value * 20);
    }
  }
  Write("image.png", EncodePng(image));
  Write("label.png", EncodePng(label));
  Write("list.txt", "image.png label.png\n");
  const auto pipeline = Open(FieldsOf<LayerParameter>(
      "name: 'd' type: 'ImageSegData' top: 'd' top: 'l' image_data_param { source: 'list.txt' batch_size: 1 "
      "label_type: PIXEL ignore_label: 77 } transform_param { mirror: true crop_size: 40 "
      "augment { affine { degrees: 60 translate: 0.2 } } augment { elastic { alpha: 30 sigma: 5 } } }"));
  int64_t outside = 0;
  int64_t wrong = 0;
  int64_t mixed = 0;
  int64_t all = 0;
  for (int i = 0; i < 40; ++i) {
    const auto tops = Next(*pipeline);
    for (size_t p = 0; p < 1600; ++p) {
      const float red = tops[0][2 * 1600 + p];
      if (tops[1][p] == 77) {
        ++outside;
        mixed += static_cast<int64_t>(red > 0);  // beside the border after two changes
        continue;
      }
      ++all;
      // Between two labels the picture is a mixture.
      wrong += static_cast<int64_t>(std::abs(red - tops[1][p] * 20) > 70);
      EXPECT_TRUE(tops[1][p] >= 1 && tops[1][p] <= 9);
    }
  }
  EXPECT_GT(outside, 1000);
  EXPECT_LT(static_cast<double>(mixed), 0.15 * static_cast<double>(outside));
  EXPECT_GT(all, 20000);
  EXPECT_LT(static_cast<double>(wrong), 0.02 * static_cast<double>(all));
}

// Mixing
// ---------------------------------------------------------------------------------------------------------------

TEST_F(AugmentLayers, MixupMixesPicturesAndLabelsByTheSameParts) {
  WriteRecords(40, 10);
  const std::string crop = "crop_size: 8 ";
  const auto plain = Open(Data(crop));
  const auto mixed = Open(Data(crop + "mixing { mixup_alpha: 1 classes: 10 }"));
  EXPECT_EQ(mixed->types()[1].shape, (Shape{10, 10}));
  std::set<size_t> partners;
  for (int batch = 0; batch < 30; ++batch) {
    const auto a = Next(*plain);
    const auto b = Next(*mixed);
    // The labels of a batch are 0..9: row 0 tells the part and the partner.
    float part = b[1][0];
    size_t partner = 0;
    for (size_t k = 1; k < 10; ++k) {
      if (b[1][k] > 0) partner = k;
    }
    ASSERT_GT(partner, 0U);
    partners.insert(partner);
    for (size_t n = 0; n < 10; ++n) {
      const size_t other = (n + partner) % 10;
      ASSERT_EQ(b[1][n * 10 + n], part);
      ASSERT_NEAR(b[1][n * 10 + other], 1 - part, 1e-6);
      for (size_t i = 0; i < 192; ++i) {
        ASSERT_NEAR(b[0][n * 192 + i], part * a[0][n * 192 + i] + (1 - part) * a[0][other * 192 + i], 1e-3);
      }
    }
  }
  EXPECT_GE(partners.size(), 7U);
}

TEST_F(AugmentLayers, CutmixTakesARectangleAndItsPartOfTheLabel) {
  WriteRecords(40, 10);
  const std::string crop = "crop_size: 12 ";
  const auto plain = Open(Data(crop));
  const auto mixed = Open(Data(crop + "mixing { cutmix_alpha: 1 classes: 10 }"));
  for (int batch = 0; batch < 30; ++batch) {
    const auto a = Next(*plain);
    const auto b = Next(*mixed);
    size_t partner = 0;
    for (size_t k = 1; k < 10; ++k) {
      if (b[1][k] > 0) partner = k;
    }
    for (size_t n = 0; n < 10; ++n) {
      const size_t other = (n + partner) % 10;
      int64_t taken = 0;
      for (size_t i = 0; i < 432; ++i) {
        const float own = a[0][n * 432 + i];
        const float theirs = a[0][other * 432 + i];
        ASSERT_TRUE(b[0][n * 432 + i] == own || b[0][n * 432 + i] == theirs);
        taken += static_cast<int64_t>(b[0][n * 432 + i] != own);
      }
      const float part = b[1][n * 10 + n];
      // Records differ in nearly all pixels.
      EXPECT_NEAR(static_cast<double>(taken) / 432, 1 - part, 0.02);
    }
  }
}

// Where there is no data to ask.
TEST_F(AugmentLayers, ShapesOfMixedLabelsAreGuessed) {
  const std::string fields = "crop_size: 8 mixing { mixup_alpha: 1 classes: 7 }";
  EXPECT_EQ(GuessTypes(Data(fields)).types.at(1).shape, (Shape{10, 7}));
  EXPECT_EQ(GuessTypes(Data(fields, "", "include { phase: TRAIN }")).types.at(1).shape, (Shape{10, 7}));
  EXPECT_EQ(GuessTypes(Data(fields, "", "include { phase: TEST }")).types.at(1).shape, (Shape{10}));
}

TEST_F(AugmentLayers, PartsAreDrawnFromTheBetaDistribution) {
  for (const double alpha : {0.2, 1.0, 4.0}) {
    Mixing mixing;
    mixing.set_mixup_alpha(static_cast<float>(alpha));
    mixing.set_classes(2);
    const Mixer mixer(mixing, 9, 0);
    double mean = 0;
    double variance = 0;
    constexpr int kDraws = 20000;
    for (int64_t i = 0; i < kDraws; ++i) {
      const double part = mixer.PlanOf(i * 8, 8, {1, 4, 4}).part;
      mean += part / kDraws;
      variance += (part - 0.5) * (part - 0.5) / kDraws;
    }
    EXPECT_NEAR(mean, 0.5, 0.015);
    EXPECT_NEAR(variance, 1 / (4 * (2 * alpha + 1)), 0.02 / (2 * alpha + 1)) << alpha;
  }
}

TEST_F(AugmentLayers, BothKindsOfMixingComeEquallyOftenAndRanksDiffer) {
  const auto mixing = FieldsOf<Mixing>("mixup_alpha: 1 cutmix_alpha: 1 classes: 2");
  const Mixer first(mixing, 9, 0);
  const Mixer second(mixing, 9, 1);
  int cut = 0;
  int differ = 0;
  constexpr int kDraws = 4000;
  for (int64_t i = 0; i < kDraws; ++i) {
    const MixPlan plan = first.PlanOf(i * 8, 8, {3, 64, 64});
    cut += static_cast<int>(plan.window.width > 0);
    differ += static_cast<int>(second.PlanOf(i * 8, 8, {3, 64, 64}).part != plan.part);
  }
  EXPECT_NEAR(cut, kDraws / 2, 0.03 * kDraws);
  EXPECT_GT(differ, 0.99 * kDraws);
}

TEST_F(AugmentLayers, TestMixesNothing) {
  WriteRecords(10);
  const auto pipeline = Open(Data("mixing { mixup_alpha: 1 classes: 10 }"), 2, TEST);
  EXPECT_EQ(pipeline->types()[1].shape, (Shape{10}));
  EXPECT_EQ(Next(*pipeline)[1], (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace moka
