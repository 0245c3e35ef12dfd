// Anchors of a region proposal network (Ren et al. 2015): A boxes around each cell of a map [H,W], numbered (h, w, a),
// and the keyed choice of k out of n that its samplers make.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/rng.h"
#include "core/text.h"
#include "layers/ops/boxes.h"
#include "layers/ops/checks.h"

namespace moka {

struct AnchorGrid {
  const Doubles& anchors;  // [A,4], around the cell at the origin
  double stride;
  int64_t height;
  int64_t width;

  int64_t anchor_count() const { return static_cast<int64_t>(anchors.size()) / 4; }
  int64_t Count() const { return anchor_count() * height * width; }
  int64_t Cell(int64_t i) const { return i / anchor_count(); }
  int64_t Anchor(int64_t i) const { return i % anchor_count(); }
  // Offset of channel `channel` of box i, in a map with `channels` channels an anchor.
  size_t Offset(int64_t i, int64_t channel, int64_t channels) const {
    return static_cast<size_t>((Anchor(i) * channels + channel) * height * width + Cell(i));
  }
  Box<double> At(int64_t i) const {
    const int64_t row = Cell(i) / width;
    const double x = static_cast<double>(Cell(i) % width) * stride;
    const double y = static_cast<double>(row) * stride;
    const double* box = anchors.data() + Anchor(i) * 4;
    return {box[0] + x, box[1] + y, box[2] + x, box[3] + y};
  }
};

// Errors: kConfig unless `anchors` holds boxes.
inline void CheckAnchors(std::string_view op, const Attributes& attributes) {
  const size_t count = attributes.Get<Doubles>("anchors").size();
  if (count > 0 && count % 4 == 0) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": anchors must hold four numbers a box, found ", count));
}

// Errors: kConfig unless im_info has rows of at least `columns`: height, width, scale.
inline void CheckImageSize(std::string_view op, const TensorType& im_info, int64_t columns) {
  CheckFloat(op, "im_info", im_info);
  const Shape& shape = im_info.shape;
  if (shape.rank() >= 1 && shape[0] >= 1 && shape.Count(shape.rank() == 1 ? 0 : 1, shape.rank()) >= columns) return;
  throw Error(ErrorKind::kConfig,
              StrCat(op, ": im_info must be [1,3] (height, width, scale), found ", shape.ToString()));
}

// Errors: kConfig unless gt_boxes is [G,5] (x1, y1, x2, y2, class), or [G,5,1,1].
inline void CheckTruth(std::string_view op, const TensorType& gt_boxes) {
  CheckFloat(op, "gt_boxes", gt_boxes);
  const Shape& shape = gt_boxes.shape;
  if (shape.rank() >= 2 && shape.Count(1, shape.rank()) == 5) return;
  throw Error(ErrorKind::kConfig,
              StrCat(op, ": gt_boxes must be [G,5] (x1, y1, x2, y2, class), found ", shape.ToString()));
}

// A row of gt_boxes; rows of class 0 or less are padding.
struct TruthBox {
  int64_t row;
  Box<double> box;
  double label;
};

inline std::vector<TruthBox> TruthBoxes(const std::vector<double>& gt_boxes) {
  std::vector<TruthBox> truth;
  for (size_t i = 0; i + 5 <= gt_boxes.size(); i += 5) {
    const double* row = gt_boxes.data() + i;
    if (row[4] > 0) truth.push_back({static_cast<int64_t>(i / 5), {row[0], row[1], row[2], row[3]}, row[4]});
  }
  return truth;
}

// The box's largest overlap, and with which of `truth` (the first; -1 if there is none at all).
struct BestMatch {
  double overlap = 0;
  int64_t index = -1;
};

inline BestMatch BestOf(const Box<double>& box, const std::vector<TruthBox>& truth) {
  BestMatch best;
  for (size_t g = 0; g < truth.size(); ++g) {
    const double overlap = Overlap(box, truth[g].box, kPixelSide);
    if (best.index < 0 || overlap > best.overlap) best = {overlap, static_cast<int64_t>(g)};
  }
  return best;
}

// `count` of the items, each set equally likely, in their order: those with the smallest random words of (key, stream,
// item), so the choice depends on no order.
inline std::vector<int64_t> Sampled(std::vector<int64_t> items, int64_t count, uint64_t key, uint64_t stream) {
  if (static_cast<int64_t>(items.size()) <= count) return items;
  std::vector<std::pair<uint32_t, int64_t>> drawn;
  drawn.reserve(items.size());
  for (const int64_t item : items) drawn.emplace_back(RandomWord(key, stream, static_cast<uint64_t>(item)), item);
  std::ranges::sort(drawn);
  items.clear();
  for (int64_t i = 0; i < count; ++i) items.push_back(drawn[static_cast<size_t>(i)].second);
  std::ranges::sort(items);
  return items;
}

// The key of this step from the scalar input "random_key".
inline uint64_t KeyOf(const RefTensor& key) { return static_cast<uint64_t>(static_cast<int64_t>(key.values[0])); }

}  // namespace moka
