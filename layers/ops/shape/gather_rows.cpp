// The rows of all ranks, and back: what a layer needs whose outputs are split among the ranks (Krizhevsky, "One weird
// trick for parallelizing convolutional neural networks", arXiv 1404.5997).
#include <algorithm>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"
#include "layers/ops/ranks/rank_parts.h"

namespace moka {
namespace {

constexpr bool kGathers = true;

template <bool kIsGather>
constexpr const char* GatherRowsName() {
  return kIsGather ? "gather_rows" : "scatter_rows";
}

template <bool kIsGather>
std::vector<TensorType> InferGatherRows(const Attributes& attributes, std::span<const TensorType> in) {
  const char* name = GatherRowsName<kIsGather>();
  CheckInputCount(name, in, 1, 1);
  CheckFloat(name, "x", in[0]);
  const auto [rank, ranks] = CheckRank(name, attributes);
  const Shape& x = in[0].shape;
  if (x.rank() != 2 || (!kIsGather && x[0] % ranks != 0)) {
    throw Error(ErrorKind::kConfig, StrCat(name, ": x must be rows", kIsGather ? "" : StrCat(" of ", ranks, " ranks"),
                                           ", as many of each, found ", x.ToString()));
  }
  return {PlainType(in[0].dtype, x.With(0, kIsGather ? x[0] * ranks : x[0] / ranks))};
}

// Those of other ranks are zeros here, and nobody else adds to what goes to this one.
template <bool kIsGather>
void GatherRowsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const auto own = static_cast<std::ptrdiff_t>(std::min(in[0].values.size(), out[0].values.size()));
  const auto from = static_cast<std::ptrdiff_t>(attributes.Int("rank")) * own;
  std::ranges::fill(out[0].values, 0);
  if (kIsGather) {
    std::copy_n(in[0].values.begin(), own, out[0].values.begin() + from);
  } else {
    std::copy_n(in[0].values.begin() + from, own, out[0].values.begin());
  }
}

template <bool kIsGather>
void GatherRowsGradient(GradientContext& c) {
  Attributes attributes = c.attributes();
  attributes.Set("key", attributes.Int("key") + kBackwardKey);
  c.SetDx(0, c.b().Add1(GatherRowsName<!kIsGather>(), {c.dy(0)}, attributes));
}

template <bool kIsGather>
std::vector<OpCase> GatherRowsCases() {
  const auto of = [](int64_t rank, int64_t ranks) {
    return Attributes{{"key", int64_t{4}}, {"rank", rank}, {"ranks", ranks}};
  };
  return {{"one_rank", {Float32({6, 5})}, of(0, 1)}, {"second_of_three", {Float32({6, 5})}, of(1, 3)}};
}

template <bool kIsGather>
OpDef GatherRowsRow(std::string doc) {
  return {.name = GatherRowsName<kIsGather>(),
          .doc = std::move(doc),
          .attributes = RankAttributes(),
          .infer = InferGatherRows<kIsGather>,
          .reference = GatherRowsReference<kIsGather>,
          .gradient = GatherRowsGradient<kIsGather>,
          .is_pure = false,
          .precision = Precision::kKeep32,
          .on_host = on_host::kSplits,
          .cases = GatherRowsCases<kIsGather>};
}

}  // namespace

OpDef GatherRowsOp() {
  return GatherRowsRow<kGathers>(
      "x [n,D] -> y [n*ranks,D]: the rows of all ranks in their order; zeros for the others where there is no "
      "exchange.");
}

OpDef ScatterRowsOp() {
  return GatherRowsRow<!kGathers>(
      "x [n*ranks,D] -> y [n,D]: this rank's rows of the sum of x over all ranks; of x where there is no exchange.");
}

}  // namespace moka
