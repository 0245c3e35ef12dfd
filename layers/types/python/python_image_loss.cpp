// The losses of image restoration that NVIDIA's PL4NN gives as Python layers (Zhao, Gallo, Frosio, Kautz, "Loss
// functions for image restoration with neural networks", arXiv 1511.08861): L1, L2, structural similarity of a patch's
// centre (SSIM), at several scales (MSSSIM), and mixtures. Bottom 0 is the restored patch, bottom 1 the true one, which
// only L1 and L2 give a gradient.
#include <cmath>

#include "core/text.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

constexpr int64_t kMostPixels = 1 << 10;  // a patch's side

void SetMean(LayerBuilder& l, const std::string& expr, double divisor) {
  const ValueId sum = SumOf(l, expr, {l.bottom(0), Like0(l, 1)});
  l.SetTop(0, l.b().Reshape(Computed(l.b(), Term::Of(sum) / Decimal(divisor)), Shape{1}));
}

void BuildL1(LayerBuilder& l, const PythonFields&) {
  SetMean(l, "abs(x0-x1)", static_cast<double>(l.shape(0).Count()));
}

void BuildL2(LayerBuilder& l, const PythonFields&) {
  SetMean(l, "(x0-x1)*(x0-x1)", 2 * static_cast<double>(l.shape(0).Count()));
}

// A Gaussian of a patch's size around its centre, [1,1,W,W], of sum 1.
ValueId Window(const LayerBuilder& l, int64_t width, double deviation) {
  Doubles line;
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) {
    const auto d = static_cast<double>(i - width / 2);
    line.push_back(std::exp(-d * d / (2 * deviation * deviation)));
    sum += line.back();
  }
  Doubles values;
  for (const double a : line) {
    for (const double b : line) values.push_back(a * b / (sum * sum));
  }
  return l.b().Add1("table", {}, {{"shape", Ints{1, 1, width, width}}, {"values", values}});
}

// The values that the similarities are made of.
struct Patches {
  ValueId x;
  ValueId y;     // no gradient
  double count;  // images times channels
  double c1;
  double c2;
  std::vector<double> deviations;
};

Patches ReadPatches(const LayerBuilder& l, const PythonFields& fields, const std::vector<double>& deviations) {
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4 && x.Count() >= 1 && x[2] == x[3] && x[3] % 2 == 1 && x[3] <= kMostPixels, "bottom[0]",
          StrCat("the patches must be [N,C,W,W] with an odd W up to ", kMostPixels, ", found ", x.ToString()));
  Patches p{.x = l.bottom(0),
            .y = Constant(l, Like0(l, 1)),
            .count = static_cast<double>(x[0] * x[1]),
            .c1 = std::pow(fields.Number("C1", 0.01), 2),
            .c2 = std::pow(fields.Number("C2", 0.03), 2),
            .deviations = fields.Numbers("sigma", deviations)};
  l.Check(!p.deviations.empty() && p.deviations.size() <= 64, "python_param.param_str",
          StrCat("'sigma' must hold 1 to 64 numbers, found ", p.deviations.size()));
  for (const double deviation : p.deviations) {
    l.Check(deviation > 0 && std::isfinite(deviation), "python_param.param_str",
            StrCat("'sigma' must be above 0, found ", deviation));
  }
  return p;
}

// 1 minus the mean over images and channels of luminance at the last scale times contrast and structure at all; a
// scalar.
ValueId Dissimilarity(const LayerBuilder& l, const Patches& p) {
  const GraphBuilder& b = l.b();
  const Term x = Term::Of(p.x);
  const Term y = Term::Of(p.y);
  ValueId product = kNoId;
  for (size_t i = 0; i < p.deviations.size(); ++i) {
    const ValueId window = Window(l, b.shape(p.x)[3], p.deviations[i]);
    const auto mean = [&](const Term& term) { return Summed(b, term * Term::Of(window), {2, 3}); };
    const std::vector<ValueId> moments{mean(x), mean(y), mean(x * x), mean(y * y), mean(x * y)};
    const Term mx = Term::Of(moments[0]);
    const Term my = Term::Of(moments[1]);
    const Term covariance = Term::Of(moments[4]) - mx * my;
    const Term structure = (2 * covariance + Decimal(p.c2)) /
                           (Term::Of(moments[2]) - mx * mx + Term::Of(moments[3]) - my * my + Decimal(p.c2));
    const ValueId factor = Computed(b, structure, moments);
    product = product == kNoId ? factor : b.Pointwise("x0*x1", {product, factor});
    if (i + 1 < p.deviations.size()) continue;
    const Term luminance = (2 * mx * my + Decimal(p.c1)) / (mx * mx + my * my + Decimal(p.c1));
    product = b.Pointwise("x0*x1", {product, Computed(b, luminance)});
  }
  return Computed(b, 1 - Term::Of(SumOf(l, "x0", {product})) / Decimal(p.count));
}

const std::vector<double>& Scales() {
  static const std::vector<double> scales = {0.5, 1, 2, 4, 8};
  return scales;
}

void BuildSsim(LayerBuilder& l, const PythonFields& fields) {
  const Patches p = ReadPatches(l, fields, {5});
  l.Check(p.deviations.size() == 1, "python_param.param_str", "'sigma' of SSIM is one number");
  l.SetTop(0, l.b().Reshape(Dissimilarity(l, p), Shape{1}));
}

void BuildMsSsim(LayerBuilder& l, const PythonFields& fields) {
  l.SetTop(0, l.b().Reshape(Dissimilarity(l, ReadPatches(l, fields, Scales())), Shape{1}));
}

// alpha of the above and 1 - alpha of the differences, weighted by the widest Gaussian.
void BuildMixture(LayerBuilder& l, const PythonFields& fields, double alpha,
                  Term (*weighed)(const Term& weight, const Term& d)) {
  const Patches p = ReadPatches(l, fields, Scales());
  const GraphBuilder& b = l.b();
  const double part = fields.Number("alpha", alpha);
  const ValueId window = Window(l, b.shape(p.x)[3], p.deviations.back());
  const ValueId sum = SumOf(l, weighed(Term::Of(window), Term::Of(p.x) - Term::Of(p.y)), {p.x, p.y});
  const Term similar = Term::Of(Dissimilarity(l, p));
  const Term mixed = Decimal(part) * similar + Decimal((1 - part) / p.count) * Term::Of(sum);
  l.SetTop(0, b.Reshape(Computed(b, mixed), Shape{1}));
}

void BuildMixtureL1(LayerBuilder& l, const PythonFields& fields) {
  BuildMixture(l, fields, 0.025, [](const Term& weight, const Term& d) { return weight * Abs(d); });
}
void BuildMixtureL2(LayerBuilder& l, const PythonFields& fields) {
  BuildMixture(l, fields, 0.1, [](const Term& weight, const Term& d) { return weight * d * d / 2; });
}

PythonLayerDef Row(const std::string& layer, const std::string& doc,
                   void (*build)(LayerBuilder&, const PythonFields&)) {
  return {.module = "pyloss",
          .layer = layer,
          .doc = doc + "; give it a loss_weight.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = build};
}

}  // namespace

std::vector<PythonLayerDef> ImageLossPythonLayers() {
  return {
      Row("L1", "the mean of the magnitudes of two bottoms' differences", BuildL1),
      Row("L2", "half the mean of the squared differences", BuildL2),
      Row("SSIM",
          "1 minus the structural similarity of patches [N,C,W,W], W odd, around their centres, with a Gaussian of "
          "'sigma' pixels (5), 'C1' (0.01) and 'C2' (0.03), which are squared; the second bottom, the truth, gets no "
          "gradient",
          BuildSsim),
      Row("MSSSIM", "SSIM with contrast and structure multiplied over several 'sigma' (0.5, 1, 2, 4, 8)", BuildMsSsim),
      Row("MSSSIML1", "'alpha' (0.025) of MSSSIM and the rest of L1, summed with the last Gaussian's weights",
          BuildMixtureL1),
      Row("MSSSIML2", "'alpha' (0.1) of MSSSIM and the rest of half the squares, likewise", BuildMixtureL2)};
}

}  // namespace moka
