// The way between Moka's layouts and oneDNN's descriptions, of either of its majors.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/rng.h"
#include "core/text.h"
#include "layers/kernels/cpu/onednn/onednn.h"
#include "layers/kernels/cpu/onednn/onednn_weights.h"

namespace moka {
namespace {

using onednn::MemoryDesc;

TensorType Float(std::initializer_list<int64_t> dims, std::string_view layout = "") {
  return {DType::kFloat32, Shape(dims), layout.empty() ? Layout{} : Layout::Parse(layout)};
}

MemoryDesc ByTag(const Shape& shape, dnnl_format_tag_t tag) {
  return MemoryDesc::Named(shape.rank(), shape.dims().data(), dnnl_f32, tag);
}

struct Tagged {
  const char* name;
  dnnl_format_tag_t tag;
};
constexpr Tagged kTags[] = {
    {"abcd", dnnl_abcd},
    {"acdb", dnnl_acdb},
    {"aBcd16b", dnnl_aBcd16b},
    {"aBcd8b", dnnl_aBcd8b},
    {"ABcd16b16a", dnnl_ABcd16b16a},
    {"ABcd16a16b", dnnl_ABcd16a16b},
    {"ABcd8b8a", dnnl_ABcd8b8a},
    {"Acdb16a", dnnl_Acdb16a},
    {"Abcd16a", dnnl_Abcd16a},
    {"cdba", dnnl_cdba},
    {"bacd", dnnl_bacd},
};

TEST(OnednnLayout, DescriptionsEqualOnednnsTags) {
  for (const Tagged& t : kTags) {
    const TensorType type = Float({35, 19, 5, 7}, t.name);
    const MemoryDesc ours = onednn::Describe(type);
    EXPECT_TRUE(ours == ByTag(type.shape, t.tag)) << t.name;
    EXPECT_EQ(ours.bytes(), type.Bytes()) << t.name;
  }
}

TEST(OnednnLayout, LayoutsOfTagsHaveTheirNames) {
  for (const Tagged& t : kTags) {
    const auto layout = onednn::LayoutOf(ByTag(Shape{35, 19, 5, 7}, t.tag));
    ASSERT_TRUE(layout.has_value()) << t.name;
    EXPECT_EQ(layout->Name(4), t.name);
  }
}

// Strides of dimensions of 1 are ambiguous; oneDNN compares them all the same.
TEST(OnednnLayout, RoundTripIsExactWithDimensionsOfOne) {
  RandomStream random(7, 1);
  for (int i = 0; i < 500; ++i) {
    Shape shape{1, 1, 1, 1};
    for (int axis = 0; axis < 4; ++axis) {
      if (random.Below(2) == 0) shape = shape.With(axis, 1 + static_cast<int64_t>(random.Below(40)));
    }
    const Tagged& t = kTags[random.Below(std::size(kTags))];
    const MemoryDesc theirs = ByTag(shape, t.tag);
    const auto layout = onednn::LayoutOf(theirs);
    ASSERT_TRUE(layout.has_value()) << t.name << shape.ToString();
    const MemoryDesc ours = onednn::Describe({DType::kFloat32, shape, *layout});
    EXPECT_TRUE(ours == theirs) << t.name << shape.ToString() << layout->Name(4);
  }
}

TEST(OnednnLayout, ScalarsAreVectorsOfOne) {
  const onednn::Format format = onednn::Describe(Float({}));
  EXPECT_EQ(format.ndims, 1);
  EXPECT_EQ(format.dims[0], 1);
  EXPECT_FALSE(MemoryDesc(format).is_empty());
}

// The plain values come back as they were given, whatever the library keeps of them.
TEST(OnednnLayout, FormatsComeBackFromTheLibrary) {
  for (const Tagged& t : kTags) {
    const onednn::Format ours = onednn::Describe(Float({35, 19, 5, 7}, t.name));
    const auto back = MemoryDesc(ours).format();
    ASSERT_TRUE(back.has_value()) << t.name;
    EXPECT_EQ(back->data_type, ours.data_type);
    ASSERT_EQ(back->ndims, ours.ndims);
    ASSERT_EQ(back->inner_nblks, ours.inner_nblks);
    for (int i = 0; i < ours.ndims; ++i) {
      EXPECT_EQ(back->dims[i], ours.dims[i]) << t.name;
      EXPECT_EQ(back->padded_dims[i], ours.padded_dims[i]) << t.name;
      EXPECT_EQ(back->strides[i], ours.strides[i]) << t.name;
    }
    for (int b = 0; b < ours.inner_nblks; ++b) {
      EXPECT_EQ(back->inner_blks[b], ours.inner_blks[b]) << t.name;
      EXPECT_EQ(back->inner_idxs[b], ours.inner_idxs[b]) << t.name;
    }
  }
}

TEST(OnednnLayout, NothingHasNoDescription) {
  EXPECT_TRUE(MemoryDesc().is_empty());
  EXPECT_EQ(MemoryDesc().bytes(), 0);
  EXPECT_FALSE(MemoryDesc().format().has_value());
  EXPECT_TRUE(MemoryDesc() == MemoryDesc::CopyOf(nullptr));
  EXPECT_FALSE(MemoryDesc() == MemoryDesc(onednn::Describe(Float({2}))));
}

TEST(OnednnLayout, WhatIsNoLayoutIsRefused) {
  EXPECT_TRUE(onednn::LayoutOf(ByTag(Shape{2, 16, 4, 4}, dnnl_aBcd16b)).has_value());
  onednn::Format gaps = onednn::Describe(Float({2, 16, 4, 4}));
  EXPECT_TRUE(onednn::LayoutOf(gaps).has_value());
  gaps.strides[0] *= 2;  // between images
  EXPECT_FALSE(onednn::LayoutOf(gaps).has_value());
  EXPECT_FALSE(onednn::LayoutOf(MemoryDesc(gaps)).has_value());
  EXPECT_FALSE(onednn::LayoutOf(onednn::DescribeAny(Float({2, 16, 4, 4}))).has_value());
  EXPECT_FALSE(onednn::LayoutOf(MemoryDesc(onednn::DescribeAny(Float({2, 16, 4, 4})))).has_value());
}

// Weights of signed inputs have a sum for each output behind them, where oneDNN has a kernel that wants it: the bytes
// are then more than the layout's.
TEST(OnednnLayout, WeightsWithSumsBesideThemAreNoLayout) {
  const TensorType x{DType::kInt8, Shape{1, 64, 8, 8}, Layout::Parse("acdb")};
  const TensorType w{DType::kInt8, Shape{64, 64, 3, 3}, {}};
  onednn::ConvolutionProblem p{.x = onednn::Describe(x),
                               .w = onednn::DescribeAny(w),
                               .bias = {},
                               .y = onednn::Describe({DType::kInt8, Shape{1, 64, 6, 6}, Layout::Parse("acdb")}),
                               .windows = {}};
  std::fill_n(p.windows.strides, 2, 1);
  const onednn::PrimitiveDesc desc = onednn::Convolution(dnnl_forward_inference, p);
  ASSERT_TRUE(desc.ok()) << desc.Refusal();
  const MemoryDesc weights = desc.md(dnnl_query_weights_md);
  EXPECT_EQ(onednn::LayoutOf(weights).has_value(), weights.bytes() == w.Bytes()) << desc.implementation();
}

struct GroupedTag {
  const char* name;  // over [K,C/groups,h,w]
  int64_t groups;
  int64_t outputs;   // of one group
  int64_t channels;  // of one group
  dnnl_format_tag_t tag;
};

TEST(OnednnLayout, GroupedWeightsAreLayoutsOverAllOutputs) {
  const GroupedTag tags[] = {
      {"abcd", 4, 6, 3, dnnl_goihw},
      {"Abcd16a", 48, 1, 1, dnnl_Goihw16g},
      {"Abcd16a", 35, 1, 1, dnnl_Goihw16g},
      {"Abcd8a", 19, 1, 1, dnnl_Goihw8g},
      {"ABcd16b16a", 2, 32, 48, dnnl_gOIhw16i16o},
      {"ABcd16a16b", 3, 16, 32, dnnl_gOIhw16o16i},
      {"ABcd8b8a", 2, 24, 8, dnnl_gOIhw8i8o},
      {"Acdb16a", 2, 32, 3, dnnl_gOhwi16o},
  };
  for (const GroupedTag& t : tags) {
    const TensorType flat = Float({t.groups * t.outputs, t.channels, 3, 5}, t.name);
    const MemoryDesc theirs = ByTag(Shape{t.groups, t.outputs, t.channels, 3, 5}, t.tag);
    const auto ours = onednn::DescribeWeights(flat, t.groups);
    ASSERT_TRUE(ours.has_value()) << t.name;
    EXPECT_TRUE(MemoryDesc(*ours) == theirs) << t.name << " groups " << t.groups;
    const auto layout = onednn::WeightsLayoutOf(theirs, t.groups);
    ASSERT_TRUE(layout.has_value()) << t.name;
    EXPECT_EQ(layout->Name(4), t.name);
  }
}

TEST(OnednnLayout, BlocksThatCrossGroupsAreNoLayout) {
  // 24 outputs a group padded to 32 leave gaps between groups.
  EXPECT_FALSE(onednn::WeightsLayoutOf(ByTag(Shape{2, 24, 16, 3, 3}, dnnl_gOIhw16i16o), 2).has_value());
  EXPECT_FALSE(onednn::DescribeWeights(Float({48, 16, 3, 3}, "ABcd16b16a"), 2).has_value());
  // Two outputs a group: a block over groups is no block over outputs.
  EXPECT_FALSE(onednn::WeightsLayoutOf(ByTag(Shape{16, 2, 1, 3, 3}, dnnl_Goihw16g), 16).has_value());
}

// The element [k,c,h,w] lies where oneDNN's [g,o,c,h,w] does.
TEST(OnednnLayout, GroupedOffsetsAgree) {
  const int64_t groups = 3;
  const TensorType flat = Float({48, 16, 2, 3}, "ABcd8b8a");
  const auto md = onednn::DescribeWeights(flat, groups);
  ASSERT_TRUE(md.has_value());
  const auto grouped = onednn::LayoutOf(*md);
  ASSERT_TRUE(grouped.has_value());
  const Shape five{groups, 16, 16, 2, 3};
  for (int64_t k = 0; k < 48; ++k) {
    for (int64_t c = 0; c < 16; ++c) {
      const std::array<int64_t, 4> four_index = {k, c, 1, 2};
      const std::array<int64_t, 5> five_index = {k / 16, k % 16, c, 1, 2};
      ASSERT_EQ(flat.layout.Offset(flat.shape, four_index), grouped->Offset(five, five_index));
    }
  }
}

TEST(OnednnErrors, NameTheFunctionAndTheStatus) {
  EXPECT_NO_THROW(onednn::Check(dnnl_success, "dnnl_x"));
  try {
    onednn::Check(dnnl_unimplemented, "dnnl_primitive_create");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_STREQ(error.what(), "oneDNN: dnnl_primitive_create failed: not implemented for these types");
  }
}

}  // namespace
}  // namespace moka
