// The first of the highest values of each map and its place, as caffe_rtpose's maximum_layer.
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferMapMaxima(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("map_maxima", in, 1, 1);
  CheckFloat("map_maxima", "x", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() != 4 || x.Count() < 1) {
    throw Error(ErrorKind::kConfig, StrCat("map_maxima: x must be [N,C,H,W], found ", x.ToString()));
  }
  return {PlainType(in[0].dtype, {x[0], x[1], 1, 3})};
}

void MapMaximaReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const int64_t plane = x[2] * x[3];
  for (int64_t map = 0; map < x[0] * x[1]; ++map) {
    const double* values = in[0].values.data() + map * plane;
    double* y = out[0].values.data() + map * 3;
    int64_t best = 0;
    y[2] = values[0];
    for (int64_t i = 1; i < plane; ++i) {
      if (!(values[i] > y[2])) continue;
      best = i;
      y[2] = values[i];
    }
    y[0] = static_cast<double>(best % x[3]);
    y[1] = static_cast<double>(best / x[3]);
  }
}

std::vector<OpCase> MapMaximaCases() {
  return {{"maps", {Float32({2, 3, 4, 5})}, {}},
          {.name = "ties", .inputs = {Float32({1, 2, 3, 3})}, .attributes = {}, .ranges = {{0, 1, 2}}}};
}

}  // namespace

OpDef MapMaximaOp() {
  return {.name = "map_maxima",
          .doc = "x [N,C,H,W] -> [N,C,1,3]: x, y and value of each map's first maximum.",
          .attributes = {},
          .infer = InferMapMaxima,
          .reference = MapMaximaReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kPeaks,
          .cases = MapMaximaCases};
}

}  // namespace moka
