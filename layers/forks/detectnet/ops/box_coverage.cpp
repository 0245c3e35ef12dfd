// The boxes of images as a grid of coverage (DetectNet): each cell that the middle part of a box touches holds the
// box. Numbers are floats in the order of NVIDIA's Caffe, for rounding decides which cells are touched and which boxes
// are equal afterwards. The channels of a cell: 0 foreground, 1..4 the box's corners x1, y1, x2, y2 from the cell's
// corner, 5 and 6 the inverse of its width and height, 7 the area of a cell over that of the middle part, then one
// coverage a class. A later box takes the cells of an earlier one.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <map>

#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/detectnet/ops/augmentation.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kBoxCoverageOp = "box_coverage";
constexpr int64_t kLabelColumns = 16;  // of a box: x, y, width, height, angle, class, ..
constexpr int64_t kClassColumn = 5;
constexpr int64_t kCellChannels = 8;  // before the coverages
constexpr int64_t kMaxClasses = 65536;

std::map<int64_t, int64_t> ChannelsOfClasses(const Attributes& a) {
  std::map<int64_t, int64_t> channels;
  const auto& classes = a.Get<Ints>("classes");
  for (size_t i = 0; i + 2 <= classes.size(); i += 2) channels[classes[i]] = classes[i + 1];
  return channels;
}

// Cells along a side of the image: OpenCV rounds halves to even.
int64_t BoxCoverageCells(int64_t pixels, int64_t stride) {
  const auto part = static_cast<float>(1.0 / static_cast<double>(stride));
  return static_cast<int64_t>(std::nearbyint(static_cast<float>(pixels) * part));
}

std::vector<TensorType> InferBoxCoverage(const Attributes& a, std::span<const TensorType> in) {
  CheckInputCount(kBoxCoverageOp, in, 2, 2);
  CheckFloat(kBoxCoverageOp, "boxes", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() != 4 || x[1] != 1 || x[2] < 1 || x[3] != kLabelColumns) {
    throw Error(ErrorKind::kConfig, StrCat(kBoxCoverageOp, ": boxes must be [N,1,objects+1,", kLabelColumns,
                                           "], a first row that counts them and a row a box, found ", x.ToString()));
  }
  CheckAugmentations(kBoxCoverageOp, in[1], x[0]);
  for (const char* name : {"image_height", "image_width", "out_height", "out_width", "stride"}) {
    if (a.Int(name) >= 1 && a.Int(name) <= INT32_MAX) continue;
    throw Error(ErrorKind::kConfig, StrCat(kBoxCoverageOp, ": ", name, " must be at least 1, found ", a.Int(name)));
  }
  int64_t classes = 0;
  for (const auto& [label, channel] : ChannelsOfClasses(a)) classes = std::max(classes, channel + 1);
  if (classes < 1 || classes > kMaxClasses) {
    throw Error(ErrorKind::kConfig,
                StrCat(kBoxCoverageOp, ": there must be 1 to ", kMaxClasses, " classes, found ", classes));
  }
  const Shape y = {x[0], kCellChannels + classes, BoxCoverageCells(a.Int("out_height"), a.Int("stride")),
                   BoxCoverageCells(a.Int("out_width"), a.Int("stride"))};
  if (y[2] < 1 || y[3] < 1) {
    throw Error(ErrorKind::kConfig, StrCat(kBoxCoverageOp, ": an image of ", a.Int("out_height"), " x ",
                                           a.Int("out_width"), " pixels has no cell of ", a.Int("stride")));
  }
  return {PlainType(DType::kFloat32, y)};
}

struct Rect {
  float x = 0;
  float y = 0;
  float width = 0;
  float height = 0;

  float right() const { return x + width; }
  float bottom() const { return y + height; }
  float area() const { return width * height; }
};

Rect BoxCoverageShared(const Rect& a, const Rect& b) {
  const float x = std::max(a.x, b.x);
  const float y = std::max(a.y, b.y);
  const Rect shared = {x, y, std::min(a.right(), b.right()) - x, std::min(a.bottom(), b.bottom()) - y};
  return shared.width <= 0 || shared.height <= 0 ? Rect{} : shared;
}

float Middle(float low, float high) { return static_cast<float>(static_cast<double>(low + high) * 0.5); }

// A box where its image's changes take it.
Rect BoxCoverageMoved(Rect box, const PictureChange& augmentation, int64_t width, int64_t height) {
  if (augmentation.is_mirrored) box.x = static_cast<float>(width) - box.x - box.width - 1;
  if (augmentation.width != width || augmentation.height != height) {
    const float scale_x = static_cast<float>(augmentation.width) / static_cast<float>(width);
    const float scale_y = static_cast<float>(augmentation.height) / static_cast<float>(height);
    box = {box.x * scale_x, box.y * scale_y, box.width * scale_x, box.height * scale_y};
  }
  if (augmentation.rotates()) {  // its centre turns, its size stays
    const Rotation r = RotationOf(augmentation.width, augmentation.height, augmentation.rotation);
    const float x = Middle(box.x, box.right());
    const float y = Middle(box.y, box.bottom());
    const double dx = static_cast<double>(x) - r.center_x;
    const double dy = static_cast<double>(y) - r.center_y;
    const auto turned_x = static_cast<float>(r.cosine * dx - r.sine * dy + r.moved_x);
    const auto turned_y = static_cast<float>(r.sine * dx + r.cosine * dy + r.moved_y);
    box.x = turned_x - (box.right() - x);
    box.y = turned_y - (box.bottom() - y);
  }
  box.x -= static_cast<float>(augmentation.crop_x);
  box.y -= static_cast<float>(augmentation.crop_y);
  return box;
}

class BoxCoverageGrid {
 public:
  BoxCoverageGrid(const Attributes& a, const Shape& y, double* cells)
      : a_(a),
        channels_(ChannelsOfClasses(a)),
        height_(y[2]),
        width_(y[3]),
        plane_(y[2] * y[3]),
        classes_(y[1] - kCellChannels),
        cells_(cells),
        stride_(static_cast<float>(a.Int("stride"))),
        image_{0, 0, static_cast<float>(a.Int("out_width")), static_cast<float>(a.Int("out_height"))} {}

  void Add(Rect box, double label) {
    if (a_.Bool("crop")) box = BoxCoverageShared(box, image_);
    const auto channel =
        label >= 0 && label <= INT32_MAX ? channels_.find(static_cast<int64_t>(label)) : channels_.end();
    const bool is_box = std::isfinite(box.x + box.y + box.width + box.height) && box.area() >= FLT_EPSILON;
    if (channel == channels_.end() || !is_box) return;
    const Rect middle = MiddlePart(box);
    const float norm = std::max(a_.Bool("norm") ? 0.0F : 1.0F, stride_ * stride_ / middle.area());
    const Span columns = Touched(middle.x, middle.right(), width_);
    const Span rows = Touched(middle.y, middle.bottom(), height_);
    for (int64_t i = rows.first; i < rows.end; ++i) {
      for (int64_t j = columns.first; j < columns.end; ++j) {
        const Rect cell = {static_cast<float>(j) * stride_, static_cast<float>(i) * stride_, stride_, stride_};
        if (BoxCoverageShared(middle, cell).area() / (stride_ * stride_) > FLT_EPSILON) {
          Fill(i * width_ + j, box, cell, norm, channel->second);
        }
      }
    }
  }

 private:
  struct Span {
    int64_t first;
    int64_t end;
  };

  // Cells of a row or column that [low, high] reaches.
  Span Touched(float low, float high, int64_t cells) const {
    const auto most = static_cast<float>(cells);
    return {static_cast<int64_t>(std::clamp(std::floor(low / stride_), 0.0F, most)),
            static_cast<int64_t>(std::clamp(std::ceil(high / stride_), 0.0F, most))};
  }

  // The part of the box that counts as covered, around its centre.
  Rect MiddlePart(const Rect& box) const {
    const auto scale = static_cast<float>(a_.Float("scale"));
    const auto length = static_cast<float>(a_.Int("length"));
    const bool is_least = a_.Bool("length_is_least");
    const auto side = [&](float whole) {
      return is_least ? std::min(whole, std::max(length, whole * scale)) : std::min(length, whole * scale);
    };
    const float x = Middle(box.x, box.right());
    const float y = Middle(box.y, box.bottom());
    const float half_width = side(box.width) * 0.5F;
    const float half_height = side(box.height) * 0.5F;
    const float left = x - half_width;
    const float top = y - half_height;
    return {left, top, x + half_width - left, y + half_height - top};
  }

  void Fill(int64_t at, const Rect& box, const Rect& cell, float norm, int64_t channel) {
    const auto set = [&](int64_t c, float value) { cells_[c * plane_ + at] = static_cast<double>(value); };
    set(0, 1);
    set(1, box.x - cell.x);
    set(2, box.y - cell.y);
    set(3, box.right() - cell.x);
    set(4, box.bottom() - cell.y);
    set(5, static_cast<float>(1.0 / static_cast<double>(box.width)));
    set(6, static_cast<float>(1.0 / static_cast<double>(box.height)));
    set(7, norm);
    for (int64_t c = 0; c < classes_; ++c) set(kCellChannels + c, c == channel ? 1 : 0);
  }

  const Attributes& a_;
  std::map<int64_t, int64_t> channels_;
  int64_t height_;
  int64_t width_;
  int64_t plane_;
  int64_t classes_;
  double* cells_;  // [8+classes, height, width]
  float stride_;
  Rect image_;
};

void BoxCoverageReference(const Attributes& a, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const Shape& y = out[0].type.shape;
  std::ranges::fill(out[0].values, 0.0);
  for (int64_t n = 0; n < x[0]; ++n) {
    const double* label = in[0].values.data() + n * x[2] * kLabelColumns;
    const PictureChange augmentation = AugmentationAt(in[1], n);
    BoxCoverageGrid grid(a, y, out[0].values.data() + n * y.Count(1, 4));
    for (int64_t i = 1; i < x[2] && static_cast<double>(i) <= std::floor(label[0]); ++i) {
      const double* row = label + i * kLabelColumns;
      const Rect box = {static_cast<float>(row[0]), static_cast<float>(row[1]), static_cast<float>(row[2]),
                        static_cast<float>(row[3])};
      grid.Add(BoxCoverageMoved(box, augmentation, a.Int("image_width"), a.Int("image_height")), row[kClassColumn]);
    }
  }
}

std::vector<OpCase> BoxCoverageCases() {
  const auto one = [](const char* name, const Attributes& more) {
    const Attributes sizes{{"image_height", int64_t{20}}, {"image_width", int64_t{24}}, {"out_height", int64_t{16}},
                           {"out_width", int64_t{24}},    {"stride", int64_t{4}},       {"classes", Ints{1, 0, 3, 2}}};
    return OpCase{.name = name,
                  .inputs = {Float32({2, 1, 5, 16}), Float32({2, 8})},
                  .attributes = With(sizes, more),
                  .low = 0,
                  .high = 12,
                  .ranges = {{0, 1, 9}, {1, 4, 24}}};
  };
  return {one("largest", {}), one("least", {{"length_is_least", true}, {"norm", true}, {"crop", false}})};
}

}  // namespace

OpDef BoxCoverageOp() {
  return {.name = "box_coverage",
          .doc =
              "(boxes [N,1,objects+1,16]: a row that counts them, then x, y, width, height, angle, class, ..; "
              "augmentations [N,8]) -> [N,8+classes,rows,columns]: cells that the middle part of a box touches hold 1, "
              "the box's corners from the cell's, its inverse width and height, a norm and a one in the class's "
              "channel; others 0.",
          .attributes = {{"image_height", {}, "of the image the boxes lie in, pixels"},
                         {"image_width", {}, "as image_height"},
                         {"out_height", {}, "of the image the grid lies over, pixels"},
                         {"out_width", {}, "as out_height"},
                         {"stride", {}, "side of a cell, pixels"},
                         {"classes", {}, "class and its coverage's number, pair by pair; others are left out"},
                         {"scale", 0.5, "of the middle part, to the box"},
                         {"length", int64_t{50}, "longest side of the middle part, pixels"},
                         {"length_is_least", false, "length is its shortest side, as far as the box has it"},
                         {"norm", false, "the norm may be below 1"},
                         {"crop", true, "whether boxes are cut to the image"}},
          .infer = InferBoxCoverage,
          .reference = BoxCoverageReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kCells,
          .cases = BoxCoverageCases};
}

}  // namespace moka
