// Reduction of one axis by parts, of yjxiong's Caffe (temporal segment networks: snippets of a video, Wang et al.,
// arXiv 1608.00859; temporal pyramids). Level n takes n^2 consecutive elements; pos takes the diagonal of two axes.
#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/maths/reduction.h"

namespace moka {
namespace {

constexpr std::string_view kReduction = "batch_reduction_param.reduction_param";

// Elements of the axis in each part; one part of all of it by default.
Ints PartSizes(const LayerBuilder& l, int64_t size) {
  const BatchReductionParameter& p = l.param().batch_reduction_param();
  if (p.level_size() == 0 || (p.level_size() == 1 && p.level(0) == 1)) return {size};
  Ints sizes;
  Size total = 0;
  for (int i = 0; i < p.level_size(); ++i) {
    const std::string field = StrCat("batch_reduction_param.level[", i, "]");
    l.Check(p.level(i) >= 1, field, StrCat(field, " must be at least 1, found ", p.level(i)));
    sizes.push_back(int64_t{p.level(i)} * p.level(i));
    total += sizes.back();
  }
  l.Check(
      total == size, "batch_reduction_param.level",
      StrCat("the squares of the levels add up to ", total.value(), " but the axis reduced has ", size, " elements"));
  return sizes;
}

// x [outer,n,n,inner] -> [outer,n,inner], its diagonal: but for the last element, the first column of [n-1,n+1].
ValueId Diagonal(const GraphBuilder& b, ValueId x) {
  const Shape shape = b.shape(x);
  const int64_t n = shape[1];
  if (n == 1) return b.Reshape(x, {shape[0], 1, shape[3]});
  const auto parts = b.Add("slice", {b.Reshape(x, {shape[0], n * n, shape[3]})},
                           {{"axis", int64_t{1}}, {"sizes", Ints{n * n - 1, 1}}});
  const ValueId rows = b.Reshape(parts[0], {shape[0], n - 1, n + 1, shape[3]});
  const ValueId first = b.Add("slice", {rows}, {{"axis", int64_t{2}}, {"sizes", Ints{1, n}}})[0];
  return b.Add1("concat", {b.Reshape(first, {shape[0], n - 1, shape[3]}), parts[1]}, {{"axis", int64_t{1}}});
}

// x [outer,size,inner] -> [outer,1,inner].
ValueId Reduced(const LayerBuilder& l, ValueId x) {
  const ReductionParameter& p = l.param().batch_reduction_param().reduction_param();
  if (p.operation() == ReductionParameter::TOPK) return TopKMean(l, StrCat(kReduction, ".k"), x, 1, p.k());
  const bool is_mean = p.operation() == ReductionParameter::MEAN;
  l.Check(is_mean || p.operation() == ReductionParameter::SUM, StrCat(kReduction, ".operation"),
          "BatchReduction has the operations SUM, MEAN and TOPK");
  const Term each = Term::Of(x);
  return Summed(l.b(), is_mean ? each * Decimal(1 / static_cast<double>(l.b().shape(x)[1])) : each, {1});
}

void BuildBatchReduction(LayerBuilder& l) {
  const BatchReductionParameter& p = l.param().batch_reduction_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, StrCat(kReduction, ".axis"), p.reduction_param().axis(), x);
  const Ints sizes = PartSizes(l, x[axis]);
  const bool is_topk = p.reduction_param().operation() == ReductionParameter::TOPK;
  l.Check(!is_topk || p.level_size() <= 1, "batch_reduction_param.level", "TOPK works with one level only");
  l.Check(!p.pos() || (p.level_size() <= 1 && !is_topk), "batch_reduction_param.pos",
          "pos works with one level, and SUM or MEAN");
  const int next = axis + (p.pos() ? 2 : 1);
  l.Check(!p.pos() || (next <= x.rank() && x[axis] == x[axis + 1]), "batch_reduction_param.pos",
          StrCat("pos reduces the diagonal of two equal axes, ", axis, " and ", axis + 1, ", of the bottom ",
                 x.ToString()));
  const Shape outer = Part(x, 0, axis);
  const Shape inner = Part(x, next, x.rank());
  ValueId rows = kNoId;
  if (p.pos()) {
    rows = Diagonal(b, b.Reshape(l.bottom(0), {outer.Count(), x[axis], x[axis], inner.Count()}));
  } else {
    rows = b.Reshape(l.bottom(0), {outer.Count(), x[axis], inner.Count()});
  }
  std::vector<ValueId> parts{rows};
  if (sizes.size() > 1) parts = b.Add("slice", {rows}, {{"axis", int64_t{1}}, {"sizes", sizes}});
  for (ValueId& part : parts) part = Reduced(l, part);
  const ValueId y = parts.size() == 1 ? parts[0] : b.Add1("concat", parts, {{"axis", int64_t{1}}});
  const bool is_whole = p.level_size() == 0 || (p.level_size() == 1 && p.level(0) == 1);
  const Shape middle = is_whole ? Shape{} : Shape{static_cast<int64_t>(parts.size())};
  l.SetTop(0, b.Reshape(y, Joined(Joined(outer, middle), inner)));
}

}  // namespace

LayerDef BatchReductionLayer() {
  return {.type = "BatchReduction", .build = BuildBatchReduction, .params = {"batch_reduction_param"}};
}

}  // namespace moka
