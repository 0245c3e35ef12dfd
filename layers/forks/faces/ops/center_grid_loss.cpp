// The loss of a map that looks for faces of one scale (LFFD, arXiv 1904.10633, as yuqj1991's CenterGridLossLayer has
// it). A cell in a face whose longer side is in the map's range learns the face's corners, from its own centre in parts
// of the map's box, and that it is one; a cell in no face learns that it is none; a cell in a face of another size, or
// in one that was seen later, learns no class. Classes have focal losses, places smooth L1 ones. `slope` is the
// derivative, but for landmarks, which it has of their own weight; so this op has no gradient and the layer gives it.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/ssd/ops/faces.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kCenterGridLossOp = "center_grid_loss";
constexpr double kMarksWeight = 0.1;

struct Form {
  bool softmax;
  bool landmarks;
  int64_t columns;  // of a label's row
  int64_t score;    // channel of the first score
  int64_t channels;

  static Form Of(const Attributes& a) {
    const bool softmax = a.Bool("softmax");
    const bool landmarks = a.Bool("landmarks");
    const int64_t score = 4 + (landmarks ? kFaceMarks : 0);
    return {softmax, landmarks, landmarks ? 19 : 8, score, score + (softmax ? 2 : 1)};
  }
};

std::vector<TensorType> InferCenterGridLoss(const Attributes& a, std::span<const TensorType> in) {
  CheckInputCount(kCenterGridLossOp, in, 2, 2);
  CheckFloat(kCenterGridLossOp, "x", in[0]);
  CheckFloat(kCenterGridLossOp, "label", in[1]);
  const Form form = Form::Of(a);
  const Shape& x = in[0].shape;
  if (x.rank() != 4 || x.Count() < 1 || x[1] != form.channels || in[1].shape.Count() % form.columns != 0 ||
      !(a.Float("box") >= 1)) {
    throw Error(ErrorKind::kConfig,
                StrCat(kCenterGridLossOp, ": x must be [N,", form.channels, ",H,W], labels rows of ", form.columns,
                       " numbers and box at least 1, found ", x.ToString(), ", ", in[1].shape.ToString(), " and ",
                       a.Float("box")));
  }
  return {PlainType(StatisticsType(in[0].dtype), Shape{}), PlainType(in[0].dtype, x)};
}

enum class Cell : uint8_t { kNone, kFace, kIgnored };

class GridLoss {
 public:
  GridLoss(const Attributes& a, const RefTensor& x, std::vector<double>& slope)
      : attributes_(a),
        form_(Form::Of(a)),
        shape_(x.type.shape),
        plane_(shape_[2] * shape_[3]),
        stride_(a.Float("height") / static_cast<double>(shape_[2])),
        x_(x.values),
        slope_(slope) {}

  void AddImage(int64_t image, const std::vector<const double*>& faces) {
    if (faces.empty() && !form_.softmax) return;  // such an image teaches nothing, as there
    cells_.assign(static_cast<size_t>(plane_), Cell::kNone);
    taken_.assign(static_cast<size_t>(plane_), false);
    for (const double* face : faces) AddFace(image, face);
    for (int64_t cell = 0; cell < plane_; ++cell) AddClass(image, cell);
  }

  // The loss; slopes are divided too.
  double Finish() {
    const std::string& by = attributes_.String("divide_by");
    const double images = static_cast<double>(shape_[0]);
    const auto divisor = [&](double valid) {
      if (by == "none") return 1.0;
      return std::max(by == "valid" && valid > 0 ? valid : images, 1.0);
    };
    const double all = divisor(places_);
    const double marks = divisor(marked_) / kMarksWeight;
    for (size_t i = 0; i < slope_.size(); ++i) {
      const auto channel = (static_cast<int64_t>(i) / plane_) % shape_[1];
      slope_[i] /= channel >= 4 && channel < form_.score ? marks : all;
    }
    return loss_ / all + marks_loss_ / marks;
  }

 private:
  size_t At(int64_t image, int64_t channel, int64_t cell) const {
    return static_cast<size_t>((image * shape_[1] + channel) * plane_ + cell);
  }

  void AddFace(int64_t image, const double* face) {
    const auto width = static_cast<double>(shape_[3]);
    const auto height = static_cast<double>(shape_[2]);
    const double box[] = {face[3] * width, face[4] * height, face[5] * width, face[6] * height};
    if (form_.softmax && !(box[2] > box[0] && box[3] > box[1])) return;
    const auto cell = [](double place, int64_t side) {
      return place > 0 ? static_cast<int64_t>(std::min(place, static_cast<double>(side))) : 0;
    };
    const double longer = std::max(std::trunc((box[3] - box[1]) * stride_), std::trunc((box[2] - box[0]) * stride_));
    const bool is_ours = longer >= attributes_.Float("low") && longer < attributes_.Float("high");
    for (int64_t row = cell(box[1], shape_[2]); row < cell(box[3], shape_[2]); ++row) {
      for (int64_t column = cell(box[0], shape_[3]); column < cell(box[2], shape_[3]); ++column) {
        const int64_t at = row * shape_[3] + column;
        cells_[static_cast<size_t>(at)] = Cell::kIgnored;
        if (!is_ours || taken_[static_cast<size_t>(at)]) continue;
        taken_[static_cast<size_t>(at)] = true;
        cells_[static_cast<size_t>(at)] = Cell::kFace;
        ++places_;
        for (int64_t k = 0; k < 4; ++k) loss_ += AddPlace(image, k, at, box[k]);
        AddMarks(image, at, face);
      }
    }
  }

  void AddMarks(int64_t image, int64_t at, const double* face) {
    if (!form_.landmarks || !(face[8] > 0)) return;
    if (!std::all_of(face + 9, face + 19, [](double place) { return place > 0; })) return;
    ++marked_;
    for (int64_t k = 0; k < kFaceMarks; ++k) {
      marks_loss_ += AddPlace(image, 4 + k, at, face[9 + k] * static_cast<double>(k % 2 == 0 ? shape_[3] : shape_[2]));
    }
  }

  // A place in cells, x for even channels, and what the map says of it.
  double AddPlace(int64_t image, int64_t channel, int64_t at, double place) {
    const double center = static_cast<double>(channel % 2 == 0 ? at % shape_[3] : at / shape_[3]) + 0.5;
    const double scale = (form_.softmax ? 1 : 2) * stride_ / std::trunc(attributes_.Float("box"));
    const size_t i = At(image, channel, at);
    const double error = x_[i] - (center - place) * scale;
    const double size = std::abs(error);
    slope_[i] = size < 1 ? error : error > 0 ? 1 : -1;
    return size < 1 ? error * error / 2 : size - 0.5;
  }

  void AddClass(int64_t image, int64_t cell) {
    const Cell kind = cells_[static_cast<size_t>(cell)];
    if (kind == Cell::kIgnored) return;
    const bool is_face = kind == Cell::kFace;
    const size_t first = At(image, form_.score, cell);
    const auto stride = static_cast<size_t>(plane_);
    const double face = 1 / (1 + std::exp(form_.softmax ? x_[first] - x_[first + stride] : -x_[first]));
    const double p = is_face ? face : 1 - face;  // of what it is
    const double alpha = form_.softmax ? 0.25 : 2;
    const double gamma = form_.softmax ? 2 : 4;
    const double log = std::log(std::max(p, static_cast<double>(FLT_MIN)));
    const double rest = alpha * std::pow(1 - p, gamma);
    loss_ -= rest * log;
    const double slope = rest * (gamma * p * log - (1 - p));  // by the score of what it is
    if (form_.softmax) {
      slope_[first + (is_face ? stride : 0)] = slope;
      slope_[first + (is_face ? 0 : stride)] = -slope;
    } else {
      slope_[first] = is_face ? slope : -slope;
    }
  }

  const Attributes& attributes_;
  Form form_;
  Shape shape_;
  int64_t plane_;
  double stride_;  // pixels a cell
  const std::vector<double>& x_;
  std::vector<double>& slope_;
  std::vector<Cell> cells_;
  std::vector<bool> taken_;  // by a face
  double loss_ = 0;
  double marks_loss_ = 0;
  double places_ = 0;  // cells with a face
  double marked_ = 0;  // those with landmarks
};

void CenterGridLossReference(const Attributes& a, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Form form = Form::Of(a);
  const int64_t images = in[0].type.shape[0];
  std::ranges::fill(out[1].values, 0.0);
  out[0].values[0] = 0;
  std::vector<std::vector<const double*>> faces(static_cast<size_t>(images));
  size_t count = 0;
  for (size_t i = 0; i + static_cast<size_t>(form.columns) <= in[1].values.size();
       i += static_cast<size_t>(form.columns)) {
    const double* row = in[1].values.data() + i;
    if (!(row[0] >= 0 && row[0] < static_cast<double>(images))) continue;
    faces[static_cast<size_t>(row[0])].push_back(row);
    ++count;
  }
  if (count == 0) return;  // nothing is learnt, as there
  GridLoss loss(a, in[0], out[1].values);
  for (int64_t image = 0; image < images; ++image) loss.AddImage(image, faces[static_cast<size_t>(image)]);
  out[0].values[0] = loss.Finish();
}

std::vector<OpCase> CenterGridLossCases() {
  const auto one = [](const char* name, bool softmax, bool landmarks, const char* by) {
    const Form form{softmax, landmarks, landmarks ? 19 : 8, 0, 4 + (landmarks ? 10 : 0) + (softmax ? 2 : 1)};
    return OpCase{.name = name,
                  .inputs = {Float32({2, form.channels, 4, 5}), Float32({1, 1, 3, form.columns})},
                  .attributes = {{"softmax", softmax},
                                 {"landmarks", landmarks},
                                 {"box", 16.0},
                                 {"low", 0.0},
                                 {"high", 100.0},
                                 {"height", 32.0},
                                 {"divide_by", std::string(by)}},
                  .ranges = {{1, 0.05, 0.95}}};
  };
  return {one("sigmoid", false, false, "valid"), one("softmax", true, false, "batch"),
          one("landmarks", true, true, "none")};
}

}  // namespace

OpDef CenterGridLossOp() {
  return {.name = "center_grid_loss",
          .doc =
              "(x [N,C,H,W], label rows of 8 or 19) -> loss (scalar), slope like x: the loss of a map of faces and "
              "its gradient.",
          .attributes = {{"softmax", false, "two scores a cell, the second the face's; else one, a sigmoid's"},
                         {"landmarks", false, "whether five landmarks follow the corners"},
                         {"box", {}, "pixels of a cell's box"},
                         {"low", {}, "pixels: the least longer side of a face that is learnt"},
                         {"high", {}, "and the side from which on none is"},
                         {"height", {}, "pixels of the picture"},
                         {"divide_by", std::string("batch"), "batch, valid (cells with a face) or none"}},
          .infer = InferCenterGridLoss,
          .reference = CenterGridLossReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kCells,
          .cases = CenterGridLossCases};
}

}  // namespace moka
