// Sizes are computed with checked arithmetic and rounded down. A layer whose sizes round up (Caffe's pooling) asks for
// it by a larger pad_end; a pooling window that would hold padding only is refused.
#include "layers/ops/geometry.h"

#include <algorithm>
#include <iterator>

#include "core/size.h"
#include "core/text.h"

namespace moka {
namespace {

[[noreturn]] void RefuseGeometry(std::string_view op, const std::string& text) {
  throw Error(ErrorKind::kConfig, StrCat(op, ": ", text));
}

std::string IntsText(const Ints& values) { return ToText(AttributeValue(values)); }

// One value a spatial dimension, each at least `least`.
void CheckList(std::string_view op, std::string_view name, const Ints& values, size_t rank, int64_t least) {
  if (values.size() != rank) {
    RefuseGeometry(
        op, StrCat(name, " has ", values.size(), " values ", IntsText(values), " for ", rank, " spatial dimensions"));
  }
  for (const int64_t value : values) {
    if (value < least) RefuseGeometry(op, StrCat(name, " must be at least ", least, ", found ", IntsText(values)));
  }
}

Geometry ReadGeometry(std::string_view op, const Attributes& attributes, Ints kernel, Ints dilation) {
  Geometry g{std::move(kernel), attributes.Get<Ints>("stride"), attributes.Get<Ints>("pad_begin"),
             attributes.Get<Ints>("pad_end"), std::move(dilation)};
  const size_t rank = g.kernel.size();
  if (rank < 1 || rank > 3) RefuseGeometry(op, StrCat("windows have 1 to 3 spatial dimensions, found ", rank));
  CheckList(op, "kernel", g.kernel, rank, 1);
  CheckList(op, "stride", g.stride, rank, 1);
  CheckList(op, "pad_begin", g.pad_begin, rank, 0);
  CheckList(op, "pad_end", g.pad_end, rank, 0);
  CheckList(op, "dilation", g.dilation, rank, 1);
  return g;
}

// Ranks of x and w, and how groups divide the channels.
void CheckChannels(std::string_view op, int64_t groups, int64_t channels, const std::string& where, const Shape& w) {
  if (groups < 1) RefuseGeometry(op, StrCat("groups must be at least 1, found ", groups));
  if (channels < 1 || w[0] < 1) {
    RefuseGeometry(op, StrCat("channels and outputs must be at least 1, found ", where, " and weight ", w.ToString()));
  }
  if (channels % groups != 0) {
    RefuseGeometry(op, StrCat("groups is ", groups, " but does not divide the ", channels, " channels of ", where));
  }
  if (w[0] % groups != 0) {
    RefuseGeometry(
        op, StrCat("groups is ", groups, " but does not divide the ", w[0], " outputs of weight ", w.ToString()));
  }
  if (w[1] != channels / groups) {
    RefuseGeometry(op, StrCat("weight ", w.ToString(), " has ", w[1], " input channels but ", where, " has ", channels,
                              " channels in ", groups, " groups, ", channels / groups, " each"));
  }
}

int64_t WindowExtent(const Geometry& g, size_t i) {
  return (Size(g.dilation[i]) * (Size(g.kernel[i]) - 1) + 1).value();
}

}  // namespace

int64_t Geometry::WindowSize() const {
  Size size = 1;
  for (const int64_t k : kernel) size *= k;
  return size.value();
}

std::vector<AttributeSpec> ConvolutionAttributes() {
  return {{"stride", {}, "step between windows, one value a spatial dimension"},
          {"pad_begin", {}, "zeros before the first element, one value a spatial dimension"},
          {"pad_end", {}, "zeros after the last element, one value a spatial dimension"},
          {"dilation", {}, "distance between the kernel's elements (1 = dense), one value a spatial dimension"},
          {"groups", int64_t{1}, "channels and outputs are split into this many independent convolutions"}};
}

std::vector<AttributeSpec> PoolAttributes() {
  return {{"kernel", {}, "window size, one value a spatial dimension"},
          {"stride", {}, "step between windows, one value a spatial dimension"},
          {"pad_begin", {}, "padding before the first element, one value a spatial dimension"},
          {"pad_end", {}, "padding after the last element, one value a spatial dimension"}};
}

std::vector<AttributeSpec> CountAttributes() {
  return {{"count_begin", {}, "padding before the first element that the divisor counts (0: none of it)"},
          {"count_end", {}, "padding after the last element that the divisor counts (0: none of it)"}};
}

AttributeSpec ShapeSpec(std::string name, std::string doc) { return {std::move(name), {}, std::move(doc)}; }

std::vector<AttributeSpec> JoinSpecs(std::vector<std::vector<AttributeSpec>> lists) {
  std::vector<AttributeSpec> all;
  for (auto& list : lists) std::move(list.begin(), list.end(), std::back_inserter(all));
  return all;
}

Geometry PoolGeometry(std::string_view op, const Attributes& attributes) {
  const Ints& kernel = attributes.Get<Ints>("kernel");
  return ReadGeometry(op, attributes, kernel, Ints(kernel.size(), 1));
}

Geometry ConvolutionGeometry(std::string_view op, const Attributes& attributes, const Shape& w) {
  if (w.rank() < 3) RefuseGeometry(op, StrCat("weight must be [K,C/groups,kernel..], found ", w.ToString()));
  const auto dims = w.dims();
  return ReadGeometry(op, attributes, Ints(dims.begin() + 2, dims.end()), attributes.Get<Ints>("dilation"));
}

int64_t WindowPositions(std::string_view op, const Geometry& g, int axis, int64_t input) {
  const auto i = static_cast<size_t>(axis);
  if (input < 1) RefuseGeometry(op, StrCat("spatial dimension ", axis, " of the input has ", input, " elements"));
  const Size padded = Size(input) + g.pad_begin[i] + g.pad_end[i];
  const Size extent = WindowExtent(g, i);
  if (extent > padded) {
    RefuseGeometry(op, StrCat("the window covers ", extent.value(), " elements (kernel ", g.kernel[i], ", dilation ",
                              g.dilation[i], ") but spatial dimension ", axis, " has only ", input, " + padding ",
                              g.pad_begin[i], " + ", g.pad_end[i], " = ", padded.value()));
  }
  return ((padded - extent) / g.stride[i] + 1).value();
}

Shape ConvolutionOutput(std::string_view op, const Attributes& attributes, const Shape& x, const Shape& w) {
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank()) {
    RefuseGeometry(
        op, StrCat("x must be [N,C,spatial..] with 1 to 3 spatial dimensions and weight [K,C/groups,kernel..] of the "
                   "same rank, found ",
                   x.ToString(), " and ", w.ToString()));
  }
  const Geometry g = ConvolutionGeometry(op, attributes, w);
  CheckChannels(op, attributes.Int("groups"), x[1], StrCat("x ", x.ToString()), w);
  Shape y = x.With(1, w[0]);
  for (int i = 0; i < g.rank(); ++i) y = y.With(i + 2, WindowPositions(op, g, i, x[i + 2]));
  return y;
}

Shape DeconvolutionOutput(std::string_view op, const Attributes& attributes, const Shape& dy, const Shape& w) {
  if (dy.rank() < 3 || dy.rank() > 5 || w.rank() != dy.rank()) {
    RefuseGeometry(
        op, StrCat("the input must be [N,K,spatial..] with 1 to 3 spatial dimensions and weight [K,C/groups,kernel..] "
                   "of the same rank, found ",
                   dy.ToString(), " and ", w.ToString()));
  }
  const Geometry g = ConvolutionGeometry(op, attributes, w);
  const int64_t groups = attributes.Int("groups");
  if (dy[1] != w[0])
    RefuseGeometry(op, StrCat("weight ", w.ToString(), " takes ", w[0], " channels, found ", dy.ToString()));
  const Size channels = Size(w[1]) * std::max<int64_t>(groups, 0);
  CheckChannels(op, groups, channels.value(), StrCat("the output"), w);
  Shape x = dy.With(1, channels.value());
  for (int i = 0; i < g.rank(); ++i) {
    const auto s = static_cast<size_t>(i);
    const Size size = Size(g.stride[s]) * (Size(dy[i + 2]) - 1) + WindowExtent(g, s) - g.pad_begin[s] - g.pad_end[s];
    if (dy[i + 2] < 1 || size < 1) {
      RefuseGeometry(op, StrCat("spatial dimension ", i, " of the output would have ", size.value(),
                                " elements (input ", dy.ToString(), ", kernel ", g.kernel[s], ", stride ", g.stride[s],
                                ", padding ", g.pad_begin[s], " + ", g.pad_end[s], ")"));
    }
    x = x.With(i + 2, size.value());
  }
  return x;
}

Shape PoolOutput(std::string_view op, const Attributes& attributes, const Shape& x) {
  const Geometry g = PoolGeometry(op, attributes);
  if (x.rank() != g.rank() + 2) {
    RefuseGeometry(op,
                   StrCat("x must be [N,C,spatial..] with ", g.rank(), " spatial dimensions, found ", x.ToString()));
  }
  Shape y = x;
  for (int i = 0; i < g.rank(); ++i) {
    const auto s = static_cast<size_t>(i);
    const int64_t out = WindowPositions(op, g, i, x[i + 2]);
    const Size last_start = Size(out - 1) * g.stride[s] - g.pad_begin[s];
    if (g.pad_begin[s] >= g.kernel[s] || last_start >= x[i + 2]) {
      RefuseGeometry(
          op, StrCat("a window would hold padding only along spatial dimension ", i, ": input ", x[i + 2], ", kernel ",
                     g.kernel[s], ", stride ", g.stride[s], ", padding ", g.pad_begin[s], " + ", g.pad_end[s]));
    }
    y = y.With(i + 2, out);
  }
  return y;
}

DType ArgmaxType(const Geometry& geometry) { return geometry.WindowSize() <= 255 ? DType::kUInt8 : DType::kInt32; }

int64_t CountedPositions(const Geometry& g, const Attributes& attributes, int axis, int64_t input, int64_t output) {
  const auto i = static_cast<size_t>(axis);
  const int64_t start = output * g.stride[i] - g.pad_begin[i];
  const int64_t end = std::min(start + g.kernel[i], input + attributes.Get<Ints>("count_end")[i]);
  return end - std::max(start, -attributes.Get<Ints>("count_begin")[i]);
}

void CheckCounts(std::string_view op, const Attributes& attributes, const Geometry& g) {
  for (const char* name : {"count_begin", "count_end"}) {
    const Ints& counts = attributes.Get<Ints>(name);
    CheckList(op, name, counts, g.kernel.size(), 0);
    for (size_t i = 0; i < counts.size(); ++i) {
      const int64_t pad = (name == std::string_view("count_begin") ? g.pad_begin : g.pad_end)[i];
      if (counts[i] > pad)
        RefuseGeometry(op, StrCat(name, " ", IntsText(counts), " counts more than the padding ", pad));
    }
  }
}

int64_t ConvolutionFlops(const Shape& w, const Shape& y) {
  return (Size(2) * y.Count() * w.Count(1, w.rank())).value();
}

}  // namespace moka
