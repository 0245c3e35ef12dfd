// Two layers of one name. With two bottoms or st_param: spatial transformer networks (Jaderberg et al., arXiv
// 1506.02025), a picture read where an affine map points. Else DSCLRCN's: pictures mirrored and turned by right angles.
//
// Of the former, rows come first: the map gives a row and a column in [-1,1) from a row and a column of the top in
// [-1,1), whose step is 2/H. Around the picture lie zeros.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/shape/moves.h"

namespace moka {
namespace {

// The six numbers of the map: of an input of an expression, [N,1,1,1] each, or as text where st_param gives them.
struct Theta {
  std::vector<ValueId> columns;  // the second bottom's
  std::string numbers[6];        // "x2" or "0.5"
};

Theta ReadTheta(const LayerBuilder& l) {
  const SpatialTransformerParameter& p = l.param().st_param();
  const GraphBuilder& b = l.b();
  const std::pair<bool, double> given[] = {{p.has_theta_1_1(), p.theta_1_1()}, {p.has_theta_1_2(), p.theta_1_2()},
                                           {p.has_theta_1_3(), p.theta_1_3()}, {p.has_theta_2_1(), p.theta_2_1()},
                                           {p.has_theta_2_2(), p.theta_2_2()}, {p.has_theta_2_3(), p.theta_2_3()}};
  Theta theta;
  int64_t free = 0;
  for (size_t i = 0; i < 6; ++i) {
    const auto [is_given, value] = given[i];
    theta.numbers[i] = is_given ? Number(Finite(l, "st_param", static_cast<float>(value))) : StrCat("x", free++);
  }
  const Shape found = l.shape(1);
  const int64_t batch = l.shape(0)[0];
  l.Check(free >= 1, "st_param", "st_param gives all six numbers: nothing is left for the second bottom");
  l.Check(found.rank() >= 1 && found[0] == batch && found.Count() == batch * free, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must hold ", free, " numbers for each of the ", batch,
                 " pictures, found ", found.ToString()));
  const ValueId rows = b.Reshape(l.bottom(1), {batch, free, 1, 1});
  theta.columns = {rows};
  if (free > 1) {
    theta.columns = b.Add("slice", {rows}, {{"axis", int64_t{1}}, {"sizes", Ints(static_cast<size_t>(free), 1)}});
  }
  return theta;
}

// 0, 1, .. along one axis of [1,1,h,w].
ValueId Places(const GraphBuilder& b, int axis, int64_t size) {
  Doubles values;
  for (int64_t i = 0; i < size; ++i) values.push_back(static_cast<double>(i));
  const Ints shape = axis == 2 ? Ints{1, 1, size, 1} : Ints{1, 1, 1, size};
  return b.Add1("table", {}, {{"shape", shape}, {"values", values}});
}

void BuildTransformer(LayerBuilder& l) {
  const SpatialTransformerParameter& p = l.param().st_param();
  const GraphBuilder& b = l.b();
  l.Check(l.bottom_count() == 2, "bottom", "a picture and the numbers of its map are needed: two bottoms");
  l.Check(!l.param().has_spatialtransformer_param(), "spatialtransformer_param",
          "spatialtransformer_param belongs to a layer with one bottom");
  l.Check(p.transform_type() == "affine", "st_param.transform_type",
          StrCat("transform_type must be \"affine\", found \"", p.transform_type(), "\""));
  l.Check(p.sampler_type() == "bilinear", "st_param.sampler_type",
          StrCat("sampler_type must be \"bilinear\", found \"", p.sampler_type(), "\""));
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4 && x.Count() >= 1, "bottom[0]", StrCat("the picture must be [N,C,H,W], found ", x.ToString()));
  const int64_t height = p.has_output_h() ? p.output_h() : x[2];
  const int64_t width = p.has_output_w() ? p.output_w() : x[3];
  l.Check(height >= 1 && width >= 1 && height <= 1 << 20 && width <= 1 << 20, "st_param.output_H",
          StrCat("output_H and output_W must be at least 1, found ", height, " and ", width));
  const Theta theta = ReadTheta(l);
  std::vector<ValueId> inputs = theta.columns;
  const std::string row = StrCat("x", inputs.size());
  const std::string column = StrCat("x", inputs.size() + 1);
  inputs.push_back(Places(b, 2, height));
  inputs.push_back(Places(b, 3, width));
  const std::string s = StrCat("(", row, "*", Number(2.0 / static_cast<double>(height)), "-1)");
  const std::string t = StrCat("(", column, "*", Number(2.0 / static_cast<double>(width)), "-1)");
  // How far from its own place a pixel of the top is read. A border of zeros lies around the picture, hence the + 1.
  const auto way = [&](size_t first, int64_t size, const std::string& own) {
    return b.Pointwise(StrCat("(", theta.numbers[first], "*", s, "+", theta.numbers[first + 1], "*", t, "+",
                              theta.numbers[first + 2], "+1)*", Number(static_cast<double>(size) / 2), "+1-", own),
                       inputs);
  };
  const ValueId down = way(0, x[2], row);
  const ValueId across = way(3, x[3], column);
  const ValueId picture = p.to_compute_du() ? l.bottom(0) : Constant(l, l.bottom(0));
  const ValueId bordered = Bordered(b, Bordered(b, picture, 2, 1, 1, 0), 3, 1, 1, 0);
  const ValueId flow = b.Add1("concat", {across, down}, {{"axis", int64_t{1}}});
  l.SetTop(0, b.Add1("flow_warp", {bordered, flow}));
}

ValueId Mirrored(const GraphBuilder& b, ValueId x, const Ints& axes) { return b.Add1("flip", {x}, {{"axes", axes}}); }

void BuildMirror(LayerBuilder& l) {
  const MirrorRotateParameter& p = l.param().spatialtransformer_param();
  const GraphBuilder& b = l.b();
  l.Check(l.shape(0).rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", l.shape(0).ToString()));
  const bool is_back = p.operation() == MirrorRotateParameter::UNTRANSFORM;
  ValueId y = l.bottom(0);
  if (p.mirror() && !is_back) y = Mirrored(b, y, {3});
  const bool is_left = p.rotate() == (is_back ? MirrorRotateParameter::ROTATE90 : MirrorRotateParameter::ROTATE270);
  if (p.rotate() == MirrorRotateParameter::ROTATE180) {
    y = Mirrored(b, y, {2, 3});
  } else if (p.rotate() != MirrorRotateParameter::NOROTATE) {
    y = Mirrored(b, b.Add1("transpose", {y}, {{"perm", Ints{0, 1, 3, 2}}}), {is_left ? 2 : 3});
  }
  if (p.mirror() && is_back) y = Mirrored(b, y, {3});
  l.SetTop(0, y);
}

void BuildSpatialTransformer(LayerBuilder& l) {
  if (l.bottom_count() == 2 || l.param().has_st_param()) return BuildTransformer(l);
  BuildMirror(l);
}

}  // namespace

LayerDef SpatialTransformerLayer() {
  return {
      .type = "SpatialTransformer",
      .doc =
          "With two bottoms: the picture [N,C,H,W] read where an affine map points from each pixel of the top "
          "[N,C,output_H,output_W] (st_param; default: the picture's size), bilinear, zeros around it. The second "
          "bottom holds the map's six numbers of each picture, without those given in st_param (theta_1_1 ...). "
          "to_compute_dU: false gives the picture no gradient. With one bottom (spatialtransformer_param): pictures "
          "mirrored left to right (mirror, default true), then turned clockwise by rotate; operation UNTRANSFORM "
          "undoes "
          "it.",
      .max_bottoms = 2,
      .build = BuildSpatialTransformer,
      .page = {
          .params = {"st_param", "spatialtransformer_param"},
          .formula =
              "With `s = 2 i / h - 1`, `t = 2 j / w - 1` for row i and column j of the top, of h x w: `y[n,c,i,j]` is "
              "x[n,c] at row `(theta_1_1 s + theta_1_2 t + theta_1_3 + 1) H / 2` and column `(theta_2_1 s + theta_2_2 "
              "t "
              "+ theta_2_3 + 1) W / 2`, between the four pixels around; pixels outside are 0.\n\nWith one bottom: m is "
              "x "
              "with `m[h,w] = x[h,W-1-w]`, or x itself without mirror; the top is m, or turned by 90 degrees "
              "`y[w,H-1-h] "
              "= m[h,w]`, by 180 `y[H-1-h,W-1-w] = m[h,w]`, by 270 `y[W-1-w,h] = m[h,w]`. UNTRANSFORM gives x from y.",
          .gradient = "The picture: dy to the four pixels with their weights. The map's numbers: dy times the slope "
                      "between these pixels, times the derivative of row and column. With one bottom: dy moved back.",
          .source = "Jaderberg et al., \"Spatial Transformer Networks\", 2015, arXiv 1506.02025; Kaichun Mo's "
                    "SpatialTransformerLayer for Caffe (the GPU's, which heeds given thetas). One bottom: DSCLRCN's "
                    "Caffe (Liu, Han, arXiv 1610.01708), spatialtransformer_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 6 dim: 8 } } }
layer { name: "theta" type: "Input" top: "theta" input_param { shape { dim: 2 dim: 4 } } }
layer {
  name: "seen"
  type: "SpatialTransformer"
  bottom: "x"
  bottom: "theta"
  top: "seen"
  st_param { output_H: 4 output_W: 4 theta_1_2: 0 theta_2_1: 0 }
})"}};
}

}  // namespace moka
