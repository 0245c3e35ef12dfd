// Reductions. Over the last axes they are the Reduction layer, over the planes of pictures a mean is global Pooling;
// other axes are brought to the end first.
#include <algorithm>
#include <set>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/layer_making.h"

namespace moka {
namespace {

// The axes, sorted; all of them where none are said.
Ints AxesOf(const ImportNode& n) {
  const size_t rank = n.x(0).dims.size();
  const std::optional<Ints> given = ListAt(n, 1, "axes");
  const bool takes_none = n.attributes().Int("noop_with_empty_axes", 0) != 0;
  std::set<int64_t> axes;
  for (const int64_t axis : given.value_or(Ints{})) axes.insert(AxisIn(axis, rank));
  if (!axes.empty()) return {axes.begin(), axes.end()};
  Ints all;
  if (takes_none) return all;
  for (size_t i = 0; i < rank; ++i) all.push_back(static_cast<int64_t>(i));
  return all;
}

Ints Kept(const Ints& dims, const Ints& axes, bool keeps) {
  Ints out;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_reduced = std::ranges::binary_search(axes, static_cast<int64_t>(i));
    if (!is_reduced) out.push_back(dims[i]);
    if (is_reduced && keeps) out.push_back(1);
  }
  return out;
}

LayerParameter ReductionLayer(const std::string& type, int64_t axis) {
  LayerParameter layer = LayerOf("Reduction");
  ReductionParameter& p = *layer.mutable_reduction_param();
  p.set_operation(type == "ReduceMean"                              ? ReductionParameter::MEAN
                  : type == "ReduceL1"                              ? ReductionParameter::ASUM
                  : type == "ReduceL2" || type == "ReduceSumSquare" ? ReductionParameter::SUMSQ
                                                                    : ReductionParameter::SUM);
  p.set_axis(static_cast<int32_t>(axis));
  return layer;
}

// The largest of the last axes: of one row of pixels, by global Pooling.
std::string Largest(ImportNode& n, const std::string& blob, const Ints& outer, int64_t inner) {
  const Ints rows{CountOf(outer), 1, inner};
  LayerParameter layer = LayerOf("Pooling");
  layer.mutable_pooling_param()->set_pool(PoolingParameter::MAX);
  layer.mutable_pooling_param()->set_global_pooling(true);
  return n.Add(layer, {Reshaped(n, blob, rows)});
}

void ReadReduce(ImportNode& n) {
  const std::string& type = n.proto().op_type();
  const Ints x = n.x(0).dims;
  const Ints axes = AxesOf(n);
  const bool keeps = n.attributes().Int("keepdims", 1) != 0;
  std::string blob = n.In(0);
  if (axes.empty()) return GiveBlob(n, blob);
  if (type == "ReduceMean" && x.size() == 4 && axes == Ints{2, 3}) {
    LayerParameter pooling = LayerOf("Pooling");
    pooling.mutable_pooling_param()->set_pool(PoolingParameter::AVE);
    pooling.mutable_pooling_param()->set_global_pooling(true);
    if (keeps) return n.Give(pooling, {blob});
    return GiveReshaped(n, n.Add(pooling, {blob}), Kept(x, axes, false));
  }
  const int64_t first = std::ssize(x) - std::ssize(axes);
  Ints perm;
  for (int64_t i = 0; i < std::ssize(x); ++i) {
    if (!std::ranges::binary_search(axes, i)) perm.push_back(i);
  }
  perm.insert(perm.end(), axes.begin(), axes.end());
  blob = Permuted(n, blob, perm);
  const Ints outer = Kept(x, axes, false);
  if (type == "ReduceMax" || type == "ReduceMin") {
    if (type == "ReduceMin") blob = n.Add(FormulaOf("-x0"), {blob});
    blob = Largest(n, blob, outer, CountOf(x) / std::max<int64_t>(1, CountOf(outer)));
    if (type == "ReduceMin") blob = n.Add(FormulaOf("-x0"), {blob});
    return GiveReshaped(n, blob, Kept(x, axes, keeps));
  }
  const LayerParameter layer = ReductionLayer(type, first);
  const bool is_last = type != "ReduceL2" && !keeps;
  if (is_last) return n.Give(layer, {blob});
  blob = n.Add(layer, {blob});
  if (type == "ReduceL2") blob = n.Add(FormulaOf("sqrt(x0)"), {blob});
  GiveReshaped(n, blob, Kept(x, axes, keeps));
}

}  // namespace

OnnxImportOp ImportReduce() {
  return {.types = {"ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceMax", "ReduceMin"},
          .read = ReadReduce};
}

}  // namespace moka
