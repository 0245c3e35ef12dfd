// Each filler's moments, bounds and structure on large blobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "core/error.h"
#include "core/threads/parallel.h"
#include "proto/nets/filler.h"

namespace moka {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

FillerParameter Filler(const std::string& type) {
  FillerParameter filler;
  filler.set_type(type);
  return filler;
}

std::vector<float> Fill(const FillerParameter& filler, const Shape& shape, uint64_t seed = 1,
                        std::string_view name = "w") {
  std::vector<float> values(static_cast<size_t>(shape.Count()));
  FillBlob(filler, shape, seed, name, values);
  return values;
}

double Mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

double Deviation(const std::vector<float>& values) {
  const double mean = Mean(values);
  double sum = 0;
  for (const float value : values) sum += std::pow(static_cast<double>(value) - mean, 2);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(FillerTest, ConstantFillsItsValue) {
  FillerParameter filler = Filler("constant");
  filler.set_value(0.25F);
  EXPECT_THAT(Fill(filler, {3, 2}), Each(0.25F));
}

TEST(FillerTest, UniformStaysInItsRange) {
  FillerParameter filler = Filler("uniform");
  filler.set_min(-2);
  filler.set_max(4);
  const std::vector<float> values = Fill(filler, {100, 100});
  EXPECT_GE(*std::ranges::min_element(values), -2);
  EXPECT_LE(*std::ranges::max_element(values), 4);
  EXPECT_NEAR(Mean(values), 1, 0.06);
  EXPECT_NEAR(Deviation(values), 6 / std::sqrt(12.0), 0.03);
}

TEST(FillerTest, GaussianHasItsMeanAndDeviation) {
  FillerParameter filler = Filler("gaussian");
  filler.set_mean(3);
  filler.set_std(0.5F);
  const std::vector<float> values = Fill(filler, {100, 100});
  EXPECT_NEAR(Mean(values), 3, 0.02);
  EXPECT_NEAR(Deviation(values), 0.5, 0.02);
}

TEST(FillerTest, SparseGaussianKeepsSoManyInputsAnOutput) {
  FillerParameter filler = Filler("gaussian");
  filler.set_sparse(10);
  const std::vector<float> values = Fill(filler, {100, 1000});
  const auto kept = std::ranges::count_if(values, [](float v) { return v != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / 100000, 0.1, 0.005);
}

TEST(FillerTest, XavierAndMsraDivideByTheFan) {
  // fan in = 50*3*3 = 450, fan out = 200*3*3 = 1800.
  const Shape shape{200, 50, 3, 3};
  EXPECT_NEAR(Deviation(Fill(Filler("xavier"), shape)), std::sqrt(1 / 450.0), 2e-4);
  const std::vector<float> xavier = Fill(Filler("xavier"), shape);
  EXPECT_NEAR(*std::ranges::max_element(xavier), std::sqrt(3 / 450.0), 1e-4);
  EXPECT_NEAR(Deviation(Fill(Filler("msra"), shape)), std::sqrt(2 / 450.0), 3e-4);
  FillerParameter filler = Filler("msra");
  filler.set_variance_norm(FillerParameter::FAN_OUT);
  EXPECT_NEAR(Deviation(Fill(filler, shape)), std::sqrt(2 / 1800.0), 2e-4);
  filler.set_variance_norm(FillerParameter::AVERAGE);
  EXPECT_NEAR(Deviation(Fill(filler, shape)), std::sqrt(2 / 1125.0), 2e-4);
}

TEST(FillerTest, PositiveUnitballRowsSumToOne) {
  const std::vector<float> values = Fill(Filler("positive_unitball"), {3, 50});
  for (size_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 50; ++i) sum += static_cast<double>(values[row * 50 + i]);
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  EXPECT_GE(*std::ranges::min_element(values), 0);
}

TEST(FillerTest, BilinearIsTheUpsamplingKernel) {
  const std::vector<float> values = Fill(Filler("bilinear"), {1, 2, 4, 4});
  const float line[] = {0.25F, 0.75F, 0.75F, 0.25F};
  for (size_t i = 0; i < values.size(); ++i) EXPECT_FLOAT_EQ(values[i], line[i % 4] * line[i / 4 % 4]);
  const std::vector<float> odd = Fill(Filler("bilinear"), {1, 1, 3, 3});
  EXPECT_FLOAT_EQ(odd[4], 1);
  EXPECT_FLOAT_EQ(odd[1], 0.5F);
  // The name and, for odd kernels, the centre that it first had.
  EXPECT_EQ(Fill(Filler("bilinear_upsampling"), {1, 2, 4, 4}), values);
  const std::vector<float> first = Fill(Filler("bilinear_upsampling"), {1, 1, 3, 3});
  EXPECT_FLOAT_EQ(first[0], 0.25F * 0.25F);
  EXPECT_FLOAT_EQ(first[8], 0.75F * 0.75F);
}

TEST(FillerTest, ValuesDependOnSeedAndNameAndNotOnThreads) {
  const Shape shape{300, 300};
  const std::vector<float> values = Fill(Filler("msra"), shape);
  EXPECT_EQ(Fill(Filler("msra"), shape), values);
  EXPECT_NE(Fill(Filler("msra"), shape, 2), values);
  EXPECT_NE(Fill(Filler("msra"), shape, 1, "v"), values);
  const int threads = ThreadCount();
  SetThreadCount(3);
  EXPECT_EQ(Fill(Filler("msra"), shape), values);
  SetThreadCount(threads);
}

// Values of the second colour near the middle of some filters, from the formula of each.
TEST(FillerTest, GaborHasTheFiltersOfItsNets) {
  const auto value = [](const Shape& shape, int64_t filter, int64_t y, int64_t x) {
    const std::vector<float> values = Fill(Filler("gabor"), shape);
    return values[static_cast<size_t>(((filter * 3 + 1) * shape[2] + y) * shape[2] + x)];
  };
  const auto expect = [&](const Shape& shape, int64_t y, int64_t x, const std::map<int64_t, float>& filters) {
    for (const auto& [filter, expected] : filters) {
      EXPECT_NEAR(value(shape, filter, y, x), expected, 1e-6) << shape.ToString() << " " << filter;
    }
  };
  expect({96, 3, 11, 11}, 4, 7,
         {{0, 0.085506789F},
          {13, 0.15867141F},
          {50, -0.12657234F},
          {54, 0.12657234F},
          {57, -0.011572387F},
          {63, -0.0033706487F},
          {70, 0.010924439F},
          {79, -0.0047534984F},
          {85, -0.086697564F},
          {90, 0.1037517F},
          {95, 0.045788493F}});
  expect({64, 3, 7, 7}, 2, 5,
         {{3, 0.18104322F},
          {35, -0.071041793F},
          {41, 0.19005966F},
          {45, -0.231775F},
          {47, 0.027839657F},
          {50, -0.010488071F},
          {58, -0.41759485F},
          {62, -0.27839658F}});
  expect({32, 3, 5, 5}, 1, 3,
         {{3, -0.14256021F},
          {9, -0.15122865F},
          {13, 0.11086005F},
          {15, 0.29618672F},
          {18, 0.21355329F},
          {22, 0},
          {25, 0.10295894F},
          {29, -0.10295894F},
          {31, 0.10295894F}});
  // The middle of a kernel of 3 x 3 is lambda * cos(phi).
  EXPECT_NEAR(value({64, 3, 3, 3}, 0, 1, 1), std::cos(0.375 * 3.14159265358979), 1e-6);
  // The blobs' lambda is 2/3 and 1/2, their colours are 1/4, -1 and 1; their width is that of all filters.
  EXPECT_NEAR(value({64, 3, 3, 3}, 41, 1, 1), 2.0 / 3, 1e-6);
  EXPECT_NEAR(value({64, 3, 3, 3}, 45, 0, 1), -0.5 * std::exp(-0.5) * std::cos(0.0), 1e-6);
}

TEST(FillerTest, EdgesAndLaplacians) {
  EXPECT_THAT(Fill(Filler("EdgeX"), {1, 2, 3, 3}),
              ElementsAre(0, -0.5F, 0, 0, 0, 0, 0, 0.5F, 0, 0, -0.5F, 0, 0, 0, 0, 0, 0.5F, 0));
  EXPECT_THAT(Fill(Filler("EdgeY"), {1, 1, 3, 3}), ElementsAre(0, 0, 0, -0.5F, 0, 0.5F, 0, 0, 0));
  EXPECT_THAT(Fill(Filler("Laplacian"), {1, 1, 3, 3}),
              ElementsAre(1.0F / 6, 2.0F / 3, 1.0F / 6, 2.0F / 3, -10.0F / 3, 2.0F / 3, 1.0F / 6, 2.0F / 3, 1.0F / 6));
  FillerParameter filler = Filler("LoG");
  filler.set_std(0.5F);
  const std::vector<float> values = Fill(filler, {2, 1, 3, 3});
  EXPECT_NEAR(values[13], -16 / 3.1415, 1e-5);                 // the middle of the second kernel
  EXPECT_NEAR(values[1], 16 * std::exp(-2.0) / 3.1415, 1e-5);  // a step away: 2 standard deviations
  EXPECT_NEAR(values[0], 16 * 3 * std::exp(-4.0) / 3.1415, 1e-5);
}

std::string ErrorOf(const FillerParameter& filler, const Shape& shape) {
  try {
    CheckFiller(filler, shape);
  } catch (const Error& error) {
    return error.what();
  }
  return "fine";
}

TEST(FillerTest, BadFillersAreRefused) {
  EXPECT_THAT(ErrorOf(Filler("gausian"), {2}),
              HasSubstr("unknown filler type \"gausian\"; did you mean \"gaussian\"?"));
  EXPECT_THAT(ErrorOf(Filler("bilinear"), {1, 1, 3, 4}), HasSubstr("needs a square 2-D kernel"));
  EXPECT_THAT(ErrorOf(Filler("bilinear_upsampling"), {1, 1, 3, 4}), HasSubstr("needs a square 2-D kernel"));
  EXPECT_THAT(ErrorOf(Filler("gabor"), {64, 3, 11, 11}), HasSubstr("[96,3,11,11], the parameter's shape is [64,3,11"));
  EXPECT_THAT(ErrorOf(Filler("gabor"), {96, 1, 11, 11}), HasSubstr("gabor filler: is for"));
  EXPECT_THAT(ErrorOf(Filler("gabor"), {96, 3, 11}), HasSubstr("needs a square 2-D kernel"));
  EXPECT_THAT(ErrorOf(Filler("EdgeX"), {1, 1, 5, 5}), HasSubstr("EdgeX filler: needs a kernel of 3 x 3"));
  EXPECT_THAT(ErrorOf(Filler("LoG"), {1, 1, 4, 4}), HasSubstr("kernel of odd size"));
  FillerParameter filler = Filler("LoG");
  filler.set_std(0);
  EXPECT_THAT(ErrorOf(filler, {1, 1, 3, 3}), HasSubstr("std must be above 0, found 0"));
  filler = Filler("Laplacian");
  filler.set_sparse(1);
  EXPECT_THAT(ErrorOf(filler, {1, 1, 3, 3}), HasSubstr("sparse is for gaussian"));
  filler = Filler("uniform");
  filler.set_min(2);
  EXPECT_THAT(ErrorOf(filler, {2}), HasSubstr("min 2 is above max 1"));
  filler = Filler("gaussian");
  filler.set_std(-1);
  EXPECT_THAT(ErrorOf(filler, {2}), HasSubstr("std -1 is negative"));
  filler.set_std(NAN);
  EXPECT_THAT(ErrorOf(filler, {2}), HasSubstr("std must be a finite number"));
}

TEST(FillerTest, FieldsOfOtherTypesAreFound) {
  const std::vector<std::pair<std::string, std::function<void(FillerParameter&)>>> fields = {
      {"max", [](FillerParameter& filler) { filler.set_max(0.5F); }},
      {"mean", [](FillerParameter& filler) { filler.set_mean(0.5F); }},
      {"min", [](FillerParameter& filler) { filler.set_min(-0.5F); }},
      {"sparse", [](FillerParameter& filler) { filler.set_sparse(3); }},
      {"std", [](FillerParameter& filler) { filler.set_std(0.5F); }},
      {"value", [](FillerParameter& filler) { filler.set_value(0.5F); }},
      {"variance_norm", [](FillerParameter& filler) { filler.set_variance_norm(FillerParameter::FAN_OUT); }}};
  for (const char* type : {"constant", "uniform", "gaussian", "xavier", "msra", "positive_unitball"}) {
    const Shape shape{8, 2};
    const std::vector<float> plain = Fill(Filler(type), shape);
    for (const auto& [name, set] : fields) {
      FillerParameter filler = Filler(type);
      set(filler);
      const std::vector<UnreadFillerField> unread = UnreadFieldsOf(filler);
      const bool is_read = Fill(filler, shape) != plain;
      EXPECT_EQ(unread.empty(), is_read) << type << " " << name;
      if (!unread.empty()) {
        EXPECT_EQ(unread.front().name, name) << type;
      }
      filler.clear_type();
      EXPECT_EQ(ErrorOf(filler, shape) == "fine", name == "value") << name;
    }
  }
  FillerParameter filler;
  filler.set_min(-0.5F);
  EXPECT_THAT(
      ErrorOf(filler, {2}),
      HasSubstr("filler: min is for type uniform; no type is given, and constant, the default, does not read it"));
  filler = Filler("xavier");
  filler.set_std(1);
  EXPECT_TRUE(UnreadFieldsOf(filler).empty()) << "the default says nothing";
}

TEST(FillerTest, TrilinearIsTheForks) {
  const std::vector<float> slopes = {0.25F, 0.75F, 0.75F, 0.25F};
  for (const char* type : {"thrlinear", "bilinear_3D"}) {
    const std::vector<float> values = Fill(Filler(type), {1, 2, 4, 4, 4});
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_FLOAT_EQ(values[i], slopes[i % 4] * slopes[i / 4 % 4] * slopes[i / 16 % 4]) << type << " " << i;
    }
    // Their centre of an odd kernel is that of Caffe's older bilinear filler.
    const std::vector<float> odd = Fill(Filler(type), {1, 1, 3, 3, 3});
    EXPECT_FLOAT_EQ(odd[0], 0.25F * 0.25F * 0.25F);
    EXPECT_FLOAT_EQ(odd[26], 0.75F * 0.75F * 0.75F);
    EXPECT_THAT(ErrorOf(Filler(type), {1, 1, 3, 3}), HasSubstr("needs a cubic 3-D kernel"));
    EXPECT_THAT(ErrorOf(Filler(type), {1, 1, 3, 3, 4}), HasSubstr("needs a cubic 3-D kernel"));
  }
}

}  // namespace
}  // namespace moka
