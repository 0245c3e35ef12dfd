// How many labels the shares of an Accuracy layer are of: what means over batches and ranks are weighed by.
#pragma once

#include "graph/graph.h"
#include "proto/moka.pb.h"

namespace moka {

// Whether labels may be left out: those of an ignore_label, or -1 in nets with a layer that marks padding. A layer
// that is built knows whether its own labels are made of such rows (LayerBuilder::IsPadded); this asks before.
bool IgnoresLabels(const NetParameter& net, const AccuracyParameter& accuracy);

// Returns the number of labels that count in an op `accuracy` with these attributes (axis, has_ignore, ignore_label), a
// scalar. Requires: some are ignored.
ValueId CountedLabels(const GraphBuilder& b, ValueId label, const Attributes& accuracy);
// The same of each class [K]; `scores` is the shape of the op's first input.
ValueId CountedLabelsOfClasses(const GraphBuilder& b, ValueId label, const Shape& scores, const Attributes& accuracy);

}  // namespace moka
