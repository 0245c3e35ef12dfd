// Steps as lines of text, and all that is known of one layer's.
#include "graph/program_report.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace moka {

std::string StepLine(const StepReport& step, size_t i) {
  return StrCat(step.is_constant ? "constant " : "step ", i, " ", Printable(step.layer), " ", step.op,
                step.pass.empty() ? "" : " (" + step.pass + ")", " ", step.kernel,
                step.implementation.empty() ? "" : ":" + step.implementation, " ", step.types, "\n");
}

std::string ExplainLayer(std::span<const StepReport> steps, std::string_view layer) {
  std::string s;
  std::vector<std::string> layers;
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepReport& step = steps[i];
    layers.insert(layers.end(), step.layers.begin(), step.layers.end());
    if (std::ranges::find(step.layers, layer) == step.layers.end()) continue;
    s += StepLine(step, i);
    if (step.op == "reorder") s += "    a reorder: its reader wants another layout\n";
    if (step.layers.size() > 1) s += StrCat("    joins layers ", Printable(Join(step.layers, ", ")), "\n");
    for (const std::string& refusal : step.refusals) s += StrCat("    refused: ", Printable(refusal), "\n");
  }
  if (!s.empty()) return s;
  throw Error(ErrorKind::kUsage, {}, StrCat("no step belongs to a layer \"", layer, "\""), DidYouMean(layer, layers));
}

}  // namespace moka
