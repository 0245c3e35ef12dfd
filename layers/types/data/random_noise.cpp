// Numbers drawn by the run's key: new ones in each training run, the same ones in each test, whose key is the number of
// the batch.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

constexpr const char* kNoiseField = "random_noise_param";

// t4 = sqrt(2) * erfinv(t0), t1 = -log(1 - t0^2), which is kept finite: M. Giles, "Approximating the erfinv function",
// GPU Computing Gems, 2011, its single-precision form. The relative error is below 1e-6.
std::string NormalOfUniform() {
  const auto polynomial = [](const std::string& w, std::initializer_list<const char*> coefficients) {
    std::string text;
    for (const char* c : coefficients) text = text.empty() ? std::string(c) : StrCat("(", c, "+", w, "*", text, ")");
    return text;
  };
  const std::string middle =
      polynomial("t2", {"2.81022636e-08", "3.43273939e-07", "(-3.5233877e-06)", "(-4.39150654e-06)", "0.00021858087",
                        "(-0.00125372503)", "(-0.00417768164)", "0.246640727", "1.50140941"});
  const std::string tail =
      polynomial("t3", {"(-0.000200214257)", "0.000100950558", "0.00134934322", "(-0.00367342844)", "0.00573950773",
                        "(-0.0076224613)", "0.00943887047", "1.00167406", "2.83297682"});
  return StrCat("t1=-log(max((1-t0)*(1+t0),1e-7));t2=t1-2.5;t3=sqrt(max(t1,0))-3;t4=1.41421356237*t0*select(lt(t1,5),",
                middle, ",", tail, ");");
}

void BuildRandomNoise(LayerBuilder& l) {
  const RandomNoiseParameter& p = l.param().random_noise_param();
  const std::string field = kNoiseField;
  l.Check(p.has_shape() && p.shape().dim_size() > 0, field + ".shape", "random_noise_param.shape must be given");
  l.Check(p.shape().dim_size() <= Shape::kMaxRank, field + ".shape",
          StrCat("random_noise_param.shape has ", p.shape().dim_size(), " dimensions; the limit is ", Shape::kMaxRank));
  std::vector<int64_t> dims(p.shape().dim().begin(), p.shape().dim().end());
  for (const int64_t dim : dims) {
    l.Check(dim >= 1, field + ".shape",
            StrCat("random_noise_param.shape: every dimension must be at least 1, found ", dim));
  }
  const ValueId zeros = l.b().Full(Shape(std::move(dims)), 0);
  const std::string drawn = StrCat("rand(x1,", RandomStreamOf(l), ")");
  std::string text;
  if (p.distribution() == RandomNoiseParameter::UNIFORM) {
    const double low = Finite(l, field + ".low", p.low());
    const double high = Finite(l, field + ".high", p.high());
    l.Check(low < high, field + ".low", StrCat("low must be below high, found ", low, " and ", high));
    text = StrCat("x0+", Number(low), "+", Number(high - low), "*", drawn);
  } else {
    const double mean = Finite(l, field + ".mean", p.mean());
    const double std = Finite(l, field + ".std", p.std());
    l.Check(std > 0, field + ".std", StrCat("std must be above 0, found ", std));
    text = StrCat("t0=2*", drawn, "-1;", NormalOfUniform(), "x0+", Number(mean), "+", Number(std), "*t4");
  }
  l.SetTop(0, l.b().Pointwise(text, {zeros, l.RandomKey()}));
}

}  // namespace

LayerDef RandomNoiseLayer() {
  return {
      .type = "RandomNoise",
      .doc =
          "A top of random_noise_param.shape with random numbers, uniform in [low, high) or normal with mean and std: "
          "new ones in each training run, in TEST the same ones in each test.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .build = BuildRandomNoise,
      .page = {
          .params = {kNoiseField},
          .formula =
              "`y = low + (high - low) * u` (UNIFORM, the default, of [-1, 1)) or `y = mean + std * sqrt(2) * "
              "erfinv(2u "
              "- 1)` (NORMAL, by default 0 and 1), u uniform in [0, 1) and drawn for each element and run: a function "
              "of the run's key, the layer's name and the element. In training the key follows from the seed and the "
              "number of the update, so a resumed run draws what it would have drawn. In TEST it is the number of the "
              "batch: each test sees the same noise, and so do two checkpoints. `moka generate --seed` gives another.",
          .gradient = "None: there are no bottoms.",
          .source =
              "The z of Goodfellow et al., arXiv 1406.2661 and Radford et al., arXiv 1511.06434. The inverse error "
              "function is M. Giles's approximation (GPU Computing Gems, 2011), exact to a millionth.",
          .example = R"(layer {
  name: "z"
  type: "RandomNoise"
  top: "z"
  random_noise_param { shape { dim: 4 dim: 10 } distribution: NORMAL std: 0.5 }
})"}};
}

}  // namespace moka
