// Files that say which objects a picture shows, as SSD's datasets have them: VOC's XML, COCO's JSON cut into a file a
// picture, and lines of text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

class AnnotatedDatum;

// Labels of class names, from a LabelMap in text. Of two items with one name the later counts, unless they are checked.
// Errors: kNoInput; kBadData for a file without items and, with `check`, for a name given twice.
enum class LabelMapCheck { kNone, kUniqueNames };
std::map<std::string, int32_t> ReadLabelMap(const std::filesystem::path& path, LabelMapCheck check);

enum class AnnotationFormat {
  kXml,   // <annotation> with <object>s of <name>, <difficult> and <bndbox>
  kJson,  // {"image": {"height", "width"}, "annotation": [{"category_id", "bbox": [x, y, w, h], "iscrowd"}]}
  kText,  // lines "label xmin ymin xmax ymax"
};
// "xml", "json" or "txt". Errors: kUsage.
AnnotationFormat AnnotationFormatNamed(std::string_view name);

struct AnnotatedPicture {
  int64_t width = 0;  // pixels
  int64_t height = 0;
};
// Appends the objects to `record`, those of a label in one group and numbered from 0, their corners as fractions of the
// picture: of the size the file states, or `picture` where it states none. Boxes that reach outside and sizes that are
// not the picture's are taken as they are and told in `warnings`. Errors: kBadData saying what is wrong (the caller
// adds the file's name).
void ReadAnnotations(std::string_view text, AnnotationFormat format, const std::map<std::string, int32_t>& labels,
                     const AnnotatedPicture& picture, AnnotatedDatum& record, std::vector<std::string>& warnings);

}  // namespace moka
