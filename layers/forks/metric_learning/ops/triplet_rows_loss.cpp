// The loss of triplets that name rows (yuqj1991's triplet_loss_layer): the mean over T triplets of
// max(0, |a-p|^2 + margin - |a-n|^2). Training follows `slope`, which is not its derivative: each triplet, whether it
// adds to the loss or not, writes 2 (n - p) at its anchor's row, then 2 (p - a) at its positive's and 2 (a - p) at its
// negative's, over what an earlier one wrote there; all divided by T. So this op has no gradient.
#include <algorithm>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferTripletRowsLoss(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("triplet_rows_loss", in, 2, 2);
  CheckFloat("triplet_rows_loss", "x", in[0]);
  CheckFloat("triplet_rows_loss", "triplets", in[1]);
  const Shape& t = in[1].shape;
  if (in[0].shape.rank() != 2 || in[0].shape.Count() < 1 || t.rank() != 2 || t[1] != 3 || t[0] < 1) {
    throw Error(ErrorKind::kConfig, StrCat("triplet_rows_loss: x must be [N,D] and triplets [T,3], found ",
                                           in[0].shape.ToString(), " and ", t.ToString()));
  }
  return {PlainType(StatisticsType(in[0].dtype), Shape{}), PlainType(in[0].dtype, in[0].shape)};
}

void TripletRowsLossReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const int64_t rows = in[0].type.shape[0];
  const int64_t length = in[0].type.shape[1];
  const double count = static_cast<double>(in[1].type.shape[0]);
  std::ranges::fill(out[1].values, 0.0);
  double loss = 0;
  const auto is_row = [&](double row) { return row >= 0 && row < static_cast<double>(rows); };
  for (size_t t = 0; t + 3 <= in[1].values.size(); t += 3) {
    const double* triplet = in[1].values.data() + t;
    if (!std::all_of(triplet, triplet + 3, is_row)) continue;
    const auto value = [&](int which, int64_t i) {
      return in[0].values[static_cast<size_t>(static_cast<int64_t>(triplet[which]) * length + i)];
    };
    const auto write = [&](int which, int plus, int minus) {
      for (int64_t i = 0; i < length; ++i) {
        out[1].values[static_cast<size_t>(static_cast<int64_t>(triplet[which]) * length + i)] =
            2 * (value(plus, i) - value(minus, i)) / count;
      }
    };
    double gap = attributes.Float("margin");
    for (int64_t i = 0; i < length; ++i) {
      const double near = value(0, i) - value(1, i);
      const double far = value(0, i) - value(2, i);
      gap += near * near - far * far;
    }
    loss += std::max(gap, 0.0);
    write(0, 2, 1);
    write(1, 1, 0);
    write(2, 0, 1);
  }
  out[0].values[0] = loss / count;
}

std::vector<OpCase> TripletRowsLossCases() {
  return {{.name = "some",
           .inputs = {Float32({6, 4}), Float32({5, 3})},
           .attributes = {{"margin", 0.2}},
           .ranges = {{1, -1, 5}}}};
}

}  // namespace

OpDef TripletRowsLossOp() {
  return {.name = "triplet_rows_loss",
          .doc =
              "(x [N,D], triplets [T,3]) -> loss (scalar), slope like x: a loss of triplets of rows and its "
              "hand-made gradient; a triplet with -1 counts nothing.",
          .attributes = {{"margin", 0.2, "by which a negative is to be farther"}},
          .infer = InferTripletRowsLoss,
          .reference = TripletRowsLossReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kChooses,
          .cases = TripletRowsLossCases};
}

}  // namespace moka
