// The fields that the layers of this group read alike: bbox_reg_param, the sides of anchors, the shapes of regions.
#pragma once

#include <cmath>
#include <string>

#include "core/text.h"
#include "layers/net/fields.h"

namespace moka {

// A value as [rows,columns,1,1], as the originals have their regions.
inline ValueId FourAxes(const GraphBuilder& b, ValueId x) {
  const Shape shape = b.shape(x);
  return b.Reshape(x, Shape{shape[0], shape.Count(1, shape.rank()), 1, 1});
}

// Adds means and stds. They count only if both are given, four each.
inline void SetOffsets(const LayerBuilder& l, Attributes& attributes) {
  const BBoxRegParameter& p = l.param().bbox_reg_param();
  if (p.bbox_mean_size() == 0 || p.bbox_std_size() == 0) return;
  l.Check(p.bbox_mean_size() == 4 && p.bbox_std_size() == 4, "bbox_reg_param",
          StrCat("bbox_reg_param.bbox_mean and bbox_std must be given four times each, found ", p.bbox_mean_size(),
                 " and ", p.bbox_std_size()));
  Doubles means;
  Doubles stds;
  for (int k = 0; k < 4; ++k) {
    means.push_back(Finite(l, StrCat("bbox_reg_param.bbox_mean[", k, "]"), p.bbox_mean(k)));
    stds.push_back(Finite(l, StrCat("bbox_reg_param.bbox_std[", k, "]"), p.bbox_std(k)));
    l.Check(stds.back() > 0, StrCat("bbox_reg_param.bbox_std[", k, "]"),
            StrCat("bbox_reg_param.bbox_std must be above 0, found ", stds.back()));
  }
  attributes.Set("means", means);
  attributes.Set("stds", stds);
}

// Adds center_bound and size_bound of field_xyr and field_whr.
inline void SetBounds(const LayerBuilder& l, const std::string& message, float xyr, float whr, Attributes& attributes) {
  const double center = Finite(l, message + ".field_xyr", xyr);
  const double size = Finite(l, message + ".field_whr", whr);
  l.Check(center > 0, message + ".field_xyr", StrCat(message, ".field_xyr must be above 0, found ", center));
  l.Check(size >= 1, message + ".field_whr", StrCat(message, ".field_whr must be at least 1, found ", size));
  attributes.Set("center_bound", 1 / center);
  attributes.Set("size_bound", std::log(size));
}

// A list of sides or strides, each at least 1.
inline Doubles SidesOf(const LayerBuilder& l, const std::string& field,
                       const google::protobuf::RepeatedField<uint32_t>& values) {
  Doubles sides;
  for (int i = 0; i < values.size(); ++i) {
    l.Check(values[i] >= 1, StrCat(field, "[", i, "]"), StrCat(field, " must be at least 1, found 0"));
    sides.push_back(values[i]);
  }
  return sides;
}

// One such value.
inline double SideOf(const LayerBuilder& l, const std::string& field, uint32_t value) {
  l.Check(value >= 1, field, StrCat(field, " must be given, at least 1"));
  return value;
}

// Adds the ignore_label of loss_param.
inline void SetIgnoredLabel(const LayerBuilder& l, Attributes& attributes) {
  const LossParameter& p = l.param().loss_param();
  attributes.Set("has_ignore", p.has_ignore_label());
  attributes.Set("ignore_label", int64_t{p.ignore_label()});
}

// Adds nms_threshold and overlap.
inline void SetSuppression(const LayerBuilder& l, const std::string& message, float threshold, const std::string& type,
                           Attributes& attributes) {
  l.Check(type == "IOU" || type == "IOMU" || type == "IOFU", message + ".nms_type",
          StrCat(message, ".nms_type must be IOU, IOMU or IOFU, found \"", Printable(type), "\""));
  attributes.Set("nms_threshold", Finite(l, message + ".iou_thr", threshold));
  attributes.Set("overlap", type);
}

}  // namespace moka
