// The file of a picture's objects: the first byte says whether it is XML, JSON, text, or XML whose classes are asked
// for.
#include <cmath>

#include "data/labels/annotation_file.h"
#include "proto/moka.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {
namespace {

void ReadAs(AnnotationFormat format, std::string_view text) {
  static const std::map<std::string, int32_t> labels = {{"cat", 1}, {"dog", 2}, {"3", 3}};
  RecordWarnings warnings;
  const AnnotatedObjects found = ReadObjects(text, format, labels, {.width = 40, .height = 30}, warnings);
  Require(found.size.width > 0 && found.size.height > 0, "boxes are measured in a size");
  AnnotatedDatum record;
  ReadAnnotations(text, format, labels, {.width = 40, .height = 30}, record, warnings);
  int objects = 0;
  for (const AnnotationGroup& group : record.annotation_group()) objects += group.annotation_size();
  Require(objects == static_cast<int>(found.objects.size()), "every object is in one group");
}

}  // namespace

FuzzTarget AnnotationFuzz() {
  return {"annotation", [](std::string_view text) {
            if (text.empty()) return;
            const char what = text.front();
            text.remove_prefix(1);
            if (what == 'x') return ReadAs(AnnotationFormat::kXml, text);
            if (what == 'j') return ReadAs(AnnotationFormat::kJson, text);
            if (what == 't') return ReadAs(AnnotationFormat::kText, text);
            if (what == 'y') return ReadAs(AnnotationFormat::kYolo, text);
            ClassesInXml(text);
          }};
}

}  // namespace moka
