// Names of slots, and the sum of a norm whose parts lie on several ranks.
#include "optim/optimizers/update_slots.h"

#include "core/text.h"
#include "graph/term.h"
#include "layers/ops/ranks/rank_parts.h"

namespace moka {

ValueId SplitNorms::Sum(const GraphBuilder& b, ValueId scalar, const std::string& name) const {
  const ValueId mean =
      b.Add1("mean_over_ranks", {scalar, fence}, {{"key", RankKey(StrCat(name, "/@norm"))}, {"ranks", ranks}});
  return b.Pointwise(Term::Input(0) * static_cast<double>(ranks), {mean});
}

std::string SlotName(std::string_view blob, std::string_view slot) { return StrCat(blob, "/@", slot); }

}  // namespace moka
