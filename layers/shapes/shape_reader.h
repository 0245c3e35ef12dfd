// A layer of a net that could not be built, as a reader of its bottoms: rows say through it what shapes they need.
#pragma once

#include <string>

#include "layers/shapes/shape_needs.h"

namespace moka {

// Lives while the needs that it refers to are asked.
class ShapeReader {
 public:
  ShapeReader(ShapeNeeds& needs, int layer) : needs_(needs), layer_(layer) {}

  const LayerParameter& layer() const { return needs_.net().layer(layer_); }
  int bottom_count() const { return layer().bottom_size(); }
  const std::string& name(int bottom) const { return layer().bottom(bottom); }
  // Null if there is no such bottom, or if it could not be built.
  const Shape* bottom(int i) const { return needs_.KnownBottom(layer(), i); }
  // Whether this very layer could not be built, for another reason than an unknown bottom.
  bool has_failed() const { return needs_.HasFailed(layer_); }
  // The data top, if the bottom is one that may change; else null.
  const DataTop* Changeable(int bottom) const {
    return bottom < bottom_count() ? needs_.Changeable(name(bottom)) : nullptr;
  }

  // ShapeNeeds::Require for a bottom. Requires: bottom < bottom_count().
  bool Require(int bottom, const Shape& shape) const { return needs_.Require(layer_, name(bottom), shape); }
  bool Rebatch(int64_t have, int64_t want) const { return needs_.Rebatch(layer_, have, want); }
  std::string SourceOf(const std::string& blob, bool with_windows = false) const {
    return needs_.SourceOf(layer_, blob, with_windows);
  }
  int MakerOf(const std::string& blob) const { return needs_.MakerOf(layer_, blob); }
  // The bottom that the others go by: known, no data top of its own, of the most axes; null if none is known.
  const Shape* Reference() const;
  // The needs of the whole net.
  ShapeNeeds& needs() const { return needs_; }

 private:
  ShapeNeeds& needs_;
  int layer_;
};

// Needs that rows of several types share.

// Two first bottoms of one count; further ones are weights of that shape.
void NeedEqualCounts(const ShapeReader& reader);
// A label for each position of scores [N,C,..], whose classes lie along `axis`; with `weighs` the third bottom weighs
// each position.
enum class Weighs : uint8_t { kNothing, kPositions };
void NeedLabels(const ShapeReader& reader, int64_t axis, Weighs weighs = Weighs::kNothing);
// A number for each item of the first bottom.
void NeedNumberAnItem(const ShapeReader& reader, int bottom);
// Pictures: a number an item that a layer of pictures reads is a picture, like its layer's first top.
void NeedPictures(const ShapeReader& reader);
// A kernel of so many axes behind the channels has as many under it: where pictures were taken, cubes.
void NeedVolume(const ShapeReader& reader, int axes, int channel_axis);
// x [steps,streams,..] and marks [steps,streams].
void NeedSteps(const ShapeReader& reader);
// Data that was embedded item by item for a layer of steps has streams too, and is no picture.
void NeedStreamsOfWords(const ShapeReader& reader);
// Boxes of YOLO v1: seven numbers for each of side x side squares.
void NeedSquares(const ShapeReader& reader, int64_t side);
// Regions: rows of an item's number and a box.
void NeedRegions(const ShapeReader& reader);

// A negative axis counts from the end.
inline int AxisFromFront(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

}  // namespace moka
