// Shapes, layouts and tensors against their definitions, element by element.
#include "core/types.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "core/device/tensor.h"
#include "core/error.h"
#include "core/rng.h"

namespace moka {
namespace {

TEST(ShapeTest, CountsAndPrints) {
  const Shape shape{8, 3, 224, 224};
  EXPECT_EQ(shape.Count(), 8 * 3 * 224 * 224);
  EXPECT_EQ(shape.Count(1, 3), 3 * 224);
  EXPECT_EQ(Shape{}.Count(), 1);
  EXPECT_EQ(shape.ToString(), "[8,3,224,224]");
  EXPECT_EQ(shape.With(1, 64).Erased(0).Inserted(2, 7), (Shape{64, 224, 7, 224}));
}

TEST(ShapeTest, RefusesNegativeDimensionsAndTooManyAxes) {
  EXPECT_THROW((Shape{1, -1}), Error);
  EXPECT_THROW(Shape(std::vector<int64_t>(9, 1)), Error);
  EXPECT_THROW(static_cast<void>(Shape{INT64_MAX, 2}.Count()), Error);
}

TEST(ShapeTest, CanonicalAxisCountsFromTheEnd) {
  EXPECT_EQ(CanonicalAxis(-1, Shape{2, 3, 4}, "axis"), 2);
  EXPECT_EQ(CanonicalAxis(0, Shape{2, 3, 4}, "axis"), 0);
  try {
    CanonicalAxis(3, Shape{2, 3, 4}, "axis");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "axis is 3 but the shape [2,3,4] has axes -3 to 2");
  }
}

TEST(LayoutTest, NamesReadBack) {
  for (const std::string name : {"aBcd16b", "ABcd16b16a", "acdb", "Abcd8a", "ABcd4a16b4a", "ba"}) {
    const Layout layout = Layout::Parse(name);
    EXPECT_EQ(layout.Name(layout.rank), name);
    EXPECT_FALSE(layout.is_plain());
  }
  EXPECT_TRUE(Layout::Parse("abcd").is_plain());
  EXPECT_EQ(Layout{}.Name(3), "abc");
}

TEST(LayoutTest, BlockedOffsetsFollowTheDefinition) {
  // [N,C,H,W] = [2,20,3,5] as aBcd16b: offset = (((n*2 + c/16)*3 + h)*5 + w)*16 + c%16.
  const Layout layout = Layout::Parse("aBcd16b");
  const Shape shape{2, 20, 3, 5};
  EXPECT_EQ(layout.Padded(shape), (Shape{2, 32, 3, 5}));
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t c = 0; c < 20; ++c) {
      const std::array<int64_t, 4> index = {n, c, 1, 4};
      EXPECT_EQ(layout.Offset(shape, index), (((n * 2 + c / 16) * 3 + 1) * 5 + 4) * 16 + c % 16);
    }
  }
}

TEST(LayoutTest, OffsetsAreDistinctAndInsideForDoubleBlocks) {
  for (const std::string name : {"ABcd16b16a", "ABcd4a16b4a", "aBcd8b", "acdb", "Abcd8a", "ABcd8b8a"}) {
    const Layout layout = Layout::Parse(name);
    const Shape shape{20, 18, 2, 3};
    const int64_t stored = layout.Padded(shape).Count();
    std::set<int64_t> seen;
    std::array<int64_t, 4> index{};
    for (index[0] = 0; index[0] < shape[0]; ++index[0]) {
      for (index[1] = 0; index[1] < shape[1]; ++index[1]) {
        for (index[2] = 0; index[2] < shape[2]; ++index[2]) {
          for (index[3] = 0; index[3] < shape[3]; ++index[3]) {
            const int64_t offset = layout.Offset(shape, index);
            EXPECT_GE(offset, 0);
            EXPECT_LT(offset, stored);
            EXPECT_TRUE(seen.insert(offset).second) << name << " repeats " << offset;
          }
        }
      }
    }
  }
}

TEST(LayoutTest, SimplifiedFindsRowMajorOrder) {
  EXPECT_TRUE(Layout::Parse("aBcd16b").Simplified({8, 2048, 1, 1}).is_plain());
  EXPECT_TRUE(Layout::Parse("acdb").Simplified({8, 64, 1, 1}).is_plain());
  EXPECT_TRUE(Layout::Parse("acdb").Simplified({8, 1, 5, 5}).is_plain());
  EXPECT_FALSE(Layout::Parse("aBcd16b").Simplified({8, 2047, 1, 1}).is_plain());  // padded
  EXPECT_FALSE(Layout::Parse("aBcd16b").Simplified({8, 32, 2, 1}).is_plain());
  EXPECT_TRUE(Layout::Parse("aBcd16b").Simplified({8, 16, 1, 1}).is_plain());
  EXPECT_FALSE(Layout::Parse("aBcd16b").Simplified({8, 16, 7, 7}).is_plain());
}

TEST(TensorTest, CopyChangesLayoutAndZeroesPadding) {
  const Shape shape{2, 5, 3, 2};
  OwnedTensor plain({DType::kFloat32, shape, {}});
  std::iota(plain.as<float>().begin(), plain.as<float>().end(), 1.0F);
  OwnedTensor blocked({DType::kFloat32, shape, Layout::Parse("aBcd8b")});
  std::fill(blocked.as<float>().begin(), blocked.as<float>().end(), 99.0F);
  CopyTensor(plain.tensor(), blocked.tensor());
  float sum = 0;
  for (const float v : blocked.as<float>()) sum += v;
  EXPECT_EQ(sum, 60 * 61 / 2);  // the values and zeros
  OwnedTensor back({DType::kFloat32, shape, {}});
  CopyTensor(blocked.tensor(), back.tensor());
  EXPECT_TRUE(std::equal(plain.as<float>().begin(), plain.as<float>().end(), back.as<float>().begin()));
}

TEST(TensorTest, CopyConvertsHalfTypes) {
  OwnedTensor from({DType::kFloat32, Shape{4}, {}});
  const std::array<float, 4> values = {1.0F, -2.5F, 65504.0F, 0.0078125F};
  std::copy(values.begin(), values.end(), from.as<float>().begin());
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    OwnedTensor half({dtype, Shape{4}, {}});
    OwnedTensor back({DType::kFloat32, Shape{4}, {}});
    CopyTensor(from.tensor(), half.tensor());
    CopyTensor(half.tensor(), back.tensor());
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(back.as<float>()[i], values[i], std::abs(values[i]) * 0x1p-8F);
  }
}

TEST(TensorTest, AsRefusesAnotherType) {
  const OwnedTensor tensor({DType::kInt32, Shape{2}, {}});
  EXPECT_THROW(static_cast<void>(tensor.as<float>()), Error);
}

}  // namespace
}  // namespace moka
