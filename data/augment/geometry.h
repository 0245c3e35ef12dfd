// Changes of shape as maps of places: from a place of the result to where it was in the picture, as resampling needs,
// and back, as boxes and points need. A picture keeps its size. Places are in pixels: (0, 0) is the picture's upper
// left corner, (0.5, 0.5) the centre of its first pixel.
#pragma once

#include <cstdint>
#include <vector>

#include "data/image/image.h"
#include "data/records/annotated_record.h"

namespace moka {

struct PicturePoint {
  double x = 0;
  double y = 0;
};

// (x, y) becomes (xx x + xy y + x0, yx x + yy y + y0).
struct AffineMap {
  double xx = 1;
  double xy = 0;
  double x0 = 0;
  double yx = 0;
  double yy = 1;
  double y0 = 0;

  PicturePoint operator()(const PicturePoint& p) const { return {xx * p.x + xy * p.y + x0, yx * p.x + yy * p.y + y0}; }
  // Requires: the map is no projection onto a line.
  AffineMap Inverse() const;
};

// Shears, then scales, turns and moves about a centre, as torchvision's affine does.
struct AffineParts {
  double degrees = 0;  // clockwise as seen
  double dx = 0;       // pixels
  double dy = 0;
  double scale = 1;
  double shear_x = 0;  // tangents: (x, y) goes to (x - shear_x y, y), and that (x', y') to (x', y' - shear_y x')
  double shear_y = 0;
};
// The map from the result to the picture.
AffineMap AffineAbout(const PicturePoint& center, const AffineParts& parts);

// A pixel (x, y) of the result comes from (x + dx[y, x], y + dy[y, x]).
struct Displacement {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<float> dx = {};  // [height, width], pixels
  std::vector<float> dy = {};
};

// A value: an affine map, or a view of a displacement that must outlive it.
class PictureMap {
 public:
  explicit PictureMap(const AffineMap& source) : source_(source), result_(source.Inverse()) {}
  explicit PictureMap(const Displacement& field) : field_(&field) {}

  // Where a place of the result was in the picture, and where a place of the picture is in the result. Between the
  // pixels of a displacement the neighbours' are interpolated; beyond them the nearest one's count.
  PicturePoint SourceOf(const PicturePoint& place) const;
  PicturePoint ResultOf(const PicturePoint& place) const;

  // Bilinear between the centres of four pixels; what comes from outside has the value `fill` in all channels.
  void MovePicture(uint8_t fill, Image& picture, Image& scratch) const;
  // The nearest pixel: labels are not mixed. Requires: 1 channel.
  void MoveMask(uint8_t outside, Image& mask, Image& scratch) const;
  // The bounds of where a box's border goes, as fractions of the picture, beyond it too.
  NormalBox BoundsOf(const NormalBox& box, int64_t width, int64_t height) const;

 private:
  AffineMap source_;
  AffineMap result_;
  const Displacement* field_ = nullptr;
};

}  // namespace moka
