// U-Net's weights of pixels (Ronneberger, Fischer, Brox, arXiv 1505.04597, equation 2), made of the labels: w = w_c +
// w0 exp(-(d1 + d2)^2 / (2 sigma^2)), d1 and d2 the distances from the pixel to the nearest pixels of the nearest and
// of the second nearest object. Only pixels outside of objects have the second term, and objects farther than 4 sigma
// are not looked for: beyond, the term is below w0 exp(-8).
#include "layers/forks/segmentation/ops/border_weight.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr double kMostBorderSigma = 64;  // the list of steps stays below 206,000

std::vector<TensorType> InferBorderWeight(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("border_weight", in, 1, 1);
  CheckFloat("border_weight", "label", in[0]);
  const Shape& label = in[0].shape;
  if (label.rank() != 4 || label[1] != 1) {
    throw Error(ErrorKind::kConfig, StrCat("border_weight: label must be [N,1,H,W], found ", label.ToString()));
  }
  const double sigma = attributes.Float("sigma");
  if (!(sigma > 0 && sigma <= kMostBorderSigma)) {
    throw Error(ErrorKind::kConfig,
                StrCat("border_weight: sigma must be above 0 and at most ", kMostBorderSigma, ", found ", sigma));
  }
  return {PlainType(in[0].dtype, label)};
}

void BorderWeightReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  WeighBorders(attributes, in[0].type.shape, in[0].values.data(), out[0].values.data());
}

std::vector<OpCase> BorderWeightCases() {
  const auto one = [](std::string name, TensorType label, Attributes attributes, double most) {
    return OpCase{.name = std::move(name),
                  .inputs = {std::move(label)},
                  .attributes = std::move(attributes),
                  .ranges = {{0, 0, most}}};
  };
  return {one("defaults", Float32({2, 1, 9, 7}), {}, 1),
          one("classes", Float32({1, 1, 8, 8}),
              {{"class_weight", Doubles{0.5, 2.0, 3.0}}, {"sigma", 1.5}, {"object_label", int64_t{2}}}, 3),
          one("ignored", Float32({1, 1, 6, 11}), {{"ignore_label", int64_t{2}}, {"w0", 3.0}}, 2)};
}

}  // namespace

OpDef BorderWeightOp() {
  return {.name = "border_weight",
          .doc =
              "label [N,1,H,W] -> the weight of each pixel: its class's, and more between two objects near each "
              "other.",
          .attributes = {{"class_weight", Doubles{}, "one a class from 0; others have 1"},
                         {"w0", 10.0, "the most that nearness adds"},
                         {"sigma", 5.0, "pixels"},
                         {"object_label", int64_t{1}, "connected pixels with this label are an object"},
                         {"ignore_label", int64_t{-1}, "pixels of weight 0"}},
          .infer = InferBorderWeight,
          .reference = BorderWeightReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kFlood,
          .cases = BorderWeightCases};
}

}  // namespace moka
