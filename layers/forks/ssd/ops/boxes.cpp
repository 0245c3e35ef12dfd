// The codes are affine or logarithmic in centre and size (Liu et al., SSD, 2016), with a variance for each number;
// Decode is Encode's inverse to rounding.
#include "layers/forks/ssd/ops/boxes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/text.h"

namespace moka {
namespace {

constexpr std::array kForms = {"corner", "center_size", "corner_size"};

}  // namespace

double Area(const Box& box) {
  if (box.xmax < box.xmin || box.ymax < box.ymin) return 0;
  return (box.xmax - box.xmin) * (box.ymax - box.ymin);
}

double Overlap(const Box& a, const Box& b) {
  const double width = std::min(a.xmax, b.xmax) - std::max(a.xmin, b.xmin);
  const double height = std::min(a.ymax, b.ymax) - std::max(a.ymin, b.ymin);
  if (!(width > 0 && height > 0)) return 0;
  const double shared = width * height;
  return shared / (Area(a) + Area(b) - shared);
}

bool CrossesBorder(const Box& box) {
  const auto outside = [](double x) { return x < 0 || x > 1; };
  return outside(box.xmin) || outside(box.ymin) || outside(box.xmax) || outside(box.ymax);
}

BoxCoding BoxCoding::Of(std::string_view op, const Attributes& attributes) {
  const std::string& name = attributes.String("code");
  const auto* const found = std::ranges::find(kForms, name);
  if (found == kForms.end()) {
    const std::vector<std::string> names(kForms.begin(), kForms.end());
    throw Error(ErrorKind::kConfig, {}, StrCat(op, ": there is no box code \"", name, "\""), DidYouMean(name, names));
  }
  return {static_cast<BoxForm>(found - kForms.begin()), attributes.Bool("variance_in_target")};
}

std::vector<AttributeSpec> BoxCodingAttributes() {
  return {{"code", std::string("corner"), "how boxes are coded: corner, center_size or corner_size"},
          {"variance_in_target", false, "whether codes are left undivided by the variances of the priors"}};
}

BoxCode Encode(const BoxCoding& coding, const Box& prior, const BoxCode& variance, const Box& box) {
  const double width = prior.xmax - prior.xmin;
  const double height = prior.ymax - prior.ymin;
  BoxCode code = {box.xmin - prior.xmin, box.ymin - prior.ymin, box.xmax - prior.xmax, box.ymax - prior.ymax};
  if (coding.form == BoxForm::kCornerSize) {
    code = {code[0] / width, code[1] / height, code[2] / width, code[3] / height};
  } else if (coding.form == BoxForm::kCenterSize) {
    code = {(code[0] + code[2]) / 2 / width, (code[1] + code[3]) / 2 / height, std::log((box.xmax - box.xmin) / width),
            std::log((box.ymax - box.ymin) / height)};
  }
  if (coding.variance_in_target) return code;
  for (size_t k = 0; k < code.size(); ++k) code[k] /= variance[k];
  return code;
}

Box Decode(const BoxCoding& coding, const Box& prior, const BoxCode& variance, const BoxCode& code) {
  BoxCode c = code;
  if (!coding.variance_in_target) {
    for (size_t k = 0; k < c.size(); ++k) c[k] *= variance[k];
  }
  const double width = prior.xmax - prior.xmin;
  const double height = prior.ymax - prior.ymin;
  if (coding.form == BoxForm::kCenterSize) {
    const double x = c[0] * width + (prior.xmin + prior.xmax) / 2;
    const double y = c[1] * height + (prior.ymin + prior.ymax) / 2;
    const double half_width = std::exp(c[2]) * width / 2;
    const double half_height = std::exp(c[3]) * height / 2;
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }
  if (coding.form == BoxForm::kCornerSize) c = {c[0] * width, c[1] * height, c[2] * width, c[3] * height};
  return {prior.xmin + c[0], prior.ymin + c[1], prior.xmax + c[2], prior.ymax + c[3]};
}

namespace {

// The prior's corners in the order of a polygon's.
Polygon CornersOf(const Box& b) { return {b.xmin, b.ymin, b.xmax, b.ymin, b.xmax, b.ymax, b.xmin, b.ymax}; }

// Returns the length of one unit of a polygon's code, horizontally and vertically.
std::array<double, 2> PolygonUnits(const Box& prior, const BoxCode& variance) {
  return {variance[0] * (prior.xmax - prior.xmin), variance[1] * (prior.ymax - prior.ymin)};
}

}  // namespace

Polygon EncodePolygon(const Box& prior, const BoxCode& variance, const Polygon& polygon) {
  Polygon code = CornersOf(prior);
  const auto units = PolygonUnits(prior, variance);
  for (size_t k = 0; k < code.size(); ++k) code[k] = (polygon[k] - code[k]) / units[k % 2];
  return code;
}

Polygon DecodePolygon(const Box& prior, const BoxCode& variance, const Polygon& code) {
  Polygon polygon = CornersOf(prior);
  const auto units = PolygonUnits(prior, variance);
  for (size_t k = 0; k < polygon.size(); ++k) polygon[k] += code[k] * units[k % 2];
  return polygon;
}

void ReadPriors(const Reals& prior, int64_t count, std::vector<Box>& boxes, std::vector<BoxCode>& variances) {
  boxes.clear();
  variances.clear();
  for (int64_t p = 0; p < count; ++p) {
    boxes.push_back(prior.BoxAt(p * 4));
    variances.push_back(prior.Four((count + p) * 4));
  }
}

int64_t WholePart(double value) {
  constexpr double kLimit = std::numeric_limits<int32_t>::max();
  if (!(value > -kLimit && value < kLimit)) return -1;
  return static_cast<int64_t>(value);
}

TruthRow ReadTruth(const Reals& rows, int64_t row, int64_t width) {
  const Reals r = rows.From(row * width);
  return {WholePart(r[0]), WholePart(r[1]), r.BoxAt(3), r[7] != 0, row};
}

void RankScores(std::span<const double> scores, double threshold, int64_t top_k, std::vector<int64_t>& order) {
  order.clear();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > threshold) order.push_back(static_cast<int64_t>(i));
  }
  const auto count = static_cast<int64_t>(order.size());
  const int64_t wanted = top_k < 0 ? count : std::min(top_k, count);
  const auto above = [&](int64_t a, int64_t b) {
    const double x = scores[static_cast<size_t>(a)];
    const double y = scores[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + wanted, order.end(), above);
  order.resize(static_cast<size_t>(wanted));
}

void SuppressOverlaps(std::span<const Box> boxes, std::span<const int64_t> order, double threshold, double eta,
                      std::vector<int64_t>& kept) {
  kept.clear();
  for (const int64_t i : order) {
    const Box& box = boxes[static_cast<size_t>(i)];
    const bool is_free =
        std::ranges::all_of(kept, [&](int64_t k) { return Overlap(box, boxes[static_cast<size_t>(k)]) <= threshold; });
    if (!is_free) continue;
    kept.push_back(i);
    if (eta < 1 && threshold > 0.5) threshold *= eta;
  }
}

int64_t PriorCount(std::string_view op, const Shape& prior) {
  const int64_t count = prior.Count();
  if (prior.rank() >= 3 && prior[0] == 1 && prior[1] == 2 && count > 0 && count % 8 == 0) return count / 8;
  throw Error(ErrorKind::kConfig,
              StrCat(op, ": the priors must be [1,2,4*priors], boxes and variances, found ", prior.ToString()));
}

void CheckPerItem(std::string_view op, std::string_view name, const Shape& x, int64_t items, int64_t per_item,
                  std::string_view rule) {
  if (x.rank() >= 2 && x[0] == items && x.Count(1, x.rank()) == per_item) return;
  const bool has_more = name == "loc" && x.rank() >= 2 && x[0] == items && x.Count(1, x.rank()) > per_item;
  throw Error(
      ErrorKind::kConfig,
      StrCat(op, ": ", name, " has shape ", x.ToString(), " but [", items, ",", per_item, "] is needed (", rule, ")",
             has_more ? "; PriorBox of some forks (FaceBoxes, TextBoxes, SSTD) makes more priors than its "
                        "fields say, here it makes those that they say"
                      : ""));
}

int64_t RowCount(std::string_view op, std::string_view name, const Shape& x, int64_t width) {
  if (x.rank() == 4 && x[0] == 1 && x[1] == 1 && x[2] >= 1 && x[3] == width) return x[2];
  throw Error(ErrorKind::kConfig, StrCat(op, ": ", name, " must be [1,1,rows,", width, "], found ", x.ToString()));
}

}  // namespace moka
