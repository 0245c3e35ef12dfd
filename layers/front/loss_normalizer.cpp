#include "layers/front/loss_normalizer.h"

#include <algorithm>

#include "core/text.h"
#include "layers/front/fields.h"

namespace moka {

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
    case LossParameter::NONE: return sum;
    case LossParameter::PRE_FIXED: {
      const double count = Finite(l, "loss_param.pre_fixed_normalizer", p.pre_fixed_normalizer());
      l.Check(count > 0, "loss_param.pre_fixed_normalizer", "pre_fixed_normalizer must be above 0");
      return l.b().Pointwise(StrCat("x0/", Number(count)), {sum});
    }
    case LossParameter::VALID: break;
  }
  if (counts.valid == kNoId) return divided(counts.positions);
  return l.b().Pointwise("x0/max(x1,1)", {sum, l.b().Add1("stop_gradient", {counts.valid})});
}

}  // namespace moka
