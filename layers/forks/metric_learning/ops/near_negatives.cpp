// Triplets of a batch whose rows come label by label (yuqj1991's sample_triplet_layer, after FaceNet, arXiv
// 1503.03832): counts[i] rows that follow each other have label i. Every row but a label's last is an anchor with each
// later row of its label as positive; the negative is drawn among the rows of other labels, after `batch` rows at most,
// whose squared distance is less than the positive's plus alpha. The first L triplets of the L labels count: the loss
// that follows reads no more of them. -1 stands where there are fewer.
#include <algorithm>

#include "core/rng.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/metric_learning/ops/rows.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferNearNegatives(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("near_negatives", in, 3, 3);
  CheckFloat("near_negatives", "x", in[0]);
  CheckFloat("near_negatives", "counts", in[1]);
  if (in[0].shape.rank() != 2 || in[0].shape.Count() < 1 || in[1].shape.rank() != 1 || in[1].shape.Count() < 1) {
    throw Error(ErrorKind::kConfig, StrCat("near_negatives: x must be [N,D] and counts [L], found ",
                                           in[0].shape.ToString(), " and ", in[1].shape.ToString()));
  }
  CheckShape("near_negatives", "key", in[2].shape, Shape{}, "a scalar");
  return {PlainType(DType::kFloat32, Shape{in[1].shape[0], 3})};
}

void NearNegativesReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::vector<double>& triplets = out[0].values;
  std::ranges::fill(triplets, -1.0);
  RandomStream random(static_cast<uint64_t>(static_cast<int64_t>(in[2].values[0])),
                      static_cast<uint64_t>(attributes.Int("stream")));
  const int64_t rows = in[0].type.shape[0];
  const double alpha = attributes.Float("alpha");
  auto place = triplets.begin();
  int64_t first = 0;
  std::vector<int64_t> near;
  for (const double count : in[1].values) {
    if (!(count >= 0)) continue;
    const int64_t last = count < static_cast<double>(rows - first) ? first + static_cast<int64_t>(count) : rows;
    for (int64_t anchor = first; anchor + 1 < last; ++anchor) {
      for (int64_t positive = anchor + 1; positive < last; ++positive) {
        if (place == triplets.end()) return;
        const double bound = SquaredDistance(in[0], anchor, positive) + alpha;
        near.clear();
        for (int64_t row = 0; row < rows; ++row) {
          const bool is_own = row >= first && row < last;
          if (!is_own && SquaredDistance(in[0], anchor, row) < bound) near.push_back(row);
        }
        if (near.empty()) continue;
        const int64_t negative = near[static_cast<size_t>(random.Below(near.size()))];
        for (const int64_t row : {anchor, positive, negative}) *place++ = static_cast<double>(row);
      }
    }
    first = last;
  }
}

std::vector<OpCase> NearNegativesCases() {
  const auto one = [](const char* name, double alpha) {
    return OpCase{.name = name,
                  .inputs = {Float32({7, 3}), Float32({3}), {DType::kInt64, Shape{}, {}}},
                  .attributes = {{"alpha", alpha}, {"stream", int64_t{3}}},
                  .ranges = {{1, 2, 3}, {2, 7, 7}}};
  };
  return {one("few", 0.2), one("many", 4)};
}

}  // namespace

OpDef NearNegativesOp() {
  return {.name = "near_negatives",
          .doc = "(x [N,D], counts [L], key) -> [L,3]: anchor, positive and negative of L triplets; -1: none.",
          .attributes = {{"alpha", 0.2, "how much farther than the positive a negative may be"},
                         {"stream", {}, "number of the random stream"}},
          .infer = InferNearNegatives,
          .reference = NearNegativesReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kChooses,
          .cases = NearNegativesCases};
}

}  // namespace moka
