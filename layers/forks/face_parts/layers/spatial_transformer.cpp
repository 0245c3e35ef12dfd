// Two layers of one name. With two bottoms or st_param: spatial transformer networks (Jaderberg et al., arXiv
// 1506.02025), an image read where an affine map points. Else DSCLRCN's: images mirrored and turned by right angles.
//
// In the former, rows come first: the map gives a row and a column in [-1,1) from a row and a column of the top in
// [-1,1), whose step is 2/H. Around the image lie zeros.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/shape/moves.h"

namespace moka {
namespace {

// The six numbers of the map: each an input of the expression ([N,1,1,1], from the second bottom) or the constant that
// st_param gives.
struct Theta {
  std::vector<ValueId> columns;  // the second bottom's
  std::vector<Term> numbers;     // the six: columns, or given
};

Theta ReadTheta(const LayerBuilder& l) {
  const SpatialTransformerParameter& p = l.param().st_param();
  const GraphBuilder& b = l.b();
  const std::pair<bool, double> given[] = {{p.has_theta_1_1(), p.theta_1_1()}, {p.has_theta_1_2(), p.theta_1_2()},
                                           {p.has_theta_1_3(), p.theta_1_3()}, {p.has_theta_2_1(), p.theta_2_1()},
                                           {p.has_theta_2_2(), p.theta_2_2()}, {p.has_theta_2_3(), p.theta_2_3()}};
  Theta theta;
  int64_t free = 0;
  for (const auto& [is_given, value] : given) {
    theta.numbers.push_back(is_given ? Decimal(Finite(l, "st_param", static_cast<float>(value)))
                                     : Term::Input(static_cast<size_t>(free++)));
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
          StrCat("output_H and output_W must be from 1 to 1048576, found ", height, " and ", width));
  const Theta theta = ReadTheta(l);
  std::vector<ValueId> inputs = theta.columns;
  const Term row = Term::Input(inputs.size());
  const Term column = Term::Input(inputs.size() + 1);
  inputs.push_back(Places(b, 2, height));
  inputs.push_back(Places(b, 3, width));
  const Term s = row * Decimal(2.0 / static_cast<double>(height)) - 1;
  const Term t = column * Decimal(2.0 / static_cast<double>(width)) - 1;
  // How far from its own place a pixel of the top is read. A border of zeros lies around the image, hence the + 1.
  const auto way = [&](size_t first, int64_t size, const Term& own) {
    const std::vector<Term>& a = theta.numbers;
    const Term place = a[first] * s + a[first + 1] * t + a[first + 2];
    return b.Pointwise((place + 1) * Decimal(static_cast<double>(size) / 2) + 1 - own, inputs);
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
  return {.type = "SpatialTransformer",
          .max_bottoms = 2,
          .build = BuildSpatialTransformer,
          .params = {"st_param", "spatialtransformer_param"}};
}

}  // namespace moka
