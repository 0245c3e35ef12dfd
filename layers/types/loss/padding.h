// Rows of padding in the nets of MS-CNN and Cascade R-CNN. Where the originals' blobs have as many rows as there are
// regions, Moka's have the most there can be; the rows that are left are -1 in every column: image, label and weights.
// Losses and accuracies over regions leave them out, so that they are what they are in the originals.
#pragma once

#include "layers/net/layer.h"

namespace moka {

// The nets whose labels and weights of -1 may be padding are known by this layer.
inline constexpr const char* kPaddingLayer = "ProposalTarget";
inline bool MayHavePaddedRows(const LayerBuilder& l) { return l.NetHas(kPaddingLayer); }

// Adds has_ignore and ignore_label: loss_param's or accuracy_param's ignore_label, else the padding's.
template <class Parameter>
void SetIgnoredLabel(const LayerBuilder& l, const Parameter& p, Attributes& attributes) {
  attributes.Set("has_ignore", p.has_ignore_label() || MayHavePaddedRows(l));
  attributes.Set("ignore_label", p.has_ignore_label() ? int64_t{p.ignore_label()} : int64_t{-1});
}

}  // namespace moka
