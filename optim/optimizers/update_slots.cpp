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

ValueId UpdateScalar(Graph& graph, std::string_view input, Updates& updates) {
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.value(id).kind == ValueKind::kInput && graph.value(id).name == input) return id;
  }
  updates.inputs.emplace_back(input);
  return graph.AddInput(std::string(input), {DType::kFloat32, Shape{}, {}});
}

std::string SlotName(std::string_view blob, std::string_view slot) { return StrCat(blob, "/@", slot); }

}  // namespace moka
