// TensorFlow's resize_bilinear and resize_nearest_neighbor, as Synopsys's Caffe has them. Each is one linear map of the
// rows and one of the columns, written as two matrix products with a table of weights; with aligned corners the
// bilinear one is Interp's, and a nearest one by whole factors repeats its pixels. Places are computed in float32 as
// there, which decides where a place falls on a border between pixels.
#include <algorithm>
#include <cmath>

#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

constexpr int64_t kMaxTable = int64_t{1} << 24;  // weights of one axis; more would be a mistake

struct Grid {
  bool align_corners = false;
  bool half_pixel = false;

  // Pixels of the bottom a pixel of the top covers.
  float Scale(int64_t in, int64_t out) const {
    if (align_corners && out > 1) return static_cast<float>(in - 1) / static_cast<float>(out - 1);
    return static_cast<float>(in) / static_cast<float>(out);
  }
};

// The weights [out, in] of one axis, row-major.
Doubles BilinearTable(const Grid& grid, int64_t in, int64_t out) {
  Doubles table(static_cast<size_t>(in * out), 0.0);
  const float scale = grid.Scale(in, out);
  for (int64_t i = 0; i < out; ++i) {
    const float at = grid.half_pixel ? (static_cast<float>(i) + 0.5F) * scale - 0.5F : static_cast<float>(i) * scale;
    const float below = std::floor(at);
    const int64_t low = std::clamp<int64_t>(static_cast<int64_t>(below), 0, in - 1);
    const int64_t high = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(at)), 0, in - 1);
    const auto weight = static_cast<double>(at - below);
    table[static_cast<size_t>(i * in + low)] += 1 - weight;
    table[static_cast<size_t>(i * in + high)] += weight;
  }
  return table;
}

Doubles NearestTable(const Grid& grid, int64_t in, int64_t out) {
  Doubles table(static_cast<size_t>(in * out), 0.0);
  const float scale = grid.Scale(in, out);
  for (int64_t i = 0; i < out; ++i) {
    const auto point = static_cast<float>(i);
    const float at = grid.half_pixel      ? std::floor((point + 0.5F) * scale)
                     : grid.align_corners ? std::round(point * scale)
                                          : std::floor(point * scale);
    table[static_cast<size_t>(i * in + std::clamp<int64_t>(static_cast<int64_t>(at), 0, in - 1))] = 1;
  }
  return table;
}

using Table = Doubles (*)(const Grid&, int64_t, int64_t);

// x [N,C,H,W] with its last axis mapped by the table.
ValueId Mapped(const GraphBuilder& b, ValueId x, const Grid& grid, int64_t out, Table table) {
  const Shape in = b.shape(x);
  if (in[3] == out) return x;
  const ValueId weights = b.Add1("table", {}, {{"shape", Ints{out, in[3]}}, {"values", table(grid, in[3], out)}});
  const ValueId rows = b.Reshape(x, {in.Count(0, 3), in[3]});
  const ValueId y = b.Add1("matmul", {rows, weights}, {{"transpose_a", false}, {"transpose_b", true}});
  return b.Reshape(y, in.With(3, out));
}

// Repeats every pixel `h` times down and `w` times along.
ValueId Repeated(const GraphBuilder& b, ValueId x, int64_t h, int64_t w) {
  const Shape in = b.shape(x);
  const ValueId apart = b.Reshape(x, {in[0], in[1], in[2], 1, in[3], 1});
  const ValueId y = b.Add1("expand", {apart}, {{"shape", Ints{in[0], in[1], in[2], h, in[3], w}}});
  return b.Reshape(y, in.With(2, (Size(in[2]) * h).value()).With(3, (Size(in[3]) * w).value()));
}

// The size of the top along an axis; `given` wins over the scale.
int64_t OutputSize(const LayerBuilder& l, const std::string& field, int64_t in, bool has, int64_t given, float scale) {
  const auto scaled = static_cast<double>(std::floor(static_cast<float>(in) * scale));
  l.Check(has || (std::isfinite(scaled) && scaled >= 1 && scaled <= INT32_MAX), field,
          StrCat("give ", field, ", or a scale that leaves at least one pixel"));
  const int64_t size = has ? given : static_cast<int64_t>(scaled);
  l.Check(size >= 1, field, StrCat(field, " must be at least 1, found ", size));
  l.Check((Size(size) * in).value() <= kMaxTable, field, StrCat(field, " ", size, " is too large for ", in, " pixels"));
  return size;
}

template <class Parameter>
void BuildResize(LayerBuilder& l, const Parameter& p, const std::string& prefix, bool is_bilinear) {
  const GraphBuilder& b = l.b();
  l.Check(l.shape(0).rank() == 4, "bottom[0]", StrCat("the bottom must have four axes, found ", l.shape(0).ToString()));
  const bool is_last = p.data_format() == "NHWC";
  l.Check(is_last || p.data_format() == "NCHW", prefix + ".data_format",
          StrCat("data_format must be NHWC or NCHW, found \"", p.data_format(), "\""));
  const Grid grid{p.align_corners(), p.half_pixel_centers()};
  l.Check(!(grid.align_corners && grid.half_pixel), prefix + ".half_pixel_centers",
          "give align_corners or half_pixel_centers, not both");
  ValueId x = l.bottom(0);
  if (is_last) x = b.Add1("transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}});
  const Shape in = b.shape(x);
  const int64_t h =
      OutputSize(l, prefix + ".output_height", in[2], p.has_output_height(), p.output_height(), p.scale_height());
  const int64_t w =
      OutputSize(l, prefix + ".output_width", in[3], p.has_output_width(), p.output_width(), p.scale_width());
  ValueId y = kNoId;
  if (is_bilinear && grid.align_corners) {
    y = Shape{h, w} == Shape{in[2], in[3]} ? x : b.Add1("interpolate", {x}, {{"size", Ints{h, w}}});
  } else if (!is_bilinear && !grid.align_corners && h % in[2] == 0 && w % in[3] == 0) {
    y = Repeated(b, x, h / in[2], w / in[3]);
  } else {
    const Table table = is_bilinear ? BilinearTable : NearestTable;
    const ValueId wide = Mapped(b, x, grid, w, table);
    const ValueId turned = b.Add1("transpose", {wide}, {{"perm", Ints{0, 1, 3, 2}}});
    y = b.Add1("transpose", {Mapped(b, turned, grid, h, table)}, {{"perm", Ints{0, 1, 3, 2}}});
  }
  if (is_last) y = b.Add1("transpose", {y}, {{"perm", Ints{0, 2, 3, 1}}});
  l.SetTop(0, y);
}

void BuildBilinear(LayerBuilder& l) {
  BuildResize(l, l.param().resize_bilinear_param(), "resize_bilinear_param", true);
}
void BuildNearest(LayerBuilder& l) {
  BuildResize(l, l.param().resize_nearest_neighbor_param(), "resize_nearest_neighbor_param", false);
}

}  // namespace

LayerDef ResizeBilinearLayer() {
  return {.type = "ResizeBilinear", .build = BuildBilinear, .params = {"resize_bilinear_param"}};
}

LayerDef ResizeNearestNeighborLayer() {
  return {.type = "ResizeNearestNeighbor", .build = BuildNearest, .params = {"resize_nearest_neighbor_param"}};
}

}  // namespace moka
