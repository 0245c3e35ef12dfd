// Faces found by maps of a cell a face: each map has boxes of its own scale around its cells' centres, which are
// suppressed together.
#include <algorithm>
#include <cmath>

#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/ssd/ops/faces.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kCenterGridsOp = "center_grids";

struct Settings {
  bool softmax;
  bool landmarks;
  Doubles sizes;
  double height;  // pixels of the image
  double width;
  double confidence;
  double nms;
  int64_t keep;  // -1: all

  static Settings Of(const Attributes& a) {
    return {a.Bool("softmax"),
            a.Bool("landmarks"),
            a.Get<Doubles>("sizes"),
            static_cast<double>(a.Get<Ints>("picture").at(0)),
            static_cast<double>(a.Get<Ints>("picture").at(1)),
            a.Float("confidence"),
            a.Float("nms"),
            a.Int("keep")};
  }
  int64_t Channels() const { return 4 + (landmarks ? kFaceMarks : 0) + (softmax ? 2 : 1); }
  int64_t Columns() const { return 7 + (landmarks ? kFaceMarks : 0); }
};

std::vector<TensorType> InferCenterGrids(const Attributes& a, std::span<const TensorType> in) {
  CheckInputCount(kCenterGridsOp, in, 1, 16);
  if (a.Get<Ints>("picture").size() != 2 || a.Get<Ints>("picture")[0] < 1 || a.Get<Ints>("picture")[1] < 1) {
    throw Error(ErrorKind::kConfig, StrCat(kCenterGridsOp, ": picture must be a height and a width of at least 1"));
  }
  const Settings s = Settings::Of(a);
  if (s.sizes.size() != in.size() || s.keep == 0) {
    throw Error(ErrorKind::kConfig,
                StrCat(kCenterGridsOp, ": ", in.size(), " maps need a size each and keep must not be 0, found ",
                       s.sizes.size(), " sizes and ", s.keep));
  }
  Size cells(0);
  for (const TensorType& x : in) {
    CheckFloat(kCenterGridsOp, "x", x);
    if (x.shape.rank() != 4 || x.shape[1] != s.Channels() || x.shape[0] != in[0].shape[0]) {
      throw Error(ErrorKind::kConfig,
                  StrCat(kCenterGridsOp, ": maps must be [", in[0].shape.rank() == 0 ? 0 : in[0].shape[0], ",",
                         s.Channels(), ",H,W], found ", x.shape.ToString()));
    }
    cells = cells + Size(x.shape[2]) * x.shape[3];
  }
  const int64_t rows = s.keep < 0 ? cells.value() : std::min(s.keep, cells.value());
  return {PlainType(DType::kFloat32, {1, 1, (Size(in[0].shape[0]) * std::max<int64_t>(rows, 1)).value(), s.Columns()})};
}

// Adds what a map shows of one image.
void AddMap(const Settings& s, const RefTensor& x, int64_t image, double size, std::vector<FoundFace>& found) {
  const Shape& shape = x.type.shape;
  const int64_t plane = shape[2] * shape[3];
  const double* const values = x.values.data() + image * shape[1] * plane;
  const double stride = s.width / static_cast<double>(shape[3]);  // pixels a cell, in both directions
  const double scale = s.softmax ? size : size / 2;
  const double bounds[] = {stride * static_cast<double>(shape[3]), stride * static_cast<double>(shape[2])};
  const int64_t places = 4 + (s.landmarks ? kFaceMarks : 0);
  for (int64_t cell = 0; cell < plane; ++cell) {
    const double center[] = {(static_cast<double>(cell % shape[3]) + 0.5) * stride,
                             (static_cast<double>(cell / shape[3]) + 0.5) * stride};
    FoundFace f;
    for (int64_t k = 0; k < places; ++k) {
      f.places[static_cast<size_t>(k)] =
          std::clamp(center[k % 2] - values[k * plane + cell] * scale, 0.0, bounds[k % 2]);
    }
    if (!(f.places[2] > f.places[0] && f.places[3] > f.places[1])) continue;
    f.area = (f.places[2] - f.places[0]) * (f.places[3] - f.places[1]);
    const double first = values[places * plane + cell];
    f.score = s.softmax ? 1 / (1 + std::exp(first - values[(places + 1) * plane + cell])) : 1 / (1 + std::exp(-first));
    if (f.score >= s.confidence) found.push_back(f);
  }
}

void CenterGridsReference(const Attributes& a, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Settings s = Settings::Of(a);
  const int64_t images = in[0].type.shape[0];
  const auto columns = static_cast<size_t>(s.Columns());
  std::ranges::fill(out[0].values, -1.0);
  size_t row = 0;
  for (int64_t image = 0; image < images; ++image) {
    std::vector<FoundFace> found;
    for (size_t i = 0; i < in.size(); ++i) AddMap(s, in[i], image, s.sizes[i], found);
    SuppressFaces(s.nms, s.keep, found);
    for (const FoundFace& f : found) {
      double* const to = out[0].values.data() + row * columns;
      to[0] = static_cast<double>(image);
      to[1] = 1;
      to[2] = f.score;
      for (size_t k = 0; k + 3 < columns; ++k) to[3 + k] = f.places[k] / (k % 2 == 0 ? s.width : s.height);
      ++row;
    }
  }
  if (row > 0) return;
  for (int64_t image = 0; image < images; ++image) {
    out[0].values[static_cast<size_t>(image) * columns] = static_cast<double>(image);
  }
}

std::vector<OpCase> CenterGridsCases() {
  const auto attributes = [](bool softmax, bool landmarks, double confidence, int64_t keep) {
    return Attributes{{"sizes", Doubles{8, 20}},
                      {"picture", Ints{24, 24}},
                      {"softmax", softmax},
                      {"landmarks", landmarks},
                      {"confidence", confidence},
                      {"nms", 0.3},
                      {"keep", keep}};
  };
  return {{"sigmoid", {Float32({2, 5, 6, 6}), Float32({2, 5, 3, 3})}, attributes(false, false, 0.4, 9)},
          {"softmax", {Float32({1, 6, 6, 6}), Float32({1, 6, 3, 3})}, attributes(true, false, 0.5, -1)},
          {"landmarks", {Float32({2, 16, 3, 3}), Float32({2, 16, 2, 2})}, attributes(true, true, 0.3, 4)},
          {"nothing", {Float32({2, 5, 2, 2}), Float32({2, 5, 1, 1})}, attributes(false, false, 1.5, 2)}};
}

}  // namespace

OpDef CenterGridsOp() {
  return {.name = "center_grids",
          .doc =
              "maps [N,C,H,W] of faces -> rows [1,1,R,7] of image, 1, score, xmin, ymin, xmax, ymax as parts of the "
              "picture, best first, and with landmarks five more pairs; unused rows are -1.",
          .attributes = {{"sizes", std::nullopt, "pixels of the boxes of each map"},
                         {"picture", std::nullopt, "pixels: height and width of the picture"},
                         {"softmax", false, "two scores a cell, the second the face's; else one, a sigmoid's"},
                         {"landmarks", false, "whether five landmarks follow the corners"},
                         {"confidence", 0.0, "scores below are left out"},
                         {"nms", 0.4, "overlap above which a lower score goes"},
                         {"keep", int64_t{-1}, "boxes of a picture; -1: all"}},
          .infer = InferCenterGrids,
          .reference = CenterGridsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kCells,
          .cases = CenterGridsCases};
}

}  // namespace moka
