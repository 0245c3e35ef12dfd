#include "layers/front/loss_normalizer.h"

#include <algorithm>

#include "core/log.h"
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/ops/rank_parts.h"

namespace moka {

ValueId CountOfRanks(const LayerBuilder& l, ValueId count) {
  const ValueId own = l.b().Add1("stop_gradient", {count});
  const LossRanks& ranks = l.ranks();
  if (ranks.count == 1) return own;
  if (!ranks.can_meet) {
    if (ranks.warns) {
      LogWarning(StrCat("layer \"", l.param().name(), "\" (", l.param().type(),
                        ") divides by how much of its batch counts, here by each rank's own number: ", ranks.count,
                        " ranks train otherwise than one does"));
    }
    return own;
  }
  const int64_t key = RankKey(StrCat(l.param().name(), "/@count", count));
  return l.b().Add1("mean_over_ranks", {own}, {{"key", key}, {"ranks", ranks.count}});
}

std::string LeastOfRanks(const LayerBuilder& l) {
  return l.ranks().can_meet ? Number(1.0 / static_cast<double>(l.ranks().count)) : std::string("1");
}

ValueId SumOfRanks(const LayerBuilder& l, ValueId sum) {
  return l.ranks().count == 1 ? sum : l.b().Pointwise(StrCat("x0*", l.ranks().count), {sum});
}

ValueId Normalized(const LayerBuilder& l, ValueId sum, const LossCounts& counts,
                   LossParameter::NormalizationMode fallback) {
  const LossParameter& p = l.param().loss_param();
  LossParameter::NormalizationMode mode = fallback;
  if (p.has_normalize()) mode = p.normalize() ? LossParameter::VALID : LossParameter::BATCH_SIZE;
  if (p.has_normalization()) mode = p.normalization();
  const auto divided = [&](int64_t count) { return count <= 1 ? sum : l.b().Pointwise(StrCat("x0/", count), {sum}); };
  switch (mode) {
    case LossParameter::FULL: return divided(counts.positions);
    case LossParameter::BATCH_SIZE: return divided(counts.batch);
    case LossParameter::NONE: return SumOfRanks(l, sum);
    case LossParameter::PRE_FIXED: {
      const double count = Finite(l, "loss_param.pre_fixed_normalizer", p.pre_fixed_normalizer());
      l.Check(count > 0, "loss_param.pre_fixed_normalizer", "pre_fixed_normalizer must be above 0");
      return l.b().Pointwise(StrCat("x0/", Number(count)), {SumOfRanks(l, sum)});
    }
    case LossParameter::VALID: break;
  }
  if (counts.valid == kNoId) return divided(counts.positions);
  return l.b().Pointwise(StrCat("x0/max(x1,", LeastOfRanks(l), ")"), {sum, CountOfRanks(l, counts.valid)});
}

}  // namespace moka
