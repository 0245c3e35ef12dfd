// The random changes of a batch of training images (DetectNet): for each image a row of augmentation.h. Every choice
// has a draw of its own from the run's key, so what one field does never changes what another draws. A chance p means
// u < p of u in [0, 1): 0 is never and 1 always. Numbers are rounded to float where NVIDIA's Caffe has floats.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/rng.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/detectnet/ops/augmentation.h"
#include "layers/forks/rcnn/ops/anchors.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kAugmentChoicesOp = "augment_choices";

// Numbers of the draws of one image.
enum AugmentChoicesDraw : uint64_t {
  kHueChance,
  kHue,
  kFadeChance,
  kFade,
  kMirrorChance,
  kScaleChance,
  kScale,
  kRotationChance,
  kRotation,
  kCropChance,
  kCropX,
  kCropY,
  kDraws = 16
};

float AugmentChoicesScaledSide(int64_t side, float scale) { return std::round(static_cast<float>(side) * scale); }

std::vector<TensorType> InferAugmentChoices(const Attributes& a, std::span<const TensorType> in) {
  CheckInputCount(kAugmentChoicesOp, in, 1, 1);
  CheckShape(kAugmentChoicesOp, "key", in[0].shape, Shape{}, "a scalar");
  for (const char* name : {"images", "height", "width", "out_height", "out_width"}) {
    if (a.Int(name) >= 1 && a.Int(name) <= kMaxAugmentedSide) continue;
    throw Error(ErrorKind::kConfig, StrCat(kAugmentChoicesOp, ": ", name, " must lie in [1, ", kMaxAugmentedSide,
                                           "], found ", a.Int(name)));
  }
  for (const char* scale : {"scale_min", "scale_max"}) {
    for (const char* side : {"height", "width"}) {
      const float scaled = AugmentChoicesScaledSide(a.Int(side), static_cast<float>(a.Float(scale)));
      if (scaled >= 1 && scaled <= static_cast<float>(kMaxAugmentedSide)) continue;
      throw Error(ErrorKind::kConfig,
                  StrCat(kAugmentChoicesOp, ": ", scale, " ", a.Float(scale), " makes a ", side, " of ", scaled,
                         " pixels out of ", a.Int(side), "; 1 to ", kMaxAugmentedSide, " fit"));
    }
  }
  return {PlainType(DType::kFloat32, Shape{a.Int("images"), kAugmentationColumns})};
}

class Chooser {
 public:
  Chooser(const Attributes& attributes, uint64_t key, int64_t image)
      : a_(attributes), key_(key), first_(static_cast<uint64_t>(image) * kDraws) {}

  std::array<double, kAugmentationColumns> Row() const {
    std::array<double, kAugmentationColumns> row{};
    if (Happens(kHueChance, "hue_rotation_prob")) {
      row[0] = std::clamp(static_cast<float>((U(kHue) - 0.5) * 2 * a_.Float("hue_rotation")), -180.0F, 180.0F);
    }
    row[1] = 1;
    if (Happens(kFadeChance, "desaturation_prob")) {
      row[1] = static_cast<float>(1.0 - U(kFade) * static_cast<float>(a_.Float("desaturation_max")));
    }
    row[2] = Happens(kMirrorChance, "flip_prob") ? 1 : 0;
    int64_t width = a_.Int("width");
    int64_t height = a_.Int("height");
    if (Happens(kScaleChance, "scale_prob")) {
      const auto low = static_cast<float>(a_.Float("scale_min"));
      const float scale = low + (static_cast<float>(a_.Float("scale_max")) - low) * U(kScale);
      width = static_cast<int64_t>(AugmentChoicesScaledSide(width, scale));
      height = static_cast<int64_t>(AugmentChoicesScaledSide(height, scale));
    }
    row[3] = static_cast<double>(width);
    row[4] = static_cast<double>(height);
    if (Happens(kRotationChance, "rotation_prob")) {
      row[5] = static_cast<float>((U(kRotation) - 0.5) * 2 * a_.Float("max_rotate_degree"));
    }
    if (PictureChange{.rotation = static_cast<float>(row[5])}.rotates()) {
      const Rotation turned = RotationOf(width, height, static_cast<float>(row[5]));
      width = turned.width;
      height = turned.height;
    }
    const bool is_random = Happens(kCropChance, "crop_prob");
    row[6] = Corner(is_random, kCropX, width - a_.Int("out_width"), a_.Int("shift_x"));
    row[7] = Corner(is_random, kCropY, height - a_.Int("out_height"), a_.Int("shift_y"));
    return row;
  }

 private:
  float U(AugmentChoicesDraw draw) const {
    return UnitFloat(RandomWord(key_, static_cast<uint64_t>(a_.Int("stream")), first_ + draw));
  }
  bool Happens(AugmentChoicesDraw draw, const char* chance) const { return U(draw) < a_.Float(chance); }
  // Half of the shift, a whole number, is what a random crop may begin before the image.
  double Corner(bool is_random, AugmentChoicesDraw draw, int64_t room, int64_t shift) const {
    if (!is_random) return std::round(0.5 * static_cast<double>(room));
    return std::round(static_cast<double>(U(draw)) * static_cast<double>(room + shift) -
                      static_cast<double>(shift / 2));
  }

  const Attributes& a_;
  uint64_t key_;
  uint64_t first_;
};

void AugmentChoicesReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  for (int64_t n = 0; n < attributes.Int("images"); ++n) {
    const auto row = Chooser(attributes, KeyOf(in[0]), n).Row();
    std::ranges::copy(row, out[0].values.begin() + n * kAugmentationColumns);
  }
}

std::vector<OpCase> AugmentChoicesCases() {
  const auto one = [](const char* name, const Attributes& more) {
    const Attributes sizes{{"images", int64_t{5}},
                           {"height", int64_t{20}},
                           {"width", int64_t{31}},
                           {"out_height", int64_t{16}},
                           {"out_width", int64_t{32}}};
    return OpCase{.name = name,
                  .inputs = {{DType::kInt64, Shape{}, {}}},
                  .attributes = With(sizes, more),
                  .low = 1,
                  .high = 1000};
  };
  return {one("defaults", {}),
          one("all", {{"hue_rotation_prob", 1.0},
                      {"desaturation_prob", 1.0},
                      {"flip_prob", 1.0},
                      {"scale_prob", 1.0},
                      {"rotation_prob", 1.0},
                      {"max_rotate_degree", 80.0},
                      {"shift_x", int64_t{7}},
                      {"shift_y", int64_t{4}}}),
          one("none", {{"crop_prob", 0.0},
                       {"hue_rotation_prob", 0.0},
                       {"desaturation_prob", 0.0},
                       {"flip_prob", 0.0},
                       {"scale_prob", 0.0},
                       {"rotation_prob", 0.0}})};
}

}  // namespace

OpDef AugmentChoicesOp() {
  return {
      .name = "augment_choices",
      .doc =
          "key -> [images,8]: hue (degrees), saturation, mirror, width and height to resize to, rotation (degrees), "
          "x and y of the crop's corner; drawn for each image.",
      .attributes = {{"images", {}, "how many rows"},
                     {"height", {}, "of the images, pixels"},
                     {"width", {}, "of the images, pixels"},
                     {"out_height", {}, "of the crop, pixels"},
                     {"out_width", {}, "of the crop, pixels"},
                     {"crop_prob", 1.0, "chance of a random corner; else the crop is central"},
                     {"shift_x", int64_t{0}, "pixels by which a random crop may leave the image, both sides"},
                     {"shift_y", int64_t{0}, "as shift_x"},
                     {"scale_prob", 0.33, "chance of another size"},
                     {"scale_min", 0.7, "smallest factor"},
                     {"scale_max", 1.0, "largest factor"},
                     {"flip_prob", 0.33, "chance of a mirror image"},
                     {"rotation_prob", 0.33, "chance of a rotation"},
                     {"max_rotate_degree", 1.0, "largest angle either way"},
                     {"hue_rotation_prob", 0.33, "chance of another hue"},
                     {"hue_rotation", 15.0, "largest turn either way, degrees"},
                     {"desaturation_prob", 0.33, "chance of paler colours"},
                     {"desaturation_max", 0.5, "largest part of the saturation taken away"},
                     {"stream", int64_t{0}, "the stream of random numbers"}},
      .infer = InferAugmentChoices,
      .reference = AugmentChoicesReference,
      .precision = Precision::kKeep32,
      .on_host = on_host::kAugments,
      .cases = AugmentChoicesCases};
}

}  // namespace moka
