// The orders in which a net's layers read their records: which are alike, and which are each their own.
#pragma once

#include <set>
#include <string>

#include "proto/moka.pb.h"

namespace moka {

class OrderNames {
 public:
  // Returns the name that the layer's order is drawn by. Layers that read records have that of the first, so that those
  // of as many records are shuffled, skipped, cropped and mirrored alike: records with one number meet in one batch, as
  // images and their label maps must. A layer that is told apart from one before by nothing but its name and tops would
  // give the same once more; its order is its own, as the two towers of a Siamese net want it.
  const std::string& Of(const LayerParameter& layer);
  // Whether the layer is one of the second kind.
  bool IsAgain(const std::string& layer) const { return again_.contains(layer); }

 private:
  std::string first_;
  std::set<std::string> fields_;  // of the layers so far, but for their names and tops
  std::set<std::string> again_;
  std::set<std::string> names_;
};

}  // namespace moka
