// Numbers drawn by the run's key: new ones in each training run, the same ones in each test, whose key is the number of
// the batch.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

constexpr const char* kNoiseField = "random_noise_param";

// c[n] + w (c[n-1] + w (c[n-2] + ..)).
Term Polynomial(const Term& w, std::initializer_list<double> coefficients) {
  Term sum = *coefficients.begin();
  for (const double* c = coefficients.begin() + 1; c != coefficients.end(); ++c) sum = *c + w * sum;
  return sum;
}

// sqrt(2) * erfinv(u) of u in [-1,1), with w = -log(1 - u^2) kept finite: M. Giles, "Approximating the erfinv
// function", GPU Computing Gems, 2011, its single-precision form. The relative error is below 1e-6.
Term NormalOfUniform(const Term& u) {
  const Term w = -Log(Max((1 - u) * (1 + u), 1e-7));
  const Term middle = Polynomial(w - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06,
                                           0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  const Term tail =
      Polynomial(Sqrt(Max(w, 0)) - 3, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                       -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  return 1.41421356237 * u * Select(w < 5, middle, tail);
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
  const Term drawn = Uniform(l);
  Term noise = Term::Of(zeros);
  if (p.distribution() == RandomNoiseParameter::UNIFORM) {
    const double low = Finite(l, field + ".low", p.low());
    const double high = Finite(l, field + ".high", p.high());
    l.Check(low < high, field + ".low", StrCat("low must be below high, found ", low, " and ", high));
    noise = noise + Decimal(low) + Decimal(high - low) * drawn;
  } else {
    const double mean = Finite(l, field + ".mean", p.mean());
    const double std = Finite(l, field + ".std", p.std());
    l.Check(std > 0, field + ".std", StrCat("std must be above 0, found ", std));
    noise = noise + Decimal(mean) + Decimal(std) * NormalOfUniform(2 * drawn - 1);
  }
  l.SetTop(0, noise);
}

}  // namespace

LayerDef RandomNoiseLayer() {
  return {.type = "RandomNoise",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .build = BuildRandomNoise,
          .traits = {.data = DataKind::kNoise},
          .params = {kNoiseField}};
}

}  // namespace moka
