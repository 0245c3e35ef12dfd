// The inputs of multibox_match, image by image: what its reference and its kernel share. Keeps its memory from batch to
// batch; Match is const, so images may be shared out among threads, each with a matcher of its own.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "layers/forks/ssd/ops/multibox.h"

namespace moka {

class MultiboxBatch {
 public:
  // Requires: settings and shapes that the op's infer accepts.
  MultiboxBatch(const MultiboxSettings& settings, std::span<const Shape> shapes);

  const MultiboxSettings& settings() const { return s_; }
  int64_t items() const { return items_; }
  int64_t priors() const { return priors_; }

  // Reads priors and ground truth. Rows with a label that is no class are left out and named by TakeFault.
  void Read(std::span<const Reals> inputs);
  // Writes the targets of image i into its part of the whole outputs; returns the number of matches.
  int64_t Match(MultiboxMatcher& matcher, int64_t i, const MultiboxTargets& targets) const;
  // The first bad row of the last Read, once; empty if there was none.
  std::string TakeFault();

 private:
  // Whether the label is a class of an object; two classes know only one object, whatever its label (RefineDet).
  bool AcceptLabel(int64_t& label) const;

  MultiboxSettings s_;
  int64_t items_ = 0;
  int64_t priors_ = 0;
  int64_t rows_ = 0;
  std::vector<Reals> inputs_;
  std::vector<Box> boxes_;
  std::vector<BoxCode> variances_;
  std::vector<TruthRow> truth_;  // by image, within an image in the order of the rows
  std::vector<size_t> first_;    // of each image in truth_, and the end
  int64_t bad_row_ = -1;
  double bad_label_ = 0;
};

}  // namespace moka
