// Integer class labels kept in float tensors, as Caffe does: one label a line of x along the class axis.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/device_function.h"

namespace moka {

// axis, has_ignore, ignore_label.
inline std::vector<AttributeSpec> LabelAttributes() {
  return {{"axis", int64_t{1}, "the classes' axis of x; negative counts from the end"},
          {"has_ignore", false, "whether ignore_label is used"},
          {"ignore_label", int64_t{0}, "labels with this value count for nothing"}};
}

// Errors: kConfig unless there is exactly one label for each line of x along the axis.
inline void CheckLabels(std::string_view op, const Attributes& attributes, const Shape& x, const Shape& label) {
  const int axis = CanonicalAxis(attributes.Int("axis"), x, StrCat(op, ": axis"));
  if (x[axis] < 1) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": axis ", axis, " of ", x.ToString(), " has no classes"));
  }
  const int64_t lines = x.Count() / x[axis];
  if (label.Count() == lines) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": x ", x.ToString(), " with classes along axis ", axis, " needs ", lines,
                                         " labels, found ", label.Count(), " in ", label.ToString()));
}

inline constexpr int64_t kIgnoredLabel = -1;
inline constexpr int64_t kWrongLabel = -2;  // not an integer, or outside [0, classes)

// The class of a label value in [0, classes), or one of the two above.
MOKA_HOST_DEVICE inline int64_t ReadLabel(bool has_ignore, int64_t ignore_label, double value, int64_t classes) {
  if (has_ignore && value == static_cast<double>(ignore_label)) return kIgnoredLabel;
  if (!(value >= 0 && value < static_cast<double>(classes))) return kWrongLabel;
  const auto label = static_cast<int64_t>(value);
  return static_cast<double>(label) == value ? label : kWrongLabel;
}
inline int64_t ReadLabel(const Attributes& attributes, double value, int64_t classes) {
  return ReadLabel(attributes.Bool("has_ignore"), attributes.Int("ignore_label"), value, classes);
}

// The labels that a kernel takes: whole numbers in [0, classes), and perhaps one that counts for nothing.
struct LabelRule {
  int64_t classes = 0;
  bool has_ignore = false;
  int64_t ignore_label = 0;

  MOKA_HOST_DEVICE int64_t Read(float value) const {
    return ReadLabel(has_ignore, ignore_label, double{value}, classes);
  }
};

// The texts that kernels give of a wrong label, and of a wrong number of something else ("row").
inline std::string WrongLabelText(const LabelRule& rule, int64_t at, double value) {
  std::string text = StrCat("label ", value, " at index ", at, " is not a class from 0 to ", rule.classes - 1);
  if (rule.has_ignore) text += StrCat(" nor the ignored label ", rule.ignore_label);
  return text;
}
inline std::string WrongNumberText(std::string_view what, const LabelRule& rule, int64_t at, double value) {
  std::string text = StrCat(what, " ", value, " at index ", at, " is not from 0 to ", rule.classes - 1);
  if (rule.has_ignore) text += StrCat(" nor the ignored one, ", rule.ignore_label);
  return text;
}
inline std::string WrongRowText(int64_t rows, int64_t at, double value) {
  return StrCat("index ", value, " at position ", at, " is not a row from 0 to ", rows - 1);
}

}  // namespace moka
