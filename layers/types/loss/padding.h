// Rows of padding (LayerBuilder::MarkPadded). Where the blobs of other Caffes have as many rows as there are regions,
// Moka's have the most there can be; the rows left over are -1 in every column: image, label and weights. Losses
// and accuracies over regions leave them out, so that they are what they are there.
#pragma once

#include "layers/net/layer.h"

namespace moka {

// Adds has_ignore and ignore_label for the labels, bottom 1: loss_param's or accuracy_param's ignore_label, else the
// padding's.
template <class Parameter>
void SetIgnoredLabel(const LayerBuilder& l, const Parameter& p, Attributes& attributes) {
  attributes.Set("has_ignore", p.has_ignore_label() || l.IsPadded(l.bottom(1)));
  attributes.Set("ignore_label", p.has_ignore_label() ? int64_t{p.ignore_label()} : int64_t{-1});
}

}  // namespace moka
