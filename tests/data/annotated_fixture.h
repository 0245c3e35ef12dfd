// Records with boxes, and the fields of layers that read them.
#pragma once

#include "data/transform/box_sampler.h"
#include "proto/text/text_format.h"
#include "tests/data/data_fixture.h"

namespace moka {

inline AnnotatedDatum RecordOf(const std::vector<Annotated>& boxes, int height = 20, int width = 40, int seed = 0) {
  AnnotatedDatum record;
  *record.mutable_datum() = RawDatum(3, height, width, seed, 7);
  record.set_type(AnnotatedDatum::BBOX);
  for (const Annotated& a : boxes) {
    AnnotationGroup& group = *record.add_annotation_group();
    group.set_group_label(a.group_label);
    Annotation& annotation = *group.add_annotation();
    annotation.set_instance_id(a.instance_id);
    NormalizedBBox& box = *annotation.mutable_bbox();
    box.set_xmin(a.box.xmin);
    box.set_ymin(a.box.ymin);
    box.set_xmax(a.box.xmax);
    box.set_ymax(a.box.ymax);
    box.set_difficult(a.difficult);
  }
  return record;
}

inline const Annotated kLeft{{0.125F, 0.25F, 0.5F, 0.75F}, 3, 1, true};
inline const Annotated kRight{{0.5F, 0, 1, 1}, 2, 4, false};

template <class Message>
Message Parsed(const std::string& text) {
  Message message;
  ParseText(text, "param", message);
  return message;
}

inline TransformationParameter Fields(const std::string& text) { return Parsed<TransformationParameter>(text); }
inline AnnotatedDataParameter Samplers(const std::string& text) { return Parsed<AnnotatedDataParameter>(text); }

}  // namespace moka
