// 1 at the value of the largest magnitude of each window of each plane, else 0 (winner takes all: Makhzani, Frey, arXiv
// 1409.2752). Windows may overlap: a value stays if it wins one.
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferWinnerMask(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("winner_mask", in, 1, 1);
  CheckFloat("winner_mask", "x", in[0]);
  const Shape& x = in[0].shape;
  const Ints& kernel = attributes.Get<Ints>("kernel");
  const Ints& stride = attributes.Get<Ints>("stride");
  bool fits = x.rank() == 4 && kernel.size() == 2 && stride.size() == 2;
  for (size_t i = 0; fits && i < 2; ++i) {
    fits = kernel[i] >= 1 && kernel[i] <= x[static_cast<int>(i) + 2] && stride[i] >= 1;
  }
  if (!fits) {
    throw Error(ErrorKind::kConfig,
                StrCat("winner_mask: x must be [N,C,H,W] and windows lie inside, found ", x.ToString()));
  }
  return {PlainType(in[0].dtype, x)};
}

void WinnerMaskReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const Ints& kernel = attributes.Get<Ints>("kernel");
  const Ints& stride = attributes.Get<Ints>("stride");
  out[0].values.assign(out[0].values.size(), 0);
  for (int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
    for (int64_t top = 0; top + kernel[0] <= x[2]; top += stride[0]) {
      for (int64_t left = 0; left + kernel[1] <= x[3]; left += stride[1]) {
        const auto at = [&](int64_t h, int64_t w) {
          return static_cast<size_t>((plane * x[2] + top + h) * x[3] + left + w);
        };
        size_t winner = at(0, 0);
        for (int64_t k = 1; k < kernel[0] * kernel[1]; ++k) {
          const size_t rival = at(k / kernel[1], k % kernel[1]);
          if (std::abs(in[0].values[rival]) > std::abs(in[0].values[winner])) winner = rival;
        }
        out[0].values[winner] = 1;
      }
    }
  }
}

}  // namespace

OpDef WinnerMaskOp() {
  return {.name = "winner_mask",
          .doc = "x [N,C,H,W] -> mask like x: 1 at the largest magnitude of each window, the first winning, else 0.",
          .attributes = {{"kernel", {}, "height and width of a window"}, {"stride", {}, "from one window to the next"}},
          .infer = InferWinnerMask,
          .reference = WinnerMaskReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kPeaks,
          .cases = [] {
            const auto windows = [](Ints kernel, Ints stride) {
              return Attributes{{"kernel", std::move(kernel)}, {"stride", std::move(stride)}};
            };
            return std::vector<OpCase>{
                {"whole", {Float32({2, 3, 4, 5})}, windows({4, 5}, {1, 1}), -1, 1, {}, 1e-3},
                {"overlapping", {Float32({1, 2, 6, 5})}, windows({3, 2}, {2, 1}), -1, 1, {}, 1e-3}};
          }};
}

}  // namespace moka
