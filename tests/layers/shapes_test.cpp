// Shape arithmetic of ops against an oracle in 128-bit integers over hostile parameters, and the texts of refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/rng.h"
#include "core/text.h"
#include "layers/net/catalog.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

__extension__ using Wide = __int128;
using Dims = std::vector<Wide>;
constexpr Wide kMax = INT64_MAX;

// Mostly small numbers, sometimes the ones that break arithmetic.
class Hostile {
 public:
  explicit Hostile(uint64_t seed) : random_(seed, 1) {}
  int64_t Number() {
    constexpr std::array<int64_t, 9> kSpecial = {0, 1, -1, INT32_MAX, UINT32_MAX, INT64_MAX, INT64_MIN, -2, 1LL << 31};
    if (random_.Below(24) == 0) return kSpecial[random_.Below(kSpecial.size())];
    return Small();
  }
  int64_t Small() { return static_cast<int64_t>(random_.Below(9)); }
  // Never negative: what a tensor can have.
  int64_t Dimension() {
    constexpr std::array<int64_t, 4> kSpecial = {INT32_MAX, UINT32_MAX, INT64_MAX, 1LL << 31};
    if (random_.Below(32) == 0) return kSpecial[random_.Below(kSpecial.size())];
    return Small();
  }
  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  Ints Numbers(int count, int64_t usual) {
    Ints values;
    for (int i = 0; i < count; ++i) values.push_back(Below(3) == 0 ? Number() : usual);
    return values;
  }
  Shape Dimensions(int count) {
    Ints dims;
    for (int i = 0; i < count; ++i) dims.push_back(Dimension());
    return Shape(dims);
  }

 private:
  RandomStream random_;
};

TensorType Type(const Shape& shape) { return {DType::kFloat32, shape, {}}; }

// The shape infer gives, or none if it refuses. Anything but moka::Error fails the test by leaving it.
std::optional<Shape> Infer(std::string_view op, const Attributes& attributes, const std::vector<TensorType>& inputs) {
  const OpDef& def = StandardCatalog().Op(op);
  Attributes full = attributes;
  for (const AttributeSpec& spec : def.attributes) {
    if (spec.fallback && !full.Has(spec.name)) full.Set(spec.name, *spec.fallback);
  }
  try {
    return def.infer(full, inputs)[0].shape;
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what();
    return std::nullopt;
  }
}

// The oracle's result as a shape; none if a float32 tensor of it has more than 2^63-1 bytes.
std::optional<Shape> Accept(const Dims& dims) {
  Wide bytes = 4;
  bool overflow = false;
  Ints values;
  // As Size multiplies: from the left, refusing the first product that does not fit (a later 0 does not save it).
  Wide count = 1;
  for (const Wide dim : dims) {
    if (dim < 0 || dim > kMax) return std::nullopt;
    count *= dim;
    overflow = overflow || count > kMax;
    if (overflow) return std::nullopt;
    values.push_back(static_cast<int64_t>(dim));
  }
  bytes *= count;
  if (bytes > kMax) return std::nullopt;
  return Shape(values);
}

Dims WideDims(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

struct Window {
  Ints kernel, stride, begin, end, dilation;
  bool Valid() const {
    const auto all = [](const Ints& values, int64_t least) {
      return std::ranges::all_of(values, [least](int64_t v) { return v >= least; });
    };
    return all(kernel, 1) && all(stride, 1) && all(begin, 0) && all(end, 0) && all(dilation, 1);
  }
  // Positions along dimension i; none if the window is larger than the padded input or a sum leaves 63 bits.
  std::optional<Wide> Positions(size_t i, Wide input) const {
    const Wide extent = Wide{dilation[i]} * (Wide{kernel[i]} - 1) + 1;
    const Wide padded = input + begin[i] + end[i];
    if (input < 1 || extent > padded || padded > kMax || extent > kMax) return std::nullopt;
    return (padded - extent) / stride[i] + 1;
  }
  Attributes ToAttributes(bool is_pool) const {
    Attributes a{{"stride", stride}, {"pad_begin", begin}, {"pad_end", end}};
    a.Set(is_pool ? "kernel" : "dilation", is_pool ? kernel : dilation);
    return a;
  }
};

Window RandomWindow(Hostile& h, int rank, const Ints& kernel) {
  return {kernel, h.Numbers(rank, 1), h.Numbers(rank, 1), h.Numbers(rank, 0), h.Numbers(rank, 1)};
}

constexpr int kTrials = 100000;

TEST(ShapeArithmetic, ConvolutionAgreesWithTheOracle) {
  Hostile h(1);
  int accepted = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const int rank = static_cast<int>(h.Below(3)) + 1;
    Shape x = h.Dimensions(rank + 2);
    Shape w = h.Dimensions(rank + 2);
    const int64_t groups = h.Below(4) == 0 ? h.Number() : 1 + static_cast<int64_t>(h.Below(2));
    if (h.Below(4) != 0 && groups > 0) w = w.With(1, x[1] / groups);
    const Window window = RandomWindow(h, rank, Ints(w.dims().begin() + 2, w.dims().end()));
    Attributes a = window.ToAttributes(false);
    a.Set("groups", groups);

    std::optional<Shape> expected;
    const bool channels =
        groups >= 1 && x[1] >= 1 && w[0] >= 1 && x[1] % groups == 0 && w[0] % groups == 0 && w[1] == x[1] / groups;
    if (window.Valid() && channels) {
      Dims y = {x[0], w[0]};
      for (int i = 0; i < rank; ++i) y.push_back(window.Positions(static_cast<size_t>(i), x[i + 2]).value_or(-1));
      expected = Accept(y);
    }
    ASSERT_EQ(Infer("convolution", a, {Type(x), Type(w)}), expected)
        << x.ToString() << " " << w.ToString() << " " << a.ToString();
    accepted += expected ? 1 : 0;
  }
  EXPECT_GT(accepted, kTrials / 50);
}

TEST(ShapeArithmetic, DeconvolutionAgreesWithTheOracle) {
  Hostile h(2);
  int accepted = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const int rank = static_cast<int>(h.Below(3)) + 1;
    const Shape w = h.Dimensions(rank + 2);
    Shape dy = h.Dimensions(rank + 2);
    if (h.Below(4) != 0) dy = dy.With(1, w[0]);
    const int64_t groups = h.Below(4) == 0 ? h.Number() : 1 + static_cast<int64_t>(h.Below(2));
    const Window window = RandomWindow(h, rank, Ints(w.dims().begin() + 2, w.dims().end()));
    Attributes a = window.ToAttributes(false);
    a.Set("groups", groups);

    std::optional<Shape> expected;
    const bool channels = groups >= 1 && w[0] >= 1 && w[1] >= 1 && dy[1] == w[0] && w[0] % groups == 0;
    if (window.Valid() && channels) {
      Dims x = {dy[0], Wide{w[1]} * groups};
      for (int i = 0; i < rank; ++i) {
        const auto s = static_cast<size_t>(i);
        const Wide size = Wide{window.stride[s]} * (Wide{dy[i + 2]} - 1) +
                          Wide{window.dilation[s]} * (Wide{window.kernel[s]} - 1) + 1 - window.begin[s] - window.end[s];
        const Wide before_pads = Wide{window.stride[s]} * (Wide{dy[i + 2]} - 1) +
                                 Wide{window.dilation[s]} * (Wide{window.kernel[s]} - 1) + 1;
        const bool fits = dy[i + 2] >= 1 && size >= 1 && before_pads <= kMax;
        x.push_back(fits ? size : -1);
      }
      expected = Accept(x);
    }
    std::optional<Shape> found;
    try {
      found = DeconvolutionOutput("deconvolution", a, dy, w);
      (void)Type(*found).Bytes();
    } catch (const Error&) {
      found.reset();
    }
    ASSERT_EQ(found, expected) << dy.ToString() << " " << w.ToString() << " " << a.ToString();
    accepted += expected ? 1 : 0;
    if (!expected) continue;
    // The op takes it, and the convolution of the result has dy's shape again.
    a.Set("input_shape", Ints(expected->dims().begin(), expected->dims().end()));
    ASSERT_EQ(Infer("convolution_backward_data", a, {Type(dy), Type(w)}), expected);
  }
  EXPECT_GT(accepted, kTrials / 50);
}

TEST(ShapeArithmetic, PoolingAgreesWithTheOracle) {
  Hostile h(3);
  int accepted = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const int rank = static_cast<int>(h.Below(3)) + 1;
    const Shape x = h.Dimensions(rank + 2);
    Window window = RandomWindow(h, rank, h.Numbers(rank, 2));
    window.dilation = Ints(static_cast<size_t>(rank), 1);
    const Attributes a = window.ToAttributes(true);

    std::optional<Shape> expected;
    if (window.Valid()) {
      Dims y = {x[0], x[1]};
      for (int i = 0; i < rank; ++i) {
        const auto s = static_cast<size_t>(i);
        const Wide out = window.Positions(s, x[i + 2]).value_or(-1);
        const Wide last_start = (out - 1) * window.stride[s] - window.begin[s];
        y.push_back(window.begin[s] >= window.kernel[s] || last_start >= x[i + 2] ? -1 : out);
      }
      expected = Accept(y);
    }
    Wide window_size = 1;  // the dtype of argmax needs it in 63 bits
    for (const int64_t k : window.kernel) window_size = std::min<Wide>(window_size * k, kMax + Wide{1});
    if (expected && window_size > kMax) expected.reset();
    ASSERT_EQ(Infer("pool_max", a, {Type(x)}), expected) << x.ToString() << " " << a.ToString();
    accepted += expected ? 1 : 0;
  }
  EXPECT_GT(accepted, kTrials / 50);
}

TEST(ShapeArithmetic, SliceConcatAndReshapeAgreeWithTheOracle) {
  Hostile h(4);
  int accepted = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const int rank = static_cast<int>(h.Below(4)) + 1;
    const Shape x = h.Dimensions(rank);
    const auto axis = static_cast<int>(h.Below(static_cast<uint64_t>(rank)));
    Ints sizes = {h.Number(), h.Number()};
    if (h.Below(2) == 0 && sizes[0] >= 0 && sizes[0] <= x[axis]) sizes[1] = x[axis] - sizes[0];
    std::optional<Shape> expected;
    if (sizes[0] >= 0 && sizes[1] >= 0 && Wide{sizes[0]} + sizes[1] == x[axis]) {
      Dims first = WideDims(x);
      first[static_cast<size_t>(axis)] = sizes[0];
      Dims second = WideDims(x);
      second[static_cast<size_t>(axis)] = sizes[1];
      if (Accept(second)) expected = Accept(first);
    }
    ASSERT_EQ(Infer("slice", {{"axis", int64_t{axis}}, {"sizes", sizes}}, {Type(x)}), expected)
        << x.ToString() << " axis " << axis << " " << ToText(AttributeValue(sizes));

    const Shape other = h.Below(4) == 0 ? h.Dimensions(rank) : x.With(axis, h.Dimension());
    Dims joined = WideDims(x);
    joined[static_cast<size_t>(axis)] += other[axis];
    const bool fits = other.With(axis, 0) == x.With(axis, 0);
    const std::optional<Shape> sum = fits ? Accept(joined) : std::nullopt;
    ASSERT_EQ(Infer("concat", {{"axis", int64_t{axis}}}, {Type(x), Type(other)}), sum)
        << x.ToString() << " " << other.ToString() << " axis " << axis;

    Ints target = h.Numbers(static_cast<int>(h.Below(4)), h.Small());
    const auto count = [](const auto& dims) -> std::optional<Wide> {
      Wide product = 1;
      for (const Wide dim : dims) {
        product *= dim;
        if (dim < 0 || product > kMax) return std::nullopt;
      }
      return product;
    };
    const std::optional<Wide> before = count(x.dims());
    const bool same = before.has_value() && count(target) == before;
    const std::optional<Shape> reshaped = same ? Accept(Dims(target.begin(), target.end())) : std::nullopt;
    ASSERT_EQ(Infer("reshape", {{"shape", target}}, {Type(x)}), reshaped)
        << x.ToString() << " " << ToText(AttributeValue(target));
    accepted += (expected ? 1 : 0) + (sum ? 1 : 0) + (reshaped ? 1 : 0);
  }
  EXPECT_GT(accepted, kTrials / 10);
}

// Refusals -----------------------------------------------------------------------------------------------------------

std::string Refusal(std::string_view op, const Attributes& attributes, const std::vector<TensorType>& inputs) {
  const OpDef& def = StandardCatalog().Op(op);
  Attributes full = attributes;
  for (const AttributeSpec& spec : def.attributes) {
    if (spec.fallback && !full.Has(spec.name)) full.Set(spec.name, *spec.fallback);
  }
  try {
    (void)def.infer(full, inputs);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.what();
  }
  return "accepted";
}

Attributes ConvolutionOf(Ints stride, Ints pad, int64_t groups = 1) {
  return {
      {"stride", stride}, {"pad_begin", pad}, {"pad_end", pad}, {"dilation", Ints(pad.size(), 1)}, {"groups", groups}};
}

TEST(ShapeRefusals, SayWhatWasFoundAndNeeded) {
  using testing::HasSubstr;
  const TensorType x = Type({2, 4, 5, 5});
  const auto conv = [&](const Shape& w, const Attributes& a) { return Refusal("convolution", a, {x, Type(w)}); };
  EXPECT_EQ(conv({8, 4, 9, 3}, ConvolutionOf({1, 1}, {1, 1})),
            "convolution: the window covers 9 elements (kernel 9, dilation 1) but spatial dimension 0 has only 5 + "
            "padding 1 + 1 = 7");
  EXPECT_EQ(conv({8, 4, 3, 3}, ConvolutionOf({0, 1}, {1, 1})), "convolution: stride must be at least 1, found [0,1]");
  EXPECT_EQ(conv({8, 4, 3, 3}, ConvolutionOf({1, 1}, {-1, 1})),
            "convolution: pad_begin must be at least 0, found [-1,1]");
  EXPECT_EQ(conv({8, 4, 3, 3}, ConvolutionOf({1}, {1, 1})),
            "convolution: stride has 1 values [1] for 2 spatial dimensions");
  EXPECT_EQ(conv({8, 4, 3, 3}, ConvolutionOf({1, 1}, {1, 1}, 3)),
            "convolution: groups is 3 but does not divide the 4 channels of x [2,4,5,5]");
  EXPECT_EQ(conv({7, 2, 3, 3}, ConvolutionOf({1, 1}, {1, 1}, 2)),
            "convolution: groups is 2 but does not divide the 7 outputs of weight [7,2,3,3]");
  EXPECT_EQ(conv({8, 3, 3, 3}, ConvolutionOf({1, 1}, {1, 1})),
            "convolution: weight [8,3,3,3] has 3 input channels but x [2,4,5,5] has 4 channels in 1 groups, 4 each");
  EXPECT_THAT(conv({8, 4, 3}, ConvolutionOf({1, 1}, {1, 1})), HasSubstr("same rank, found [2,4,5,5] and [8,4,3]"));
  const Attributes pool{
      {"kernel", Ints{2, -3}}, {"stride", Ints{1, 1}}, {"pad_begin", Ints{0, 0}}, {"pad_end", Ints{0, 0}}};
  EXPECT_EQ(Refusal("pool_max", pool, {x}), "pool_max: kernel must be at least 1, found [2,-3]");
  const Attributes padded{
      {"kernel", Ints{2, 2}}, {"stride", Ints{1, 1}}, {"pad_begin", Ints{2, 0}}, {"pad_end", Ints{0, 0}}};
  EXPECT_THAT(Refusal("pool_max", padded, {x}),
              HasSubstr("a window would hold padding only along spatial dimension 0"));
  EXPECT_EQ(Refusal("concat", {{"axis", int64_t{1}}}, {x, Type({2, 4, 5, 6})}),
            "concat: inputs may differ along axis 1 only, but input 0 is [2,4,5,5] and input 1 is [2,4,5,6]");
  EXPECT_EQ(Refusal("slice", {{"axis", int64_t{1}}, {"sizes", Ints{1, 2}}}, {x}),
            "slice: the parts [1,2] must add up to dimension 1 of [2,4,5,5]");
  EXPECT_EQ(Refusal("reshape", {{"shape", Ints{3, 5}}}, {x}),
            "reshape: x [2,4,5,5] has 200 elements but the shape [3,5] has 15");
  EXPECT_EQ(Refusal("softmax_loss", {}, {Type({4, 10}), Type({5})}),
            "softmax_loss: x [4,10] with classes along axis 1 needs 4 labels, found 5 in [5]");
  EXPECT_EQ(Refusal("matmul", {}, {Type({4, 10}), Type({9, 3})}),
            "matmul: cannot multiply a [4,10] by b [9,3]; leading dimensions and the inner one must agree");
  EXPECT_EQ(Refusal("cast", {{"dtype", std::string("flaot32")}}, {x}),
            "cast: there is no element type \"flaot32\"; did you mean \"float32\"?");
  EXPECT_EQ(Refusal("lrn", {{"size", int64_t{4}}, {"alpha", 1.0}, {"beta", 0.75}}, {x}),
            "lrn: size must be odd and at least 1, found 4");
  EXPECT_EQ(Refusal("accuracy", {{"top_k", int64_t{11}}}, {Type({4, 10}), Type({4})}),
            "accuracy: top_k is 11 but must be 1 to the 10 classes of [4,10]");
  EXPECT_EQ(Refusal("transpose", {{"perm", Ints{0, 0, 1, 2}}}, {x}),
            "transpose: perm [0,0,1,2] must name each axis of x [2,4,5,5] once");
  EXPECT_EQ(Refusal("batch_norm", {{"eps", -0.5}}, {x}), "batch_norm: eps must be at least 0, found -0.5");
}

}  // namespace
}  // namespace moka
