// Upsample, two layers of one name told apart by their bottoms. With a mask as second bottom (SegNet, ENet) it is
// max-unpooling: each value goes to the place from which MAX pooling took it. With one bottom (YOLO) every pixel is
// repeated `scale` times down and along.
#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

// Height (axis 2) or width of the top by the deprecated scales.
int64_t Scaled(const LayerBuilder& l, int axis) {
  const UpsampleParameter& p = l.param().upsample_param();
  const bool has_two = p.has_scale_h() && p.has_scale_w();
  l.Check(has_two == (p.has_scale_h() || p.has_scale_w()) && !(has_two && p.has_scale()), "upsample_param",
          "give scale, or both scale_h and scale_w");
  const int64_t scale = !has_two ? p.scale() : axis == 2 ? p.scale_h() : p.scale_w();
  const bool pads = axis == 2 ? p.pad_out_h() : p.pad_out_w();
  const char* field =
      has_two ? (axis == 2 ? "upsample_param.scale_h" : "upsample_param.scale_w") : "upsample_param.scale";
  l.Check(scale > 1, field, StrCat(field, " must be above 1, found ", scale));
  l.Check(!pads || scale == 2, axis == 2 ? "upsample_param.pad_out_h" : "upsample_param.pad_out_w",
          StrCat("pad_out leaves one pixel out, which needs a scale of 2, found ", scale));
  return (Size(l.shape(0)[axis]) * scale).value() - (pads ? 1 : 0);
}

void BuildOfTwoBottoms(LayerBuilder& l) {
  const UpsampleParameter& p = l.param().upsample_param();
  l.Check(!p.has_stride(), "upsample_param.stride", "stride belongs to the Upsample of one bottom; give scale");
  l.Check(
      l.shape(1) == l.shape(0), "bottom[1]",
      StrCat("the mask must have the bottom's shape, found ", l.shape(1).ToString(), " and ", l.shape(0).ToString()));
  l.Check(p.has_upsample_h() == p.has_upsample_w(), "upsample_param",
          "give both upsample_h and upsample_w, or neither");
  Ints size = {p.upsample_h(), p.upsample_w()};
  if (p.has_upsample_h()) {
    l.Check(size[0] > 1 && size[1] > 1, "upsample_param.upsample_h",
            StrCat("upsample_h and upsample_w must be above 1, found ", size[0], " and ", size[1]));
  } else {
    size = {Scaled(l, 2), Scaled(l, 3)};
  }
  l.SetTop(0, l.b().Add1("unpool_max", l.bottoms(), {{"size", size}}));
}

// Every pixel `scale` times down and along.
void Repeat(LayerBuilder& l, int64_t scale) {
  const Shape x = l.shape(0);
  const Ints repeated{x[0], x[1], x[2], scale, x[3], scale};
  const ValueId apart = l.b().Reshape(l.bottom(0), {x[0], x[1], x[2], 1, x[3], 1});
  const ValueId y = l.b().Add1("expand", {apart}, {{"shape", repeated}});
  l.SetTop(0, l.b().Reshape(y, x.With(2, (Size(x[2]) * scale).value()).With(3, (Size(x[3]) * scale).value())));
}

void BuildNearest(LayerBuilder& l) {
  const UpsampleParameter& p = l.param().upsample_param();
  l.Check(!p.has_scale_h() && !p.has_scale_w() && !p.has_upsample_h() && !p.has_upsample_w() && !p.pad_out_h() &&
              !p.pad_out_w(),
          "upsample_param", "these fields need a mask as second bottom; with one bottom give scale");
  l.Check(!p.has_stride() || !p.has_scale(), "upsample_param.stride", "give scale or stride, not both");
  const int64_t scale = p.has_stride() ? p.stride() : p.scale();
  const char* field = p.has_stride() ? "upsample_param.stride" : "upsample_param.scale";
  l.Check(scale >= 1, field, StrCat(field, " must be at least 1, found ", scale));
  Repeat(l, scale);
}

void BuildDarknet(LayerBuilder& l) {
  l.Check(l.shape(0).rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", l.shape(0).ToString()));
  const int64_t stride = l.param().upsample_darknet_param().stride();
  l.Check(stride >= 1, "upsample_darknet_param.stride", StrCat("stride must be at least 1, found ", stride));
  Repeat(l, stride);
}

void BuildUpsample(LayerBuilder& l) {
  l.Check(l.shape(0).rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", l.shape(0).ToString()));
  if (l.bottom_count() == 2) {
    BuildOfTwoBottoms(l);
  } else {
    BuildNearest(l);
  }
}

}  // namespace

LayerDef UpsampleLayer() {
  return {.type = "Upsample",
          .max_bottoms = 2,
          .build = BuildUpsample,
          .traits = {.top_shape = TopShape::kAxes},
          .needs = NeedPictures,
          .params = {"upsample_param"}};
}

LayerDef UpsampleDarknetLayer() {
  return {.type = "UpsampleDarknet", .build = BuildDarknet, .params = {"upsample_darknet_param"}};
}

}  // namespace moka
