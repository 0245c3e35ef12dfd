// Reading ConvolutionParameter: repeated spatial fields or their _h and _w spelling.
#include "core/text.h"
#include "layers/front/fields.h"

namespace moka {
namespace {

constexpr int kMaxSpatial = 3;

// A spatial field in its two spellings.
struct SpatialField {
  std::string name;  // "convolution_param.kernel_size"
  const google::protobuf::RepeatedField<uint32_t>& values;
  std::string name_h;
  bool has_h = false;
  bool has_w = false;
  int64_t h = 0;
  int64_t w = 0;
  int64_t fallback = -1;  // when nothing is given; -1: must be given
  int64_t least = 1;
};

Ints Read(const LayerBuilder& l, const SpatialField& field, int spatial) {
  Ints values;
  if (field.has_h || field.has_w) {
    l.Check(field.values.empty(), field.name_h,
            StrCat("both ", field.name, " and its _h or _w spelling are given; give one of them"));
    l.Check(
        spatial == 2, field.name_h,
        StrCat("the _h and _w fields are for 2 spatial axes, the bottom ", l.shape(0).ToString(), " has ", spatial));
    const bool is_whole = (field.has_h && field.has_w) || field.least == 0;
    l.Check(is_whole, field.name_h, StrCat(field.name, ": both the _h and the _w field are needed"));
    values = {field.h, field.w};
  } else if (field.values.empty()) {
    l.Check(field.fallback >= 0, "convolution_param", StrCat(field.name, " (or its _h and _w fields) must be given"));
    values.assign(static_cast<size_t>(spatial), field.fallback);
  } else {
    const int given = field.values.size();
    l.Check(given == 1 || given == spatial, field.name,
            StrCat(field.name, " is given ", given, " times for ", spatial,
                   " spatial axes; give one value, or one an axis"));
    for (int i = 0; i < spatial; ++i) values.push_back(field.values.Get(given == 1 ? 0 : i));
  }
  for (const int64_t value : values) {
    l.Check(value >= field.least, field.name, StrCat(field.name, " must be at least ", field.least, ", found ", value));
    l.Check(value <= INT32_MAX, field.name, StrCat(field.name, " must be below 2^31, found ", value));
  }
  return values;
}

void CheckBottoms(const LayerBuilder& l) {
  const Shape& x = l.shape(0);
  for (int i = 1; i < l.bottom_count(); ++i) {
    l.Check(l.shape(i) == x, StrCat("bottom[", i, "]"),
            StrCat("all bottoms must have one shape, found ", x.ToString(), " and ", l.shape(i).ToString()));
  }
  const int spatial = x.rank() - 2;
  l.Check(spatial >= 1 && spatial <= kMaxSpatial, "bottom[0]",
          StrCat("the bottom must be [N,C] and 1 to ", kMaxSpatial, " spatial axes, found ", x.ToString()));
  const int64_t axis = l.param().convolution_param().axis();
  l.Check(axis == 1 || axis + x.rank() == 1, "convolution_param.axis",
          StrCat("only axis 1 can hold the channels, found ", axis));
}

}  // namespace

Attributes ConvolutionFields::attributes() const {
  return {{"stride", stride}, {"pad_begin", pad}, {"pad_end", pad}, {"dilation", dilation}, {"groups", groups}};
}

ConvolutionFields ReadConvolution(const LayerBuilder& l) {
  CheckBottoms(l);
  const ConvolutionParameter& p = l.param().convolution_param();
  const int spatial = l.shape(0).rank() - 2;
  const std::string prefix = "convolution_param.";
  ConvolutionFields fields;
  fields.kernel = Read(l,
                       {.name = prefix + "kernel_size",
                        .values = p.kernel_size(),
                        .name_h = prefix + (p.has_kernel_h() ? "kernel_h" : "kernel_w"),
                        .has_h = p.has_kernel_h(),
                        .has_w = p.has_kernel_w(),
                        .h = p.kernel_h(),
                        .w = p.kernel_w()},
                       spatial);
  fields.stride = Read(l,
                       {.name = prefix + "stride",
                        .values = p.stride(),
                        .name_h = prefix + (p.has_stride_h() ? "stride_h" : "stride_w"),
                        .has_h = p.has_stride_h(),
                        .has_w = p.has_stride_w(),
                        .h = p.stride_h(),
                        .w = p.stride_w(),
                        .fallback = 1},
                       spatial);
  fields.pad = Read(l,
                    {.name = prefix + "pad",
                     .values = p.pad(),
                     .name_h = prefix + (p.has_pad_h() ? "pad_h" : "pad_w"),
                     .has_h = p.has_pad_h(),
                     .has_w = p.has_pad_w(),
                     .h = p.pad_h(),
                     .w = p.pad_w(),
                     .fallback = 0,
                     .least = 0},
                    spatial);
  fields.dilation =
      Read(l, {.name = prefix + "dilation", .values = p.dilation(), .name_h = {}, .fallback = 1}, spatial);
  fields.outputs = p.num_output();
  fields.groups = p.group();
  l.Check(fields.outputs >= 1, "convolution_param.num_output", "num_output must be given and at least 1");
  l.Check(fields.groups >= 1, "convolution_param.group", "group must be at least 1");
  const int64_t channels = l.shape(0)[1];
  l.Check(channels % fields.groups == 0, "convolution_param.group",
          StrCat("the bottom's ", channels, " channels ", l.shape(0).ToString(), " do not divide into ", fields.groups,
                 " groups"));
  l.Check(fields.outputs % fields.groups == 0, "convolution_param.group",
          StrCat("num_output ", fields.outputs, " does not divide into ", fields.groups, " groups"));
  return fields;
}

}  // namespace moka
