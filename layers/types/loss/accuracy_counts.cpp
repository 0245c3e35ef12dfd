// The counts are nodes beside the op, made only where labels are left out.
#include "layers/types/loss/accuracy_counts.h"

#include <algorithm>

#include "graph/term.h"
#include "layers/net/layer_traits.h"

namespace moka {

bool IgnoresLabels(const NetParameter& net, const AccuracyParameter& accuracy) {
  const auto pads = [](const LayerParameter& layer) { return TraitsOf(layer).marks_padding; };
  return accuracy.has_ignore_label() || std::any_of(net.layer().begin(), net.layer().end(), pads);
}

ValueId CountedLabels(const GraphBuilder& b, ValueId label, const Attributes& accuracy) {
  Ints all;
  for (int i = 0; i < b.shape(label).rank(); ++i) all.push_back(i);
  const Term counts = 1 - (Term::Of(label) == accuracy.Int("ignore_label"));
  return b.Reshape(Summed(b, counts, all), Shape{});
}

ValueId CountedLabelsOfClasses(const GraphBuilder& b, ValueId label, const Shape& scores, const Attributes& accuracy) {
  const int64_t axis = (accuracy.Int("axis") + scores.rank()) % scores.rank();
  Attributes mask{{"shape", DimsOf(scores)}, {"axis", axis}};
  if (accuracy.Bool("has_ignore")) {
    mask.Set("has_ignore", true);
    mask.Set("ignore_label", accuracy.Int("ignore_label"));
  }
  Ints others;
  for (int i = 0; i < scores.rank(); ++i) {
    if (i != axis) others.push_back(i);
  }
  const ValueId of_class = b.ReduceSum(b.Add1("label_mask", {label}, mask), others);
  return b.Reshape(of_class, Shape{scores[static_cast<int>(axis)]});
}

}  // namespace moka
