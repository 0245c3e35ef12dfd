// y = K x over the pixels of each image, K_ij close to a Gaussian of how far pixels i and j lie apart: in position, and
// with a guide in its values as well (the bilateral filter of Paris, Durand and of Kraehenbuehl, Koltun). By the
// permutohedral lattice, so with its error; not normalised. The guide gets no gradient, as in CRF-RNN's Caffe.
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/meanfield/ops/lattice.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr double kLatticeFilterFarthest = 1e6;
constexpr int64_t kMostGuides = 30;

std::vector<TensorType> InferLatticeFilter(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("lattice_filter", in, 1, 2);
  CheckFloat("lattice_filter", "x", in[0]);
  const Shape& x = in[0].shape;
  const bool fits = x.rank() == 4 && x.Count() >= 1 &&
                    (in.size() == 1 || (in[1].shape.rank() == 4 && in[1].shape.With(1, x[1]) == x));
  if (!fits || (in.size() == 2 && in[1].shape[1] > kMostGuides)) {
    throw Error(ErrorKind::kConfig,
                StrCat("lattice_filter: x must be [N,C,H,W] and the guide [N,G,H,W] with at most ", kMostGuides,
                       " channels, found ", x.ToString(), in.size() == 2 ? " and " + in[1].shape.ToString() : ""));
  }
  for (const char* name : {"position_deviation", "guide_deviation"}) {
    if (attributes.Float(name) > 0) continue;
    throw Error(ErrorKind::kConfig, StrCat("lattice_filter: ", name, " must be above 0"));
  }
  return {PlainType(in[0].dtype, x)};
}

// A coordinate that does not fit an integer's range, or is no number, is held at the range's end: such pixels filter
// with none but theirs.
double Held(double value) {
  return std::isnan(value) ? kLatticeFilterFarthest
                           : std::min(std::max(value, -kLatticeFilterFarthest), kLatticeFilterFarthest);
}

Lattice LatticeOf(const Attributes& attributes, std::span<const RefTensor> in, int64_t n) {
  const Shape& x = in[0].type.shape;
  const int64_t pixels = x[2] * x[3];
  const int64_t guides = in.size() == 2 ? in[1].type.shape[1] : 0;
  std::vector<double> points;
  points.reserve(static_cast<size_t>(pixels * (2 + guides)));
  for (int64_t p = 0; p < pixels; ++p) {
    points.push_back(Held(static_cast<double>(p % x[3]) / attributes.Float("position_deviation")));
    points.push_back(Held(static_cast<double>(p / x[3]) / attributes.Float("position_deviation")));
    for (int64_t g = 0; g < guides; ++g) {
      const double value = in[1].values[static_cast<size_t>((n * guides + g) * pixels + p)];
      points.push_back(Held(value / attributes.Float("guide_deviation")));
    }
  }
  return Lattice(points, static_cast<int>(2 + guides));
}

void LatticeFilterReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const auto size = static_cast<size_t>(x[1] * x[2] * x[3]);
  const bool is_one = in.size() == 1;  // positions are those of every image
  std::vector<Lattice> lattices;
  for (int64_t n = 0; n < x[0]; ++n) {
    if (n == 0 || !is_one) lattices.assign(1, LatticeOf(attributes, in, n));
    lattices[0].Filter(std::span(in[0].values).subspan(static_cast<size_t>(n) * size, size),
                       std::span(out[0].values).subspan(static_cast<size_t>(n) * size, size), x[1],
                       attributes.Bool("reverse"));
  }
}

void LatticeFilterGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  Attributes attributes = c.attributes();
  attributes.Set("reverse", !attributes.Bool("reverse"));
  std::vector<ValueId> inputs{c.dy(0)};
  if (c.input_count() == 2) inputs.push_back(c.x(1));
  c.SetDx(0, c.b().Add1("lattice_filter", inputs, attributes));
}

std::vector<OpCase> LatticeFilterCases() {
  const auto deviations = [](double position, double guide, bool reverse) {
    return Attributes{{"position_deviation", position}, {"guide_deviation", guide}, {"reverse", reverse}};
  };
  return {{"position", {Float32({2, 2, 5, 6})}, deviations(1.5, 1, false)},
          {"reverse", {Float32({1, 2, 4, 5})}, deviations(3, 1, true)}};
}

}  // namespace

OpDef LatticeFilterOp() {
  return {.name = "lattice_filter",
          .doc =
              "(x [N,C,H,W], optional guide [N,G,H,W]) -> y like x: each pixel the sum of all, weighted by a Gaussian "
              "of their distance in position and guide, by the permutohedral lattice; the guide gets no gradient.",
          .attributes = {{"position_deviation", {}, "pixels: the Gaussian's standard deviation in x and y"},
                         {"guide_deviation", 1.0, "its standard deviation in the guide's values"},
                         {"reverse", false, "the transpose"}},
          .infer = InferLatticeFilter,
          .reference = LatticeFilterReference,
          .gradient = LatticeFilterGradient,
          .precision = Precision::kKeep32,
          .on_host = on_host::kLattice,
          .cases = LatticeFilterCases};
}

}  // namespace moka
