// Local response normalisation (Krizhevsky et al. 2012, §3.3): y = x * s^-beta, s = k + a * sum of x^2 over a window
// around the element: `size` channels (a = alpha/size), or a size x size patch of the same channel (a = alpha/size^2).
// The gradient is, with b = beta, dx_j = dy_j s_j^-b - 2 a b x_j * sum over windows i containing j of dy_i x_i
// s_i^(-b-1).
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/gradients.h"
#include "layers/ops/traits.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

void CheckLrn(std::string_view op, const Attributes& attributes, const TensorType& x) {
  CheckFloat(op, "x", x);
  const int64_t size = attributes.Int("size");
  const std::string& region = attributes.String("region");
  if (size < 1 || size % 2 == 0) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": size must be odd and at least 1, found ", size));
  }
  if (region != "across" && region != "within") {
    throw Error(ErrorKind::kConfig, {}, StrCat(op, ": there is no region \"", region, "\""),
                DidYouMean(region, {"across", "within"}));
  }
  const int least = region == "across" ? 2 : 3;
  if (x.shape.rank() < least || x.shape.rank() > 5) {
    throw Error(ErrorKind::kConfig,
                StrCat(op, ": x must be [N,C,spatial..] of rank ", least, " to 5, found ", x.shape.ToString()));
  }
}

std::vector<TensorType> InferLrn(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("lrn", in, 1, 1);
  CheckLrn("lrn", attributes, in[0]);
  return {PlainType(in[0].dtype, in[0].shape)};
}

std::vector<TensorType> InferLrnBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("lrn_backward", in, 2, 2);
  CheckLrn("lrn_backward", attributes, in[0]);
  CheckShape("lrn_backward", "dy", in[1].shape, in[0].shape, "x's shape");
  CheckSameDType("lrn_backward", "x", in[0], "dy", in[1]);
  return {PlainType(in[0].dtype, in[0].shape)};
}

bool IsAcross(const Attributes& attributes) { return attributes.String("region") == "across"; }

// The factor a above.
double Factor(const Attributes& attributes, const Shape& x) {
  const int axes = IsAcross(attributes) ? 1 : x.rank() - 2;
  return attributes.Float("alpha") / std::pow(static_cast<double>(attributes.Int("size")), axes);
}

// Calls f(i, j) for each element i and each j of its window (the relation is symmetric: size is odd).
template <class F>
void VisitNeighbors(const Attributes& attributes, const Shape& x, F&& f) {
  const int64_t half = attributes.Int("size") / 2;
  VisitElements(x, [&](const Index& i, int64_t i_offset) {
    VisitElements(x, [&](const Index& j, int64_t j_offset) {
      bool near = i[0] == j[0];
      for (int axis = 1; axis < x.rank(); ++axis) {
        const auto a = static_cast<size_t>(axis);
        const bool slides = (axis == 1) == IsAcross(attributes);
        near = near && std::abs(i[a] - j[a]) <= (slides ? half : 0);
      }
      if (near) f(static_cast<size_t>(i_offset), static_cast<size_t>(j_offset));
    });
  });
}

std::vector<double> Scales(const Attributes& attributes, const RefTensor& x) {
  std::vector<double> s(x.values.size(), attributes.Float("k"));
  const double a = Factor(attributes, x.type.shape);
  VisitNeighbors(attributes, x.type.shape, [&](size_t i, size_t j) { s[i] += a * x.values[j] * x.values[j]; });
  return s;
}

void LrnReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const std::vector<double> s = Scales(attributes, in[0]);
  const double beta = attributes.Float("beta");
  for (size_t i = 0; i < s.size(); ++i) out[0].values[i] = in[0].values[i] * std::pow(s[i], -beta);
}

void LrnReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const std::vector<double>& x = in[0].values;
  const std::vector<double>& dy = in[1].values;
  const std::vector<double> s = Scales(attributes, in[0]);
  const double beta = attributes.Float("beta");
  const double factor = 2 * Factor(attributes, in[0].type.shape) * beta;
  for (size_t j = 0; j < s.size(); ++j) out[0].values[j] = dy[j] * std::pow(s[j], -beta);
  VisitNeighbors(attributes, in[0].type.shape, [&](size_t j, size_t i) {
    out[0].values[j] -= factor * x[j] * dy[i] * x[i] * std::pow(s[i], -beta - 1);
  });
}

void LrnGradient(GradientContext& c) {
  if (c.wants(0)) c.SetDx(0, c.b().Add1("lrn_backward", {c.x(0), c.dy(0)}, c.attributes()));
}

std::vector<AttributeSpec> LrnSpecs() {
  return {{"size", {}, "window, odd: channels (across) or spatial elements a dimension (within)"},
          {"alpha", {}, "weight of the mean square"},
          {"beta", {}, "exponent"},
          {"k", 1.0, "constant added to the mean square"},
          {"region", std::string("across"), "\"across\" channels or \"within\" each channel"}};
}

std::vector<OpCase> MakeLrnCases(bool backward) {
  const auto attributes = [](int64_t size, double alpha, double beta, double k, const char* region) {
    return Attributes{{"size", size}, {"alpha", alpha}, {"beta", beta}, {"k", k}, {"region", std::string(region)}};
  };
  std::vector<OpCase> cases = {
      {"across", {Float32({2, 7, 3, 4})}, attributes(5, 0.5, 0.75, 1, "across")},
      {"across_blocked", {Float32({1, 32, 2, 3})}, attributes(5, 0.9, 0.75, 2, "across")},
      {"across_wider_than_channels", {Float32({2, 3, 2, 2})}, attributes(9, 1, 0.5, 1, "across")},
      {"within", {Float32({2, 3, 5, 6})}, attributes(3, 0.5, 0.75, 1, "within")},
      {"within_blocked", {Float32({1, 16, 4, 4})}, attributes(5, 0.9, 0.6, 1, "within")},
      {"within_one_dimension", {Float32({2, 3, 7})}, attributes(3, 0.5, 0.75, 1, "within")},
  };
  for (OpCase& c : cases) {
    if (backward) c.inputs.push_back(c.inputs[0]);
    c.low = -2;
    c.high = 2;
  }
  return cases;
}

std::vector<OpCase> LrnCases() { return MakeLrnCases(false); }
std::vector<OpCase> LrnBackwardCases() { return MakeLrnCases(true); }

}  // namespace

OpDef LrnOp() {
  return {.name = "lrn",
          .doc = "x [N,C,..] -> y like x: x * (k + alpha * mean of x^2 over a window)^-beta.",
          .attributes = LrnSpecs(),
          .infer = InferLrn,
          .reference = LrnReference,
          .gradient = LrnGradient,
          .by_image = EachImageAlone,
          .precision = Precision::kKeep32,
          .cases = LrnCases};
}

OpDef LrnBackwardOp() {
  return {.name = "lrn_backward",
          .doc = "(x, dy) -> dx like x.",
          .attributes = LrnSpecs(),
          .infer = InferLrnBackward,
          .reference = LrnReferenceBackward,
          .precision = Precision::kKeep32,
          .cases = LrnBackwardCases};
}

}  // namespace moka
