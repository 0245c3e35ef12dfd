// Reading ConvolutionParameter.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/types/convolution/spatial_fields.h"

namespace moka {
namespace {

void CheckBottoms(const LayerBuilder& l) {
  const Shape x = l.shape(0);
  const auto fuse = l.param().convolution_param().fuse_type();
  if (fuse == ConvolutionParameter::FUSED_CONV_ELTWISE_RELU) return;  // the second one is added
  for (int i = 1; i < l.bottom_count(); ++i) {
    l.Check(l.shape(i) == x, StrCat("bottom[", i, "]"),
            StrCat("all bottoms must have one shape, found ", x.ToString(), " and ", l.shape(i).ToString()));
  }
}

// num_output and group, which the depthwise types of forks imply or bind to the bottom's channels.
void ReadCounts(const LayerBuilder& l, int64_t channels, ConvolutionFields& fields) {
  const ConvolutionParameter& p = l.param().convolution_param();
  fields.outputs = p.num_output();
  fields.groups = p.group();
  if (l.param().type() == "ConvolutionDepthwise") {  // conv_dw_layer.cpp reads neither field
    const auto check = [&](std::string_view name, bool is_given, int64_t value) {
      l.Check(!is_given || value == channels, StrCat("convolution_param.", name),
              StrCat("ConvolutionDepthwise has a top channel and a group for each of the bottom's ", channels,
                     " channels, found ", name, " ", value));
    };
    check("num_output", p.has_num_output(), fields.outputs);
    check("group", p.has_group(), fields.groups);
    fields.outputs = fields.groups = channels;
  }
  l.Check(l.param().type() != "DepthwiseConvolution" || fields.groups == channels, "convolution_param.group",
          StrCat("DepthwiseConvolution needs a group for each of the bottom's ", channels, " channels, found ",
                 fields.groups));
  l.Check(fields.outputs >= 1, "convolution_param.num_output", "num_output must be given and at least 1");
  l.Check(fields.groups >= 1, "convolution_param.group", "group must be at least 1");
}

}  // namespace

Attributes ConvolutionFields::attributes() const {
  return {{"stride", stride}, {"pad_begin", pad}, {"pad_end", pad_end}, {"dilation", dilation}, {"groups", groups}};
}

ConvolutionFields ReadConvolution(const LayerBuilder& l) {
  CheckBottoms(l);
  const ConvolutionParameter& p = l.param().convolution_param();
  const std::string param = "convolution_param";
  const Shape x = ChannelAxis(l).shape();
  const WindowFields window = ReadWindow(l, x, param, p, true);
  ConvolutionFields fields{
      .kernel = window.kernel, .stride = window.stride, .pad = window.pad, .pad_end = window.pad_end, .dilation = {}};
  SpatialField dilation{.name = param + ".dilation", .name_h = param + ".dilation_h", .values = IntsOf(p.dilation())};
  if (p.has_dilation_h()) dilation.h = p.dilation_h();
  if (p.has_dilation_w()) dilation.w = p.dilation_w();
  const bool has_dilation = p.dilation_size() > 0 || p.has_dilation_h() || p.has_dilation_w();
  l.Check(!has_dilation || !(p.has_hole() || p.has_hole_h() || p.has_hole_w()), "convolution_param.dilation",
          "hole and dilation are two names of one thing; give one of them");
  if (p.has_hole()) dilation.values.push_back(p.hole());
  if (p.has_hole_h()) dilation.h = p.hole_h();
  if (p.has_hole_w()) dilation.w = p.hole_w();
  dilation.fallback = 1;
  fields.dilation = ReadSpatial(l, dilation, SpatialAxes(l, x));
  const int64_t channels = x[1];
  ReadCounts(l, channels, fields);
  l.Check(channels % fields.groups == 0, "convolution_param.group",
          StrCat("the bottom's ", channels, " channels ", l.shape(0).ToString(), " do not divide into ", fields.groups,
                 " groups"));
  l.Check(fields.outputs % fields.groups == 0, "convolution_param.group",
          StrCat("num_output ", fields.outputs, " does not divide into ", fields.groups, " groups"));
  return fields;
}

}  // namespace moka
