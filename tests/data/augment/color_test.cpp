// Bytes of colour changes against torchvision's and Pillow's, and the covariance of random lighting against ImageNet's.
#include "data/augment/color.h"

#include <cmath>

#include "data/augment/augmenter.h"
#include "tests/data/augment/augment_fixture.h"

namespace moka {
namespace {

using Colors = AugmentGoldens;

Image Changed(const std::string& change, float factor, Image image) {
  Image scratch;
  if (change == "brightness") ScaleBrightness(factor, image);
  if (change == "contrast") ScaleContrast(factor, image);
  if (change == "saturation") ScaleSaturation(factor, image);
  if (change == "sharpness") ScaleSharpness(factor, image, scratch);
  if (change == "hue") TurnHue(factor, image);
  return image;
}

// Pillow's bytes exactly; the hue is turned in floats, where torchvision divides in another order.
TEST_F(Colors, FactorsChangePicturesAsTorchvisionDoes) {
  int cases = 0;
  for (const auto& golden : goldens_.at("colors")) {
    const auto change = golden.at("change").get<std::string>();
    const Image changed = Changed(change, golden.at("factor").get<float>(), Picture(3));
    const int allowed = change == "hue" ? 1 : 0;
    EXPECT_LE(Distance(changed.pixels, Bytes(golden.at("pixels"))), allowed) << golden.at("factor") << " " << change;
    ++cases;
  }
  EXPECT_EQ(cases, 25);
}

TEST_F(Colors, GrayPicturesHaveNoSaturationAndNoHue) {
  const Image gray = Picture(1);
  EXPECT_EQ(Changed("saturation", 0, gray).pixels, gray.pixels);
  EXPECT_EQ(Changed("hue", 0.3F, gray).pixels, gray.pixels);
  EXPECT_NE(Changed("contrast", 0.3F, gray).pixels, gray.pixels);
}

TEST_F(Colors, LightingAddsComponentsAsNumpyDoes) {
  for (const auto& golden : goldens_.at("lightings")) {
    const auto rgb = golden.at("rgb").get<std::vector<double>>();
    Image image = Picture(3);
    AddToChannels({rgb[2], rgb[1], rgb[0]}, image);
    EXPECT_EQ(image.pixels, Bytes(golden.at("pixels"))) << golden.at("alphas");
  }
}

// Over many samples a grey pixel's channels spread as the components' sum says, and together with each other.
TEST_F(Colors, LightingsDrawHasImageNetsCovariance) {
  const Augmenter augmenter(FieldsOf<TransformationParameter>("augment { lighting { std: 0.5 } }"), TRAIN, 5);
  AugmentScratch scratch;
  double red = 0;
  double blue = 0;
  double both = 0;
  constexpr int kSamples = 4000;
  for (uint64_t i = 0; i < kSamples; ++i) {
    Image image;
    image.Resize(1, 1, 3);
    image.pixels = {128, 128, 128};
    augmenter.Change({0, i}, image, {}, scratch);
    const double b = image.pixels[0] - 128.0;
    const double r = image.pixels[2] - 128.0;
    red += r * r / kSamples;
    blue += b * b / kSamples;
    both += r * b / kSamples;
  }
  const double values[] = {0.2175, 0.0188, 0.0045};
  const double reds[] = {-0.5675, 0.7192, 0.4009};
  const double blues[] = {-0.5836, -0.6948, 0.4203};
  double expected_red = 0;
  double expected_blue = 0;
  double expected_both = 0;
  for (int k = 0; k < 3; ++k) {
    const double variance = std::pow(0.5 * 255 * values[k], 2);
    expected_red += variance * reds[k] * reds[k];
    expected_blue += variance * blues[k] * blues[k];
    expected_both += variance * reds[k] * blues[k];
  }
  EXPECT_NEAR(red, expected_red, 0.08 * expected_red);
  EXPECT_NEAR(blue, expected_blue, 0.08 * expected_blue);
  EXPECT_NEAR(both, expected_both, 0.08 * expected_both);
}

}  // namespace
}  // namespace moka
