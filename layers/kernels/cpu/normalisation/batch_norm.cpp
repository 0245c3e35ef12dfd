// Batch normalisation with an optional residual summand and ReLU, and its gradient; how they go over memory is
// batch_norm_walk.h's. x, y and their gradients are float or BFloat16 (T), all that is a number a channel is float.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/size.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/cpu/normalisation/batch_norm_walk.h"

namespace moka {
namespace {

// A result of more bytes, in longer stretches, is written past the caches: its reader would find little of it there.
// Measured on ResNet-50's shapes: 1.5 times as fast at 50 to 100 MB and planes of 28 x 28 up, slower at 14 x 14.
constexpr int64_t kStreamedBytes = int64_t{32} << 20;
constexpr int64_t kStreamedStretch = int64_t{32} << 10;

// scale / sqrt(variance + eps) of a channel. From the variance as it is given on, so that the gradient finds the bits
// of the forward pass, and with them the same mask.
float FactorOf(const float* scale, float variance, double eps, int64_t channel) {
  return static_cast<float>((scale == nullptr ? 1.0 : scale[channel]) / std::sqrt(variance + eps));
}

// Training's batch normalisation (Ioffe and Szegedy, arXiv 1502.03167): a first sweep for the sums, then y = (x - mean)
// factor + shift, with the summand and the ReLU of a residual block in the same second sweep.
template <class T>
class ForwardKernel final : public TwoSweeps {
 public:
  ForwardKernel(const Strips& strips, const KernelQuery& query)
      : TwoSweeps(strips, query.node.attributes.Bool("sum") ? 3 : 2),
        eps_(query.node.attributes.Float("eps")),
        activation_(query.node.attributes.Bool("relu") ? Activation::kRelu : Activation::kNone),
        sums_(query.node.attributes.Bool("sum")),
        affine_(query.inputs.size() >= 3),
        sampling_(Sampling::Of(query.node.attributes, query.inputs[0], query.outputs[0])) {}

  void Bind(const KernelArgs& args) override {
    x_ = args.inputs[0].as<T>().data();
    scale_ = affine_ ? args.inputs[1].as<float>().data() : nullptr;
    shift_ = affine_ ? args.inputs[2].as<float>().data() : nullptr;
    residual_ = sums_ ? args.inputs.back().as<T>().data() : nullptr;
    y_ = args.outputs[0].as<T>().data();
    mean_ = args.outputs[1].as<float>().data();
    variance_ = args.outputs[2].as<float>().data();
    const int64_t stretch = s_.positions * s_.lanes * static_cast<int64_t>(sizeof(T));
    // Streaming pays where y is larger than the caches and long stretches are written in order; a y that lies on an
    // input has just been read, so its lines are in the cache already.
    streams_ = s_.pads_last_group && args.outputs[0].type().Bytes() > kStreamedBytes && stretch >= kStreamedStretch &&
               y_ != x_ && y_ != residual_ && !sampling_;
    BindScratch(args.scratch);
  }

 private:
  void Begin(int64_t) override {}

  void Sum(int64_t part, int64_t group, const LaneSums& sums) override {
    VisitStrips(s_, part, group, [&](const StripShape& strip, int64_t at) { SumStrip(strip, x_ + at, sums); });
  }

  void Finish(int64_t channel, double first, double second) override {
    const auto count = static_cast<double>(elements_a_channel());
    const double mean = first / count;
    // E[x^2] - E[x]^2: the products of floats are exact in double, so little cancels that a float could hold.
    const double variance = std::max(0.0, second / count - mean * mean);
    mean_[channel] = static_cast<float>(mean);
    variance_[channel] = std::isnan(second) ? static_cast<float>(second) : static_cast<float>(variance);
    values(Coefficient::kMean)[channel] = mean_[channel];
    values(Coefficient::kFactor)[channel] = FactorOf(scale_, variance_[channel], eps_, channel);
    values(Coefficient::kShift)[channel] = affine_ ? shift_[channel] : 0.0F;
  }

  void Apply(int64_t part, int64_t group) override {
    const LaneValues mean = Lanes(group, Coefficient::kMean);
    const LaneValues factor = Lanes(group, Coefficient::kFactor);
    const LaneValues shift = Lanes(group, Coefficient::kShift);
    const ForwardCoefficients c{mean.data(), factor.data(), shift.data()};
    VisitSampled(s_, sampling_, part, group, [&](const StripShape& strip, int64_t at, int64_t y_at) {
      const T* residual = residual_ == nullptr ? nullptr : residual_ + at;
      (streams_ ? StreamStrip<T> : ApplyStrip<T>)(strip, c, activation_, x_ + at, residual, y_ + y_at);
    });
  }

  double eps_;
  Activation activation_;
  bool sums_;
  bool affine_;
  std::optional<Sampling> sampling_;
  bool streams_ = false;
  const T* x_ = nullptr;
  const float* scale_ = nullptr;
  const float* shift_ = nullptr;
  const T* residual_ = nullptr;
  T* y_ = nullptr;
  float* mean_ = nullptr;
  float* variance_ = nullptr;
};

// batch_norm's second sweep alone.
// The statistics are given, so strips need no order and are shared out one by one.
template <class T>
class ApplyKernel final : public Kernel {
 public:
  ApplyKernel(const Strips& strips, const KernelQuery& query)
      : s_(strips),
        eps_(query.node.attributes.Float("eps")),
        activation_(query.node.attributes.Bool("relu") ? Activation::kRelu : Activation::kNone),
        sums_(query.node.attributes.Bool("sum")),
        affine_(query.inputs.size() >= 5),
        sampling_(Sampling::Of(query.node.attributes, query.inputs[0], query.outputs[0])) {}

  int64_t scratch_bytes() const override { return 3 * stride() * static_cast<int64_t>(sizeof(float)); }
  std::string_view implementation() const override { return s_.is_plain ? "plain" : "lanes"; }

  void Bind(const KernelArgs& args) override {
    const auto input = [&](size_t i) { return args.inputs[i].as<float>().data(); };
    x_ = args.inputs[0].as<T>().data();
    mean_ = input(1);
    variance_ = input(2);
    scale_ = affine_ ? input(3) : nullptr;
    shift_ = affine_ ? input(4) : nullptr;
    residual_ = sums_ ? args.inputs.back().as<T>().data() : nullptr;
    y_ = args.outputs[0].as<T>().data();
    coefficients_ = static_cast<float*>(static_cast<void*>(args.scratch));
  }

  void Run() override {
    // Padding lanes have coefficients 0, by which they stay 0.
    std::fill_n(coefficients_, 3 * stride(), 0.0F);
    for (int64_t channel = 0; channel < s_.channels; ++channel) {
      coefficients_[channel] = mean_[channel];
      coefficients_[stride() + channel] = FactorOf(scale_, variance_[channel], eps_, channel);
      coefficients_[2 * stride() + channel] = affine_ ? shift_[channel] : 0.0F;
    }
    ParallelFor(s_.parts * s_.groups, 1, [this](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) Apply(i / s_.groups, i % s_.groups);
    });
  }

 private:
  int64_t stride() const { return RoundUp(s_.padded_channels(), kMaxLanes).value(); }

  void Apply(int64_t part, int64_t group) const {
    const LaneValues mean(s_, group, coefficients_);
    const LaneValues factor(s_, group, coefficients_ + stride());
    const LaneValues shift(s_, group, coefficients_ + 2 * stride());
    const ForwardCoefficients c{mean.data(), factor.data(), shift.data()};
    VisitSampled(s_, sampling_, part, group, [&](const StripShape& strip, int64_t at, int64_t y_at) {
      const T* residual = residual_ == nullptr ? nullptr : residual_ + at;
      ApplyStrip(strip, c, activation_, x_ + at, residual, y_ + y_at);
    });
  }

  Strips s_;
  double eps_;
  Activation activation_;
  bool sums_;
  bool affine_;
  std::optional<Sampling> sampling_;
  const T* x_ = nullptr;
  const float* mean_ = nullptr;
  const float* variance_ = nullptr;
  const float* scale_ = nullptr;
  const float* shift_ = nullptr;
  const T* residual_ = nullptr;
  T* y_ = nullptr;
  float* coefficients_ = nullptr;
};

// The attributes of a batch_norm_backward node.
// arrays() counts what a sweep reads of x's size, by which the walk chooses how many groups fit the cache.
struct BackwardSpec {
  explicit BackwardSpec(const Attributes& attributes)
      : eps(attributes.Float("eps")),
        gradients(attributes.Int("gradients")),
        affine(attributes.Bool("affine")),
        gives_residual(attributes.Bool("residual")) {
    const std::string& text = attributes.String("mask");
    mask = text.empty() ? Mask::kNone : text == "input" ? Mask::kInput : Mask::kOutput;
  }
  int64_t arrays() const { return 1 + gradients + (mask == Mask::kOutput ? 1 : 0); }

  double eps;
  int64_t gradients;
  bool affine;
  bool gives_residual;
  Mask mask = Mask::kNone;
};

// The gradient (layers/ops/normalisation/batch_norm_backward.cpp has the equations): the first sweep sums g and g (x -
// mean) and writes g where a residual branch wants it, which saves the second sweep from adding and masking the
// gradients again.
template <class T>
class BackwardKernel final : public TwoSweeps {
 public:
  BackwardKernel(const Strips& strips, const KernelQuery& query)
      : TwoSweeps(strips, BackwardSpec(query.node.attributes).arrays()),
        spec_(query.node.attributes),
        sampling_(Sampling::Of(query.node.attributes, query.inputs[0], query.inputs[3])),
        zeros_(static_cast<size_t>(std::max(kMaxLanes, strips.lanes))) {}

  void Bind(const KernelArgs& args) override {
    const auto wide = [&](size_t i) { return args.inputs[i].as<float>().data(); };
    const auto input = [&](size_t i) { return args.inputs[i].as<T>().data(); };
    const auto output = [&](size_t i) { return args.outputs[i].as<T>().data(); };
    const auto n = static_cast<size_t>(spec_.gradients);
    in_.x = input(0);
    mean_ = wide(1);
    variance_ = wide(2);
    in_.gradients = static_cast<int>(n);
    for (size_t i = 0; i < n; ++i) in_.dy[i] = input(3 + i);
    scale_ = spec_.affine ? wide(3 + n) : nullptr;
    shift_ = spec_.affine && spec_.mask == Mask::kInput ? wide(4 + n) : nullptr;
    in_.mask = spec_.mask;
    in_.y = spec_.mask == Mask::kOutput ? input(args.inputs.size() - 1) : nullptr;
    dx_ = output(0);
    dscale_ = spec_.affine ? args.outputs[1].as<float>().data() : nullptr;
    dshift_ = spec_.affine ? args.outputs[2].as<float>().data() : nullptr;
    g_ = spec_.gives_residual ? output(args.outputs.size() - 1) : nullptr;
    BindScratch(args.scratch);
  }

 private:
  // The mean and factor of the forward pass, of which the mask and dx are made. Padding lanes have 0.
  void Begin(int64_t group) override {
    const int64_t begin = s_.first_channel(group);
    const int64_t end = begin + s_.channels_of(group);
    for (int64_t channel = begin; channel < end; ++channel) {
      values(Coefficient::kMean)[channel] = mean_[channel];
      values(Coefficient::kFactor)[channel] = FactorOf(scale_, variance_[channel], spec_.eps, channel);
      values(Coefficient::kShift)[channel] = shift_ == nullptr ? 0.0F : shift_[channel];
    }
    if (s_.is_plain) return;
    for (const Coefficient c : {Coefficient::kMean, Coefficient::kFactor, Coefficient::kShift}) {
      std::fill(values(c) + end, values(c) + begin + s_.lanes, 0.0F);
    }
  }

  void Sum(int64_t part, int64_t group, const LaneSums& sums) override {
    const LaneValues mean = Lanes(group, Coefficient::kMean);
    const LaneValues factor = Lanes(group, Coefficient::kFactor);
    const LaneValues shift = Lanes(group, Coefficient::kShift);
    const ForwardCoefficients c{mean.data(), factor.data(), shift.data()};
    VisitSampled(s_, sampling_, part, group, [&](const StripShape& strip, int64_t at, int64_t y_at) {
      // Positions that y lacks have gradient 0; those that it has are then written over it.
      if (sampling_) ClearStrip(RowOf(group), g_ + at);
      T* const g = g_ == nullptr ? nullptr : g_ + at;
      SumGradientStrip(strip, c, in_.At(at, y_at), g, sums);
    });
  }

  // A row of x or g. Requires: strides.
  StripShape RowOf(int64_t group) const {
    StripShape row = sampling_->all;
    if (!s_.is_plain) row.lanes = s_.width(group);
    return row;
  }

  void Finish(int64_t channel, double first, double second) override {
    const auto count = static_cast<double>(elements_a_channel());
    const double inverse = 1 / std::sqrt(variance_[channel] + spec_.eps);
    values(Coefficient::kAverage)[channel] = static_cast<float>(first / count);
    // dx = factor (g - average - (x - mean) slope), with average = sum g / m and slope = sum g (x - mean) / (m
    // (variance + eps)).
    values(Coefficient::kSlope)[channel] = static_cast<float>(second / count * inverse * inverse);
    if (!spec_.affine) return;
    dscale_[channel] = static_cast<float>(second * inverse);
    dshift_[channel] = static_cast<float>(first);
  }

  void Apply(int64_t part, int64_t group) override {
    const LaneValues mean = Lanes(group, Coefficient::kMean);
    const LaneValues factor = Lanes(group, Coefficient::kFactor);
    const LaneValues shift = Lanes(group, Coefficient::kShift);
    const LaneValues average = Lanes(group, Coefficient::kAverage);
    const LaneValues slope = Lanes(group, Coefficient::kSlope);
    const BackwardCoefficients c{{mean.data(), factor.data(), shift.data()}, average.data(), slope.data()};
    if (sampling_) return ApplySampled(part, group, c);
    VisitStrips(s_, part, group, [&](const StripShape& strip, int64_t at) {
      const auto in = g_ == nullptr ? in_.At(at, at) : GradientStreams<T>{.x = in_.x + at, .dy = {g_ + at}};
      ApplyGradientStrip(strip, c, in, dx_ + at);
    });
  }

  // In rows that y does not have, g is 0: it need not be read, and is not written before.
  void ApplySampled(int64_t part, int64_t group, const BackwardCoefficients& c) {
    const StripShape row = RowOf(group);
    StripShape empty = row;
    empty.y_stride = 0;
    int64_t at = part * s_.part_stride + group * s_.group_stride;
    for (int64_t r = 0; r < sampling_->x_rows; ++r, at += sampling_->x_stride) {
      if (r % sampling_->every == 0) {
        ApplyGradientStrip<T>(row, c, {.x = in_.x + at, .dy = {g_ + at}}, dx_ + at);
      } else {
        ApplyGradientStrip<T>(empty, c, {.x = in_.x + at, .dy = {zeros_.data()}}, dx_ + at);
        ClearStrip(row, g_ + at);
      }
    }
  }

  BackwardSpec spec_;
  std::optional<Sampling> sampling_;  // then g is written
  std::vector<T> zeros_;              // a position's gradients where y has none
  GradientStreams<T> in_;
  const float* mean_ = nullptr;
  const float* variance_ = nullptr;
  const float* scale_ = nullptr;
  const float* shift_ = nullptr;
  T* dx_ = nullptr;
  float* dscale_ = nullptr;
  float* dshift_ = nullptr;
  T* g_ = nullptr;
};

std::string Refuse(const KernelQuery& query) {
  const TensorType& x = query.inputs[0];
  if (x.dtype != DType::kFloat32 && x.dtype != DType::kBFloat16) {
    return StrCat("only float32 and bfloat16, found ", x.ToString());
  }
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      const bool is_vector = type.shape.rank() == 1;
      const DType expected = is_vector ? DType::kFloat32 : x.dtype;
      if (type.dtype != expected) return StrCat("expected ", NameOf(expected), ", found ", type.ToString());
      if (type.layout != (is_vector ? Layout{} : x.layout)) return "x, y and their gradients lie differently";
    }
  }
  if (!StripsOf(x)) return StrCat("only plain, channels-last or channel-blocked memory, found ", x.ToString());
  return x.shape.Count() == 0 ? StrCat("the tensor ", x.ToString(), " is empty") : std::string();
}

std::string RefuseBackward(const KernelQuery& query) {
  const int64_t gradients = query.node.attributes.Int("gradients");
  if (gradients > kMaxGradients) return StrCat("adds at most ", kMaxGradients, " gradients, found ", gradients);
  return Refuse(query);
}

// As x lies (as plain if that is not possible).
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  const Layout layout = StripsOf(query.inputs[0]) ? query.inputs[0].layout : Layout{};
  LayoutProposal proposal;
  for (const TensorType& type : query.inputs) proposal.inputs.push_back(type.shape.rank() > 1 ? layout : Layout{});
  for (const TensorType& type : query.outputs) proposal.outputs.push_back(type.shape.rank() > 1 ? layout : Layout{});
  return proposal;
}

template <template <class T> class K>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const bool is_sampled = !query.node.attributes.Get<Ints>("stride").empty();
  const std::optional<Strips> strips = StripsOf(query.inputs[0], is_sampled ? Parts::kImages : Parts::kRows);
  Require(strips.has_value(), "make follows an accepted query");
  if (query.inputs[0].dtype == DType::kBFloat16) return std::make_unique<K<BFloat16>>(*strips, query);
  return std::make_unique<K<float>>(*strips, query);
}

}  // namespace

KernelDef MokaBatchNorm() {
  return {.name = "moka", .op = "batch_norm", .refuse = Refuse, .propose = Propose, .make = Make<ForwardKernel>};
}

KernelDef MokaBatchNormApply() {
  return {.name = "moka", .op = "batch_norm_apply", .refuse = Refuse, .propose = Propose, .make = Make<ApplyKernel>};
}

KernelDef MokaBatchNormBackward() {
  return {.name = "moka",
          .op = "batch_norm_backward",
          .refuse = RefuseBackward,
          .propose = Propose,
          .make = Make<BackwardKernel>};
}

}  // namespace moka
