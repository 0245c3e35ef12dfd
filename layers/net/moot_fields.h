// Fields that a layer reads under a condition that does not hold: k of an LRN within a channel, a bias_filler without a
// bias. They are found, not listed: a field is moot if the layer, built by itself on bottoms of these shapes, comes out
// the same in both phases whatever the field's value is.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

struct MootField {
  std::string path;  // "lrn_param.k"
  std::string why;   // "changes nothing while lrn_param.norm_region is WITHIN_CHANNEL"
};

// Looks at a layer that builds; one without bottoms has none, as the data room reads its fields. Fields that
// UnreadNetFields speaks of, or that are read elsewhere than in a graph, are left out, as are others than `only`
// (paths) where that is given.
std::vector<MootField> MootFieldsOf(const LayerParameter& layer, std::span<const Shape> bottoms,
                                    const std::set<std::string>* only = nullptr);

// A layer with the shapes of its bottoms.
struct ShapedLayer {
  const LayerParameter* layer;
  std::vector<Shape> bottoms;
};
// A sentence for each kind of moot field, at its first place, with how many layers have it. Layers that differ in
// numbers and sizes alone are looked at once if the first of them has none.
std::vector<std::string> MootNetFields(std::span<const ShapedLayer> layers);

}  // namespace moka
