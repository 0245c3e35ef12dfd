// Triplets of a batch: every pair of items of one label (an item with itself where it is alone), each with a negative
// that is drawn, first its label among all, then the item, until the label is another one and, with semi_hard, the item
// is farther from the anchor than the positive; after 2 N draws without luck the positive is the negative too (FaceNet,
// Schroff et al., arXiv 1503.03832; the drawing is hizhangp's triplet sampling layer's). The indices have room for
// N (N - 1) triplets, or 1 for a batch of one; -1 stands where there is none.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/rng.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/metric_learning/ops/rows.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferSampleTriplets(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("sample_triplets", in, 3, 3);
  CheckFloat("sample_triplets", "x", in[0]);
  CheckFloat("sample_triplets", "label", in[1]);
  const Shape& x = in[0].shape;
  if (x.rank() != 2 || x.Count() < 1) {
    throw Error(ErrorKind::kConfig, StrCat("sample_triplets: x must be [N,D], found ", x.ToString()));
  }
  CheckShape("sample_triplets", "label", in[1].shape, Shape{x[0]}, "one a row of x");
  CheckShape("sample_triplets", "key", in[2].shape, Shape{}, "a scalar");
  const Shape index{(Size(x[0]) * std::max<int64_t>(x[0] - 1, 1)).value()};
  const TensorType type = PlainType(DType::kFloat32, index);
  return {type, type, type};
}

// The items of each label, the labels in the order in which they first appear.
std::vector<std::vector<int64_t>> ItemsByLabel(const std::vector<double>& labels, std::vector<size_t>& group_of) {
  std::map<double, size_t> places;
  std::vector<std::vector<int64_t>> groups;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double label = std::isnan(labels[i]) ? -1 : labels[i];  // a map needs an order
    const auto [place, is_new] = places.try_emplace(label, groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(static_cast<int64_t>(i));
    group_of.push_back(place->second);
  }
  return groups;
}

int64_t SampleTripletsDrawn(RandomStream& random, const std::vector<int64_t>& items) {
  return items[static_cast<size_t>(random.Below(items.size()))];
}

void SampleTripletsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  for (RefTensor& y : out) std::ranges::fill(y.values, -1.0);
  std::vector<size_t> group_of;
  const std::vector<std::vector<int64_t>> groups = ItemsByLabel(in[1].values, group_of);
  RandomStream random(static_cast<uint64_t>(static_cast<int64_t>(in[2].values[0])),
                      static_cast<uint64_t>(attributes.Int("stream")));
  const int64_t count = in[0].type.shape[0];
  const bool is_semi_hard = attributes.Bool("semi_hard");
  size_t row = 0;
  for (int64_t anchor = 0; anchor < count; ++anchor) {
    const size_t own = group_of[static_cast<size_t>(anchor)];
    for (const int64_t positive : groups[own]) {
      if (positive == anchor && groups[own].size() > 1) continue;
      int64_t negative = groups.size() > 1 ? positive : SampleTripletsDrawn(random, groups[own]);
      const double near = SquaredDistance(in[0], anchor, positive);
      for (int64_t draw = 1; draw < 2 * count && groups.size() > 1; ++draw) {
        const size_t group = static_cast<size_t>(random.Below(groups.size()));
        const int64_t item = SampleTripletsDrawn(random, groups[group]);
        if (group == own || (is_semi_hard && !(near < SquaredDistance(in[0], anchor, item)))) continue;
        negative = item;
        break;
      }
      out[0].values[row] = static_cast<double>(anchor);
      out[1].values[row] = static_cast<double>(positive);
      out[2].values[row++] = static_cast<double>(negative);
    }
  }
}

std::vector<OpCase> SampleTripletsCases() {
  const auto one = [](const char* name, int64_t items, double labels, bool semi_hard) {
    return OpCase{.name = name,
                  .inputs = {Float32({items, 3}), Float32({items}), {DType::kInt64, Shape{}, {}}},
                  .attributes = {{"semi_hard", semi_hard}, {"stream", int64_t{3}}},
                  .ranges = {{1, 0, labels}, {2, 7, 7}}};
  };
  return {one("three_labels", 7, 2, true), one("one_label", 4, 0, true), one("any_negative", 6, 3, false),
          one("one_item", 1, 0, true)};
}

}  // namespace

OpDef SampleTripletsOp() {
  return {.name = "sample_triplets",
          .doc =
              "(x [N,D], label [N], key) -> anchors, positives, negatives [N (N - 1) or 1]: rows of x, -1 where there "
              "is no triplet.",
          .attributes = {{"semi_hard", true, "whether a negative must be farther than the positive"},
                         {"stream", {}, "number of the random stream"}},
          .infer = InferSampleTriplets,
          .reference = SampleTripletsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kChooses,
          .cases = SampleTripletsCases};
}

}  // namespace moka
