// Batch normalisation with an optional ReLU and its gradient, on plain, channels-last and channel-blocked memory.
// Statistics need a first sweep, the result a second. Where there are enough channel groups a thread takes whole groups
// and sweeps one twice while it is still in cache; otherwise each sweep is split over images too. Partial sums are kept
// per (image, channel) in double and added in the order of images, so the result does not depend on the split.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/cpu/batch_norm_strips.h"
#include "layers/cpu/kernels.h"

namespace moka {
namespace {

// How x lies as strips: part p (an image), group g (neighbouring channels, or one channel of plain memory).
struct Strips {
  int64_t channels = 0;
  int64_t groups = 0;
  int64_t parts = 0;
  int64_t positions = 0;  // of one part and channel
  int64_t part_stride = 0;
  int64_t group_stride = 0;
  int64_t row_stride = 0;
  int lanes = kMaxLanes;         // channels of a group
  bool pads_last_group = false;  // whether the last group has all lanes in memory
  bool is_plain = false;         // lanes are positions of one channel

  int64_t padded_channels() const { return is_plain ? channels : groups * lanes; }
  int64_t first_channel(int64_t group) const { return is_plain ? group : group * lanes; }
  int64_t channels_of(int64_t group) const { return is_plain ? 1 : std::min<int64_t>(lanes, channels - group * lanes); }
  int width(int64_t group) const { return pads_last_group ? lanes : static_cast<int>(channels_of(group)); }
};

// None for a layout that is not one of the three.
std::optional<Strips> StripsOf(const TensorType& x) {
  const Shape& shape = x.shape;
  const int rank = shape.rank();
  if (rank < 2) return {};
  const std::string name = x.layout.Name(rank);
  const std::string plain = Layout{}.Name(rank);
  std::string channels_last = plain;
  std::rotate(channels_last.begin() + 1, channels_last.begin() + 2, channels_last.end());
  Strips s;
  s.channels = shape[1];
  s.parts = shape[0];
  s.positions = shape.Count(2, rank);
  if (rank == 2 && x.layout.is_plain()) {
    s.parts = 1;  // rows of channels: channels last with the images as positions
    s.positions = shape[0];
  } else if (x.layout.is_plain()) {
    s.is_plain = true;
    s.groups = s.channels;
    s.part_stride = s.channels * s.positions;
    s.group_stride = s.positions;
    s.row_stride = kMaxLanes;
    return s;
  }
  if (name == channels_last || x.layout.is_plain()) {
    s.groups = CeilDiv(s.channels, kMaxLanes).value();
    s.part_stride = s.channels * s.positions;
    s.group_stride = kMaxLanes;
    s.row_stride = s.channels;
    return s;
  }
  std::string blocked = plain;
  blocked[1] = 'B';
  for (const int lanes : {16, 8, 4}) {
    if (name != StrCat(blocked, lanes, "b")) continue;
    s.lanes = lanes;
    s.pads_last_group = true;
    s.groups = CeilDiv(s.channels, lanes).value();
    s.part_stride = s.groups * s.positions * lanes;
    s.group_stride = s.positions * lanes;
    s.row_stride = lanes;
    return s;
  }
  return {};
}

// Arrays of one value a channel (padding lanes 0), broadcast to lanes where the lanes are positions.
class LaneValues {
 public:
  LaneValues(const Strips& s, int64_t group, const float* values) : data_(values + s.first_channel(group)) {
    if (!s.is_plain) return;
    broadcast_.fill(*data_);
    data_ = broadcast_.data();
  }
  LaneValues(const LaneValues&) = delete;
  LaneValues& operator=(const LaneValues&) = delete;
  const float* data() const { return data_; }

 private:
  std::array<float, kMaxLanes> broadcast_;
  const float* data_;
};

// Calls f(StripShape, offset in x) for the one or two strips (whole rows and a rest) of a part and group.
template <class F>
void VisitStrips(const Strips& s, int64_t part, int64_t group, F&& f) {
  const int64_t offset = part * s.part_stride + group * s.group_stride;
  if (!s.is_plain) return f(StripShape{s.positions, s.row_stride, s.width(group)}, offset);
  const int64_t rows = s.positions / kMaxLanes;
  const auto rest = static_cast<int>(s.positions % kMaxLanes);
  if (rows > 0) f(StripShape{rows, kMaxLanes, kMaxLanes}, offset);
  if (rest > 0) f(StripShape{1, kMaxLanes, rest}, offset + rows * kMaxLanes);
}

// Scratch memory: two partial sums a (part, channel), and four coefficients a channel.
struct Scratch {
  double* first = nullptr;
  double* second = nullptr;
  float* mean = nullptr;
  float* factor = nullptr;
  float* c = nullptr;
  float* d = nullptr;

  static int64_t Bytes(const Strips& s) {
    const Size channels = s.padded_channels() + kMaxLanes;
    return (channels * s.parts * 2 * int64_t{sizeof(double)} + channels * 4 * int64_t{sizeof(float)}).value();
  }
  static Scratch In(std::byte* bytes, const Strips& s) {
    const int64_t channels = s.padded_channels() + kMaxLanes;
    Scratch scratch;
    scratch.first = static_cast<double*>(static_cast<void*>(bytes));
    scratch.second = scratch.first + channels * s.parts;
    scratch.mean = static_cast<float*>(static_cast<void*>(scratch.second + channels * s.parts));
    scratch.factor = scratch.mean + channels;
    scratch.c = scratch.factor + channels;
    scratch.d = scratch.c + channels;
    return scratch;
  }
};

// The two sweeps over strips with the combination of sums between them; what they do is the derived kernel's.
class TwoSweeps : public Kernel {
 public:
  explicit TwoSweeps(const Strips& strips) : s_(strips) {}
  int64_t scratch_bytes() const override { return Scratch::Bytes(s_); }
  std::string_view implementation() const override { return s_.is_plain ? "plain" : "lanes"; }

  void Run() override {
    const int64_t threads = ThreadCount();
    // Below four groups a thread, an uneven split of groups would leave threads idle.
    if (s_.groups % threads == 0 || s_.groups >= 4 * threads) {
      ParallelFor(s_.groups, 1, [this](int64_t begin, int64_t end, int) {
        for (int64_t group = begin; group < end; ++group) RunGroup(group);
      });
      return;
    }
    ParallelFor(s_.parts * s_.groups, 1, [this](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) SumInto(i / s_.groups, i % s_.groups);
    });
    ParallelFor(s_.groups, 64, [this](int64_t begin, int64_t end, int) {
      for (int64_t group = begin; group < end; ++group) CombineGroup(group);
    });
    ParallelFor(s_.parts * s_.groups, 1, [this](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) Apply(i / s_.groups, i % s_.groups);
    });
  }

 protected:
  virtual void Sum(int64_t part, int64_t group, LaneSums& sums) = 0;
  // Turns the totals of a channel into outputs and coefficients.
  virtual void Finish(int64_t channel, double first, double second) = 0;
  virtual void Apply(int64_t part, int64_t group) = 0;

  Strips s_;
  Scratch scratch_;

 private:
  void RunGroup(int64_t group) {
    for (int64_t part = 0; part < s_.parts; ++part) SumInto(part, group);
    CombineGroup(group);
    for (int64_t part = 0; part < s_.parts; ++part) Apply(part, group);
  }

  void SumInto(int64_t part, int64_t group) {
    LaneSums sums;
    Sum(part, group, sums);
    if (s_.is_plain) {
      for (size_t lane = 1; lane < kMaxLanes; ++lane) {
        sums.first[0] += sums.first[lane];
        sums.second[0] += sums.second[lane];
      }
    }
    const int64_t at = part * s_.padded_channels() + s_.first_channel(group);
    std::copy_n(sums.first.begin(), s_.channels_of(group), scratch_.first + at);
    std::copy_n(sums.second.begin(), s_.channels_of(group), scratch_.second + at);
  }

  void CombineGroup(int64_t group) {
    const int64_t begin = s_.first_channel(group);
    for (int64_t channel = begin; channel < begin + s_.channels_of(group); ++channel) {
      double first = 0;
      double second = 0;
      for (int64_t part = 0; part < s_.parts; ++part) {
        first += scratch_.first[part * s_.padded_channels() + channel];
        second += scratch_.second[part * s_.padded_channels() + channel];
      }
      Finish(channel, first, second);
    }
    // Padding lanes give 0 for 0.
    if (s_.is_plain) return;
    for (int64_t channel = begin + s_.channels_of(group); channel < begin + s_.lanes; ++channel) {
      for (float* values : {scratch_.mean, scratch_.factor, scratch_.c, scratch_.d}) values[channel] = 0;
    }
  }
};

class ForwardKernel final : public TwoSweeps {
 public:
  ForwardKernel(const Strips& strips, const KernelQuery& query)
      : TwoSweeps(strips),
        eps_(query.node.attributes.Float("eps")),
        activation_(query.node.attributes.Bool("relu") ? Activation::kRelu : Activation::kNone),
        affine_(query.inputs.size() == 3) {}

  void Bind(const KernelArgs& args) override {
    x_ = args.inputs[0].as<float>().data();
    scale_ = affine_ ? args.inputs[1].as<float>().data() : nullptr;
    shift_ = affine_ ? args.inputs[2].as<float>().data() : nullptr;
    y_ = args.outputs[0].as<float>().data();
    mean_ = args.outputs[1].as<float>().data();
    variance_ = args.outputs[2].as<float>().data();
    scratch_ = Scratch::In(args.scratch, s_);
  }

 private:
  void Sum(int64_t part, int64_t group, LaneSums& sums) override {
    VisitStrips(s_, part, group, [&](const StripShape& strip, int64_t at) { SumStrip(strip, x_ + at, sums); });
  }

  void Finish(int64_t channel, double first, double second) override {
    const auto count = static_cast<double>(s_.parts * s_.positions);
    const double mean = first / count;
    // E[x^2] - E[x]^2: the products of floats are exact in double, so little cancels that a float could hold.
    const double variance = std::max(0.0, second / count - mean * mean);
    mean_[channel] = static_cast<float>(mean);
    variance_[channel] = std::isnan(second) ? static_cast<float>(second) : static_cast<float>(variance);
    const double scale = affine_ ? scale_[channel] : 1.0;
    scratch_.mean[channel] = mean_[channel];
    scratch_.factor[channel] = static_cast<float>(scale / std::sqrt(variance + eps_));
    scratch_.c[channel] = affine_ ? shift_[channel] : 0.0F;
  }

  void Apply(int64_t part, int64_t group) override {
    const LaneValues mean(s_, group, scratch_.mean);
    const LaneValues factor(s_, group, scratch_.factor);
    const LaneValues shift(s_, group, scratch_.c);
    const ForwardCoefficients c{mean.data(), factor.data(), shift.data()};
    VisitStrips(s_, part, group,
                [&](const StripShape& strip, int64_t at) { ApplyStrip(strip, c, activation_, x_ + at, y_ + at); });
  }

  double eps_;
  Activation activation_;
  bool affine_;
  const float* x_ = nullptr;
  const float* scale_ = nullptr;
  const float* shift_ = nullptr;
  float* y_ = nullptr;
  float* mean_ = nullptr;
  float* variance_ = nullptr;
};

class BackwardKernel final : public TwoSweeps {
 public:
  BackwardKernel(const Strips& strips, const KernelQuery& query)
      : TwoSweeps(strips),
        eps_(query.node.attributes.Float("eps")),
        affine_(query.node.attributes.Bool("affine")),
        relu_(query.node.attributes.Bool("relu")) {}

  void Bind(const KernelArgs& args) override {
    x_ = args.inputs[0].as<float>().data();
    mean_ = args.inputs[1].as<float>().data();
    variance_ = args.inputs[2].as<float>().data();
    dy_ = args.inputs[3].as<float>().data();
    scale_ = affine_ ? args.inputs[4].as<float>().data() : nullptr;
    y_ = relu_ ? args.inputs.back().as<float>().data() : nullptr;
    dx_ = args.outputs[0].as<float>().data();
    dscale_ = affine_ ? args.outputs[1].as<float>().data() : nullptr;
    dshift_ = affine_ ? args.outputs[2].as<float>().data() : nullptr;
    scratch_ = Scratch::In(args.scratch, s_);
  }

 private:
  void Sum(int64_t part, int64_t group, LaneSums& sums) override {
    // The mean of the lanes; of padding 0.
    std::array<float, kMaxLanes> mean{};
    const int64_t channel = s_.first_channel(group);
    if (s_.is_plain) {
      mean.fill(mean_[channel]);
    } else {
      std::copy_n(mean_ + channel, s_.channels_of(group), mean.begin());
    }
    VisitStrips(s_, part, group, [&](const StripShape& strip, int64_t at) {
      SumGradientStrip(strip, mean.data(), x_ + at, dy_ + at, y_ == nullptr ? nullptr : y_ + at, sums);
    });
  }

  void Finish(int64_t channel, double first, double second) override {
    const auto count = static_cast<double>(s_.parts * s_.positions);
    const double inverse = 1 / std::sqrt(variance_[channel] + eps_);
    scratch_.mean[channel] = mean_[channel];
    scratch_.factor[channel] = static_cast<float>((affine_ ? scale_[channel] : 1.0) * inverse);
    scratch_.c[channel] = static_cast<float>(first / count);
    scratch_.d[channel] = static_cast<float>(second / count * inverse * inverse);
    if (!affine_) return;
    dscale_[channel] = static_cast<float>(second * inverse);
    dshift_[channel] = static_cast<float>(first);
  }

  void Apply(int64_t part, int64_t group) override {
    const LaneValues mean(s_, group, scratch_.mean);
    const LaneValues factor(s_, group, scratch_.factor);
    const LaneValues average(s_, group, scratch_.c);
    const LaneValues slope(s_, group, scratch_.d);
    const BackwardCoefficients c{mean.data(), factor.data(), average.data(), slope.data()};
    VisitStrips(s_, part, group, [&](const StripShape& strip, int64_t at) {
      ApplyGradientStrip(strip, c, x_ + at, dy_ + at, y_ == nullptr ? nullptr : y_ + at, dx_ + at);
    });
  }

  double eps_;
  bool affine_;
  bool relu_;
  const float* x_ = nullptr;
  const float* mean_ = nullptr;
  const float* variance_ = nullptr;
  const float* dy_ = nullptr;
  const float* scale_ = nullptr;
  const float* y_ = nullptr;
  float* dx_ = nullptr;
  float* dscale_ = nullptr;
  float* dshift_ = nullptr;
};

std::string Refuse(const KernelQuery& query) {
  const TensorType& x = query.inputs[0];
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (type.dtype != DType::kFloat32) return StrCat("only float32, found ", type.ToString());
      const bool is_vector = type.shape.rank() == 1;
      if (type.layout != (is_vector ? Layout{} : x.layout)) return "x, y and their gradients lie differently";
    }
  }
  if (!StripsOf(x)) return StrCat("only plain, channels-last or channel-blocked memory, found ", x.ToString());
  return x.shape.Count() == 0 ? StrCat("the tensor ", x.ToString(), " is empty") : std::string();
}

// As x lies (as plain if that is not possible).
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  const Layout layout = StripsOf(query.inputs[0]) ? query.inputs[0].layout : Layout{};
  LayoutProposal proposal;
  for (const TensorType& type : query.inputs) proposal.inputs.push_back(type.shape.rank() > 1 ? layout : Layout{});
  for (const TensorType& type : query.outputs) proposal.outputs.push_back(type.shape.rank() > 1 ? layout : Layout{});
  return proposal;
}

template <class K>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const std::optional<Strips> strips = StripsOf(query.inputs[0]);
  Require(strips.has_value(), "make follows an accepted query");
  return std::make_unique<K>(*strips, query);
}

}  // namespace

KernelDef MokaBatchNorm() {
  return {.name = "moka", .op = "batch_norm", .refuse = Refuse, .propose = Propose, .make = Make<ForwardKernel>};
}

KernelDef MokaBatchNormBackward() {
  return {
      .name = "moka", .op = "batch_norm_backward", .refuse = Refuse, .propose = Propose, .make = Make<BackwardKernel>};
}

}  // namespace moka
