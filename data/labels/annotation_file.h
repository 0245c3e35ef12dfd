// Files that say which objects a picture shows, as SSD's datasets have them: VOC's XML, COCO's JSON cut into a file a
// picture, and lines of text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/labels/record_warning.h"

namespace moka {

class AnnotatedDatum;

// The limit for the file of one picture: parsed, it takes many times as much memory.
inline constexpr int64_t kAnnotationLimitBytes = int64_t{8} << 20;

enum class AnnotationFormat {
  kXml,   // <annotation> with <object>s of <name>, <difficult> and <bndbox>
  kJson,  // {"image": {"height", "width"}, "annotation": [{"category_id", "bbox": [x, y, w, h], "iscrowd"}]}
  kYolo,  // lines "class x y width height": a box's centre and size as parts of the picture's; class k has label k + 1
  kText,  // lines "label xmin ymin xmax ymax"; with a label map they must have its labels
};
// "xml", "json" or "txt". Errors: kUsage.
AnnotationFormat AnnotationFormatNamed(std::string_view name);

struct PictureSize {
  int64_t width = 0;  // pixels
  int64_t height = 0;
};
// Corners in pixels.
struct PixelBox {
  double xmin = 0;
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;

  // "10 20 30 40".
  std::string ToText() const;
};
struct AnnotatedObject {
  int32_t label = 0;
  PixelBox box;
  bool is_difficult = false;  // or COCO's crowd
};
struct AnnotatedObjects {
  PictureSize size;  // that the boxes are measured in: the one that the file states, or `picture` where it states none
  std::vector<AnnotatedObject> objects;  // in the file's order
};
// The warning of a box that reaches outside its picture, called `name`.
RecordWarning ReachesOutside(std::string_view name, const PictureSize& size);
// Boxes that reach outside and sizes that are not the picture's are taken as they are and told in `warnings`. Errors:
// kBadData saying what is wrong (the caller adds the file's name).
AnnotatedObjects ReadObjects(std::string_view text, AnnotationFormat format,
                             const std::map<std::string, int32_t>& labels, const PictureSize& picture,
                             RecordWarnings& warnings);
// Calls `read`; its errors and the warnings that it adds come to begin with the file's name.
void InFile(const std::string& file, RecordWarnings& warnings, const std::function<void()>& read);
// The names of the classes of an XML file's objects. Errors: as above.
std::set<std::string> ClassesInXml(std::string_view text);
// Appends the objects to `record`, those of a label in one group and numbered from 0, their corners as fractions of the
// size they are measured in. Errors: as above.
void ReadAnnotations(std::string_view text, AnnotationFormat format, const std::map<std::string, int32_t>& labels,
                     const PictureSize& picture, AnnotatedDatum& record, RecordWarnings& warnings);

}  // namespace moka
