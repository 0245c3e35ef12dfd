// An AnnotatedDatum (SSD's record of an image and its boxes) read in place: the image stays where it is.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace moka {

// Corners as fractions of the image.
struct NormalBox {
  float xmin = 0;
  float ymin = 0;
  float xmax = 0;
  float ymax = 0;

  float Area() const { return xmax < xmin || ymax < ymin ? 0 : (xmax - xmin) * (ymax - ymin); }
};
// Intersection over union.
float Overlap(const NormalBox& a, const NormalBox& b);
// The part of `of` that lies in `in`.
float Coverage(const NormalBox& of, const NormalBox& in);

struct Annotated {
  NormalBox box;
  int32_t group_label = 0;
  int32_t instance_id = 0;
  bool difficult = false;
};

struct AnnotatedRecord {
  std::string_view datum;  // wire bytes of the Datum
  std::vector<Annotated> annotations;
};

// The datum lives as long as `wire`; `record` keeps its capacity. Errors: kBadData saying what is wrong.
void ParseAnnotated(std::string_view wire, AnnotatedRecord& record);

// The bytes of a Datum's seg_label, in place; empty if it has none. Errors: as above.
std::string_view SegLabelOf(std::string_view datum);

}  // namespace moka
