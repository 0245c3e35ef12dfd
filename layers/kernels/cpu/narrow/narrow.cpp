// Row "narrow" of the gradient of a convolution with respect to an x of very few channels, which is also a transposed
// convolution that ends in an image. Kernels whose lanes are x's channels fill 3 of 16 of them; here the lanes are dy's
// channels, and a result is the sum over the lanes of one register in the end. x is plain, as images lie.
//
// Along one axis, with stride s and pad p: dx[s*i + f], with f + p = s*h + e, is the sum over j of dy[i + h - j]
// w[s*j + e]. A thread copies the few rows of dy that some rows of dx need, with zeros around them, so that no sum
// looks at a border. Half types are widened by that copy, and a row of results is rounded once it is whole.
#include <algorithm>
#include <array>
#include <vector>

#include "core/half.h"
#include "core/half_spans.h"
#include "core/size.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/narrow/narrow_lanes.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

using narrow::kPixels;
using narrow::Lanes;

constexpr int64_t kMostChannels = 4;  // of x
constexpr int64_t kBandRows = 16;     // of dx: their rows of dy, 64 channels of 32 columns, take 90 KiB
constexpr int64_t kLineBytes = 64;

const Lanes* LanesFor(int64_t block) {
  if (block == 16 && HasAvx512()) return narrow::LanesAvx512();
  if (block == 8 && HasAvx2()) return narrow::LanesAvx2();
  return nullptr;
}

// For the channel blocks of dy; null also if it lies otherwise.
const Lanes* LanesOf(const TensorType& dy) {
  for (const int64_t block : {16, 8}) {
    if (dy.layout.Name(4) == StrCat("aBcd", block, "b")) return LanesFor(block);
  }
  return nullptr;
}

// The taps of one axis that results of phase f see: e, e + stride, ..
struct TapPhase {
  int64_t h = 0;
  int64_t e = 0;
  int64_t taps = 0;
  int64_t count = 0;  // results
};

TapPhase PhaseOf(const Geometry& g, size_t axis, int64_t f, int64_t size) {
  const int64_t s = g.stride[axis];
  TapPhase phase;
  phase.h = (f + g.pad_begin[axis]) / s;
  phase.e = (f + g.pad_begin[axis]) % s;
  phase.taps = std::max<int64_t>(0, (g.kernel[axis] - phase.e + s - 1) / s);
  phase.count = std::max<int64_t>(0, (size - f + s - 1) / s);
  return phase;
}

// Bands of rows of dx are shared out; a thread's copy of the rows of dy that a band needs stays in the second-level
// cache.
class NarrowBackwardData final : public BoundKernel {
 public:
  NarrowBackwardData(const Lanes& lanes, const KernelQuery& query)
      : lanes_(lanes),
        dtype_(query.inputs[0].dtype),
        dy_(query.inputs[0].shape),
        w_(query.inputs[1]),
        x_(query.outputs[0].shape),
        g_(ConvolutionGeometry(query.node.op->name, query.node.attributes, w_.shape)),
        blocks_(CeilDiv(dy_[1], L()).value()),
        bands_(CeilDiv(x_[2], kBandRows).value()),
        parts_(std::min<int64_t>(ThreadCount(), x_[0] * bands_)),
        implementation_(StrCat("lanes:", L() == 16 ? "avx512" : "avx2")) {
    // Columns of dy from -left_ on.
    int64_t right = 0;
    for (int64_t f = 0; f < g_.stride[1]; ++f) {
      phases_.push_back(PhaseOf(g_, 1, f, x_[3]));
      left_ = std::max(left_, phases_.back().taps - 1 - phases_.back().h);
      right = std::max(right, RoundUp(phases_.back().count, kPixels).value() + phases_.back().h);
    }
    width_ = left_ + right;
    band_rows_ = std::min(dy_[2], (kBandRows + g_.kernel[0] - 2) / g_.stride[0] + 2);
    weight_floats_ = g_.kernel[0] * g_.kernel[1] * blocks_ * x_[1] * L();
    band_bytes_ = RoundUp(Size(band_rows_) * blocks_ * width_ * L() * int64_t{sizeof(float)}, kLineBytes).value();
    const Size row_bytes = IsHalf(dtype_) ? Size(x_[1]) * x_[3] * int64_t{sizeof(float)} : Size(0);
    part_bytes_ = (Size(band_bytes_) + RoundUp(row_bytes, kLineBytes)).value();
    weight_bytes_ = RoundUp(Size(weight_floats_) * int64_t{sizeof(float)}, kLineBytes).value();
    const int64_t rows = g_.kernel[0] * parts_;
    // Each part has its lists of rows from the start, so that a run allocates nothing.
    row_y_.resize(static_cast<size_t>(rows));
    row_w_.resize(static_cast<size_t>(rows));
  }

  int64_t scratch_bytes() const override { return weight_bytes_ + parts_ * part_bytes_; }
  std::string_view implementation() const override { return implementation_; }

  void Run() override {
    PackWeights();
    const int64_t items = x_[0] * bands_;
    ParallelFor(parts_, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t part = first; part < last; ++part) {
        for (int64_t i = items * part / parts_; i < items * (part + 1) / parts_; ++i) {
          MakeBand(i / bands_, i % bands_ * kBandRows, part);
        }
      }
    });
  }

 private:
  int64_t L() const { return lanes_.lanes; }

  int64_t WeightStride(int axis, int64_t steps) const {
    std::array<int64_t, 4> index{};
    index[static_cast<size_t>(axis)] = steps;
    return w_.layout.Offset(w_.shape, index);
  }

  // w [K,C,rows,columns] as [row][column][K blocks][C][L of K]; the columns of a phase behind each other.
  void PackWeights() const {
    if (dtype_ == DType::kFloat32) return PackWeightsOf(in<float>(1), [](float w) { return w; });
    if (dtype_ == DType::kBFloat16) {
      return PackWeightsOf(in<BFloat16>(1), [](BFloat16 w) { return FloatOfBFloat16(w.bits); });
    }
    PackWeightsOf(in<Half>(1), [](Half w) { return FloatOfHalf(w.bits); });
  }
  template <class T, class ToFloat>
  void PackWeightsOf(const T* w, ToFloat&& to_float) const {
    auto* to = scratch<float>();
    const int64_t block_stride = WeightStride(0, L());
    const int64_t k_stride = WeightStride(0, 1);
    const int64_t c_stride = WeightStride(1, 1);
    const int64_t tap_stride = WeightStride(3, 1);
    for (int64_t row = 0; row < g_.kernel[0]; ++row) {
      for (const TapPhase& phase : phases_) {
        for (int64_t j = 0; j < phase.taps; ++j) {
          const T* tap = w + (row * g_.kernel[1] + phase.e + j * g_.stride[1]) * tap_stride;
          for (int64_t i = 0; i < blocks_ * x_[1]; ++i) {
            const T* from = tap + i / x_[1] * block_stride + i % x_[1] * c_stride;
            const int64_t outputs = std::min(L(), dy_[1] - i / x_[1] * L());
            for (int64_t k = 0; k < L(); ++k) *to++ = k < outputs ? to_float(from[k * k_stride]) : 0;
          }
        }
      }
    }
  }

  // Rows [first, first + kBandRows) of dx of one image.
  void MakeBand(int64_t image, int64_t first, int64_t part) {
    const int64_t stride = g_.stride[0];
    const int64_t last = std::min(x_[2], first + kBandRows);
    const int64_t low = first + g_.pad_begin[0] - g_.kernel[0] + 1;
    const int64_t begin = low <= 0 ? 0 : (low + stride - 1) / stride;
    const int64_t end = std::min(dy_[2], (last - 1 + g_.pad_begin[0]) / stride + 1);
    auto* band = scratch<float>(weight_bytes_ + part * part_bytes_);
    for (int64_t q = begin; q < end; ++q) CopyRow(image, q, band + (q - begin) * RowFloats());
    for (int64_t r = first; r < last; ++r) MakeRow(image, r, begin, end, band, part);
  }

  // Where a row of results of a half type is made, in float32: [channel][column].
  float* WideRow(int64_t part) const { return scratch<float>(weight_bytes_ + part * part_bytes_ + band_bytes_); }

  int64_t RowFloats() const { return blocks_ * width_ * L(); }

  // A row of dy as [block][column from -left_ on][L].
  void CopyRow(int64_t image, int64_t q, float* to) const {
    const int64_t plane = dy_[2] * dy_[3] * L();
    const int64_t count = std::min(dy_[3], width_ - left_) * L();
    int64_t from = image * blocks_ * plane + q * dy_[3] * L();
    for (int64_t b = 0; b < blocks_; ++b, from += plane) {
      to = std::fill_n(to, left_ * L(), 0.0F);
      if (IsHalf(dtype_)) {
        Widen(dtype_, in<uint16_t>(0) + from, count, to);
      } else {
        std::copy_n(in<float>(0) + from, count, to);
      }
      to = std::fill_n(to + count, (width_ - left_) * L() - count, 0.0F);
    }
  }

  // Only taps t with r + pad - t divisible by the stride meet row r: they are collected as pairs of a row of dy and a
  // row of weights, and each phase of the columns is one call.
  void MakeRow(int64_t image, int64_t r, int64_t begin, int64_t end, const float* band, int64_t part) {
    const float** y = row_y_.data() + part * g_.kernel[0];
    const float** w = row_w_.data() + part * g_.kernel[0];
    const int64_t at = r + g_.pad_begin[0];
    const float* weights = scratch<float>();
    for (int64_t f = 0; f < g_.stride[1]; ++f) {
      const TapPhase& phase = phases_[static_cast<size_t>(f)];
      const int64_t tap_floats = blocks_ * x_[1] * L();
      narrow::Row row;
      for (int64_t t = at % g_.stride[0]; t < g_.kernel[0] && t <= at; t += g_.stride[0]) {
        const int64_t q = (at - t) / g_.stride[0];
        if (q < begin || q >= end) continue;
        y[row.rows] = band + (q - begin) * RowFloats() + (left_ + phase.h) * L();
        w[row.rows++] = weights + t * g_.kernel[1] * tap_floats;
      }
      row.y = y;
      row.w = w;
      row.taps = phase.taps;
      row.blocks = blocks_;
      row.block_stride = width_ * L();
      row.channels = x_[1];
      row.count = phase.count;
      row.x = IsHalf(dtype_) ? WideRow(part) + f : out<float>(0) + RowAt(image, 0, r) + f;
      row.step = g_.stride[1];
      row.channel_stride = IsHalf(dtype_) ? x_[3] : x_[2] * x_[3];
      lanes_.row(row);
      weights += phase.taps * tap_floats;
    }
    for (int64_t c = 0; c < x_[1] && IsHalf(dtype_); ++c) {
      Narrow(dtype_, WideRow(part) + c * x_[3], x_[3], out<uint16_t>(0) + RowAt(image, c, r));
    }
  }

  int64_t RowAt(int64_t image, int64_t channel, int64_t row) const {
    return ((image * x_[1] + channel) * x_[2] + row) * x_[3];
  }

  const Lanes& lanes_;
  DType dtype_;   // of all tensors
  Shape dy_;      // [N,K,..]
  TensorType w_;  // [K,C,..]
  Shape x_;       // [N,C,..]
  Geometry g_;
  int64_t blocks_;  // of dy's channels
  int64_t bands_;   // of rows of dx
  int64_t parts_;   // that run at once
  std::string implementation_;
  std::vector<TapPhase> phases_;  // of columns
  int64_t left_ = 0;              // zeros before a row of dy
  int64_t width_ = 0;             // with them and those behind
  int64_t band_rows_ = 0;         // the most rows of dy that a band needs
  int64_t weight_floats_ = 0;
  int64_t weight_bytes_ = 0;
  int64_t band_bytes_ = 0;
  int64_t part_bytes_ = 0;           // of a band, and of a row of results
  std::vector<const float*> row_y_;  // [parts][window rows]
  std::vector<const float*> row_w_;
};

std::string RefuseUnlessOneType(const KernelQuery& query) {
  const DType dtype = query.inputs[0].dtype;
  if (!IsHalf(dtype) && dtype != DType::kFloat32) return StrCat("only float32 and half types, found ", NameOf(dtype));
  for (const TensorType& type : {query.inputs[1], query.outputs[0]}) {
    if (type.dtype != dtype) return StrCat("only tensors of one type, found ", NameOf(dtype), " and ", type.ToString());
  }
  return {};
}

// Returns why the arithmetic does not cover the node, whatever its layouts; empty: it does.
std::string RefuseShapes(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessOneType(query); !reason.empty()) return reason;
  const Shape& w = query.inputs[1].shape;
  const Shape& x = query.outputs[0].shape;
  if (w.rank() != 4) return StrCat("only windows of two dimensions, the weights are ", w.ToString());
  if (x[1] > kMostChannels) return StrCat("only for up to ", kMostChannels, " channels of x, found ", x[1]);
  if (query.inputs[0].shape.Count() == 0 || x.Count() == 0) return StrCat("the tensor ", x.ToString(), " is empty");
  const Geometry geometry = ConvolutionGeometry(query.node.op->name, query.node.attributes, w);
  if (geometry.dilation != Ints{1, 1}) return "only dilation 1";
  if (query.node.attributes.Int("groups") != 1) return "only one group";
  return {};
}

// Weights of which each channel axis is in one block or in none, of at least as many channels as x has.
bool IsWeightLayout(const Layout& layout, int64_t lanes) {
  const std::string name = layout.Name(4);
  const std::string l = StrCat(lanes);
  return name == "abcd" || name == "Abcd" + l + "a" || name == "Acdb" + l + "a" || name == "aBcd" + l + "b" ||
         name == "ABcd" + l + "b" + l + "a" || name == "ABcd" + l + "a" + l + "b";
}

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseShapes(query); !reason.empty()) return reason;
  const Lanes* lanes = LanesOf(query.inputs[0]);
  if (lanes == nullptr) {
    return StrCat("only channel blocks of 16 with AVX-512 or of 8 with AVX2, found ", query.inputs[0].ToString());
  }
  if (!IsWeightLayout(query.inputs[1].layout, lanes->lanes)) {
    return StrCat("the weights ", query.inputs[1].ToString(), " are neither plain nor in blocks of ", lanes->lanes);
  }
  if (!query.outputs[0].layout.is_plain()) return StrCat("x is not plain: ", query.outputs[0].ToString());
  return {};
}

// dy in blocks as it lies, or in the widest; the weights as they are.
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  if (!RefuseShapes(query).empty()) return {};
  const Lanes* lanes = LanesOf(query.inputs[0]);
  for (const int64_t block : {16, 8}) {
    if (lanes == nullptr) lanes = LanesFor(block);
  }
  // If dy had fewer channels, most lanes would be padding.
  if (lanes == nullptr || 2 * query.inputs[0].shape[1] < lanes->lanes) return {};
  const Layout weights = IsWeightLayout(query.inputs[1].layout, lanes->lanes) ? query.inputs[1].layout : Layout{};
  return LayoutProposal{{Layout::Parse(StrCat("aBcd", lanes->lanes, "b")), weights}, {Layout{}}};
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  return std::make_unique<NarrowBackwardData>(*LanesOf(query.inputs[0]), query);
}

}  // namespace

KernelDef NarrowConvolutionBackwardData() {
  return {.name = "narrow",
          .op = "convolution_backward_data",
          .refuse = Refuse,
          .propose = Propose,
          .make = Make,
          .turn = 2};
}

}  // namespace moka
