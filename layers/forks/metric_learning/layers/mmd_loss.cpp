// Multiple-kernel maximum mean discrepancy of two sets of features (Deep Adaptation Networks, Long et al., arXiv
// 1502.02791), from pairs that are drawn anew in each run. The original draws other pairs for its gradient than for its
// value; here they are the same.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

constexpr int64_t kMaxItems = 1 << 14;
constexpr uint32_t kMaxKernels = 64;

// `count` row numbers below `rows`, and others beside them that differ wherever there are two rows.
std::pair<ValueId, ValueId> Draw(LayerBuilder& l, int64_t count, int64_t rows, uint64_t stream) {
  const ValueId zeros = l.b().Full({count}, 0);
  const auto draw = [&](uint64_t k) {
    const Term drawn = Rand(Term::Of(l.RandomKey()), static_cast<double>(k));
    return Computed(l.b(), Min(Floor(Term::Of(zeros) + drawn * rows), rows - 1));
  };
  const ValueId first = draw(stream);
  const ValueId other = draw(stream + 1);
  const Term next = Select(Term::Of(first) == Term::Of(other), Term::Of(other) + 1, Term::Of(other));
  const ValueId second = Computed(l.b(), Select(next >= rows, 0, next));
  return {first, second};
}

// The mean squared distance of different items of both sets, as 1 / width of the middle kernel; no gradient.
ValueId Gamma(LayerBuilder& l, ValueId all, int64_t count, int64_t length) {
  const GraphBuilder& b = l.b();
  const ValueId rows = Constant(l, all);
  // sum over pairs of |a - b|^2 = 2 n sum |a|^2 - 2 |sum a|^2.
  const ValueId squares = SumOf(l, "x0*x0", {rows});
  const ValueId sums = b.ReduceSum(rows, {0});
  const ValueId whole = SumOf(l, "x0*x0", {b.Reshape(sums, {1, length})});
  const double n = static_cast<double>(count);
  const Term pairs = Decimal(2 * n) * Term::Of(squares) - 2 * Term::Of(whole);
  const ValueId now = Computed(b, Select(pairs > 0, Decimal(n * n - n) / pairs, 0));
  if (!l.param().mmd_param().fix_gamma()) return now;
  const ValueId kept = l.AddKept("gamma", {});
  const ValueId fixed = b.Pointwise("select(eq(x0,0),x1,x0)", {kept, now});
  l.AssignKept(kept, fixed);
  return fixed;
}

void BuildMmdLoss(LayerBuilder& l) {
  const MMDParameter& p = l.param().mmd_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const Shape t = l.shape(1);
  l.Check(x.rank() >= 1 && t.rank() >= 1 && x[0] >= 2 && t[0] >= 2 && x[0] <= kMaxItems && t[0] <= kMaxItems &&
              x.Count() / x[0] == t.Count() / t[0],
          "bottom[1]",
          StrCat("bottoms ", x.ToString(), " and ", t.ToString(), " must have 2 to ", kMaxItems,
                 " items of one number of features"));
  l.Check(p.kernel_num() >= 1 && p.kernel_num() <= kMaxKernels, "mmd_param.kernel_num",
          StrCat("kernel_num must be from 1 to ", kMaxKernels, ", found ", p.kernel_num()));
  const double ratio = Finite(l, "mmd_param.kernel_mul", p.kernel_mul());
  l.Check(ratio > 0, "mmd_param.kernel_mul", StrCat("kernel_mul must be above 0, found ", ratio));
  const int64_t length = x.Count() / x[0];
  const int64_t count = std::max(x[0], t[0]);
  const ValueId source = b.Reshape(l.bottom(0), {x[0], length});
  const ValueId target = b.Reshape(l.bottom(1), {t[0], length});
  const ValueId gamma = Gamma(l, b.Add1("concat", {source, target}, {{"axis", int64_t{0}}}), x[0] + t[0], length);
  const uint64_t stream = RandomStreamOf(l) / 4 * 4;
  const auto [s1, s2] = Draw(l, count, x[0], stream);
  const auto [t1, t2] = Draw(l, count, t[0], stream + 2);
  const auto rows = [&](ValueId set, ValueId index) { return b.Add1("reindex", {set, index}); };
  // The sum of the kernels of each pair of rows: [count,1].
  const auto kernels = [&](const Term& square) {
    Term sum = 0;
    for (uint32_t i = 0; i < p.kernel_num(); ++i) {
      const double scale = std::pow(ratio, static_cast<double>(i) - static_cast<double>(p.kernel_num() / 2));
      const Term kernel = Exp(-square * Term::Of(gamma) * Decimal(scale));
      sum = i == 0 ? kernel : sum + kernel;
    }
    return sum;
  };
  const auto pair = [&](ValueId a, ValueId c) {
    const ValueId square = b.Add1("reduce_sum", {a, c}, {{"expr", std::string("(x0-x1)*(x0-x1)")}, {"axes", Ints{1}}});
    return Computed(b, kernels(Term::Of(square)));
  };
  const ValueId a1 = rows(source, s1);
  const ValueId a2 = rows(source, s2);
  const ValueId c1 = rows(target, t1);
  const ValueId c2 = rows(target, t2);
  const ValueId sum = SumOf(l, "x0+x1-x2-x3", {pair(a1, a2), pair(c1, c2), pair(a1, c2), pair(a2, c1)});
  // The value is the sum over the pairs, the gradient that of their mean.
  const Term pair_sum = Term::Of(sum);
  const Term fixed = Term::Of(Constant(l, sum));
  l.SetTop(0, fixed + (pair_sum - fixed) / count);
  l.NoteUnequal("draws pairs among a batch, and a rank has the pairs of its part only");
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef MmdLossLayer() {
  return {.type = "MMDLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildMmdLoss,
          .traits = {.is_loss = true},
          .params = {"mmd_param"}};
}

}  // namespace moka
