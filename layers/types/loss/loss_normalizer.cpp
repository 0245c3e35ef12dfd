// Each normalisation is a division in the graph. Where labels decide the count it is the mean over ranks, so that
// several ranks agree with one on the whole batch.
#include "layers/types/loss/loss_normalizer.h"

#include <algorithm>

#include "layers/net/fields.h"

namespace moka {

ValueId Normalized(const LayerBuilder& l, ValueId sum, const LossCounts& counts,
                   LossParameter::NormalizationMode fallback) {
  const LossParameter& p = l.param().loss_param();
  LossParameter::NormalizationMode mode = fallback;
  if (p.has_normalize()) mode = p.normalize() ? LossParameter::VALID : LossParameter::BATCH_SIZE;
  if (p.has_normalization()) mode = p.normalization();
  const auto divided = [&](int64_t count) { return count <= 1 ? sum : Computed(l.b(), Term::Of(sum) / count); };
  switch (mode) {
    case LossParameter::FULL: return divided(counts.positions);
    case LossParameter::BATCH_SIZE: return divided(counts.batch);
    case LossParameter::NONE: return SumOfRanks(l, sum);
    case LossParameter::PRE_FIXED: {
      const double count = Finite(l, "loss_param.pre_fixed_normalizer", p.pre_fixed_normalizer());
      l.Check(count > 0, "loss_param.pre_fixed_normalizer", "pre_fixed_normalizer must be above 0");
      return SumOfRanks(l, Computed(l.b(), Term::Of(sum) / Decimal(count)));
    }
    case LossParameter::VALID: break;
  }
  if (counts.valid == kNoId) return divided(counts.positions);
  return OverCount(l, sum, counts.valid);
}

ValueId SumOfRanks(const LayerBuilder& l, ValueId sum) {
  return l.ranks() == 1 ? sum : Computed(l.b(), Term::Of(sum) * l.ranks());
}

ValueId OverCount(const LayerBuilder& l, ValueId sum, ValueId count, std::string_view use) {
  const Term least = Decimal(1 / static_cast<double>(l.ranks()));
  return Computed(l.b(), Term::Of(sum) / Max(Term::Of(l.MeanOverRanks(count, use)), least));
}

}  // namespace moka
