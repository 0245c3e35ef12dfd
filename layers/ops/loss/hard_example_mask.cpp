// Online hard example mining (Shrivastava et al., arXiv 1604.03540): of each group (image) the examples with the
// largest losses are marked; among equal losses the earlier wins. A negative group is padding and never marked.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

std::vector<TensorType> InferHardExampleMask(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("hard_example_mask", in, 2, 2);
  CheckFloat("hard_example_mask", "loss", in[0]);
  CheckFloat("hard_example_mask", "group", in[1]);
  const Shape& loss = in[0].shape;
  if (loss.rank() != 1) {
    throw Error(ErrorKind::kConfig, StrCat("hard_example_mask: loss must be [N], found ", loss.ToString()));
  }
  CheckShape("hard_example_mask", "group", in[1].shape, loss, "one group an example");
  if (attributes.Int("keep") < 1) {
    throw Error(ErrorKind::kConfig,
                StrCat("hard_example_mask: keep must be at least 1, found ", attributes.Int("keep")));
  }
  return {PlainType(in[0].dtype, loss)};
}

void HardExampleMaskReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const std::vector<double>& loss = in[0].values;
  std::vector<size_t> order(loss.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return std::isnan(loss[b]) ? !std::isnan(loss[a]) : loss[a] > loss[b];  // NaNs last: a sort needs an order
  });
  std::ranges::fill(out[0].values, 0.0);
  std::map<double, int64_t> taken;
  for (const size_t i : order) {
    const double group = std::trunc(in[1].values[i]);
    if (in[1].values[i] >= 0 && taken[group]++ < attributes.Int("keep")) out[0].values[i] = 1;
  }
}

std::vector<OpCase> HardExampleMaskCases() {
  const auto keep = [](int64_t count) { return Attributes{{"keep", count}}; };
  return {{"one_image", {Float32({20}), Float32({20})}, keep(6), 0, 1, {{1, 0, 0}}},
          {"three_images", {Float32({40}), Float32({40})}, keep(5), 0, 1, {{1, 0, 2}}},
          {"padding", {Float32({30}), Float32({30})}, keep(4), 0, 1, {{1, -1, 1}}},
          {"ties", {Float32({24}), Float32({24})}, keep(3), 0, 1, {{0, 0, 2}, {1, 0, 1}}},
          {"fewer_than_kept", {Float32({4}), Float32({4})}, keep(128), 0, 1, {{1, 0, 1}}}};
}

}  // namespace

OpDef HardExampleMaskOp() {
  return {.name = "hard_example_mask",
          .doc = "(loss [N], group [N]) -> y [N]: 1 at the largest losses of each group, otherwise 0.",
          .attributes = {{"keep", {}, "how many examples of a group are marked"}},
          .infer = InferHardExampleMask,
          .reference = HardExampleMaskReference,
          .precision = Precision::kKeep32,
          .cases = HardExampleMaskCases};
}

}  // namespace moka
