// Cuts the channels into groups whose tensors stay in the last-level cache between the two sweeps, so that x is read
// from memory once instead of twice. Parts of a group's sums are added in one order, whatever the number of threads.
#include "layers/kernels/cpu/normalisation/batch_norm_walk.h"

#include <numeric>
#include <string>

#include "core/size.h"
#include "core/text.h"
#include "core/threads/parallel.h"

namespace moka {
namespace {

// The part of the last-level cache that groups swept together may take. We do not know the cache's size: this is half
// of what a small server has.
constexpr int64_t kCacheBytes = int64_t{8} << 20;
// Shorter stretches of memory are joined with their neighbours.
constexpr int64_t kStretchBytes = int64_t{32} << 10;
// Parts of channels-last memory are cut down to this.
constexpr int64_t kPartBytes = int64_t{256} << 10;
// Fewer sums are added up before a thread is awake.
constexpr int64_t kFewSums = int64_t{1} << 14;

// Rounded up so that every array begins a cache line.
int64_t PaddedChannels(const Strips& s) { return RoundUp(s.padded_channels(), kMaxLanes).value(); }

Strips PlainStrips(Strips s) {
  s.is_plain = true;
  s.groups = s.channels;
  s.part_stride = s.channels * s.positions;
  s.group_stride = s.positions;
  s.row_stride = kMaxLanes;
  return s;
}

// Parts are alike, so they are cut by a divisor of the positions.
Strips RowStrips(Strips s, Parts parts) {
  int64_t cuts = 1;
  const auto fits = [&] { return s.positions / cuts * s.channels * s.element_bytes <= kPartBytes; };
  while (parts == Parts::kRows && cuts < s.positions && (s.positions % cuts != 0 || !fits())) ++cuts;
  s.parts *= cuts;
  s.positions /= std::max<int64_t>(1, cuts);
  s.is_one_group = true;
  s.lanes = static_cast<int>(s.channels);
  s.groups = 1;
  s.part_stride = s.channels * s.positions;
  s.row_stride = s.channels;
  return s;
}

Strips BlockedStrips(Strips s, int lanes) {
  s.lanes = lanes;
  s.pads_last_group = true;
  s.groups = CeilDiv(s.channels, lanes).value();
  s.part_stride = s.groups * s.positions * lanes;
  s.group_stride = s.positions * lanes;
  s.row_stride = lanes;
  return s;
}

}  // namespace

int64_t Strips::group_bytes() const { return parts * positions * (is_plain ? 1 : lanes) * element_bytes; }

std::optional<Strips> StripsOf(const TensorType& x, Parts parts) {
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
  s.element_bytes = BytesOf(x.dtype);
  s.positions = shape.Count(2, rank);
  if (x.layout.is_plain()) {
    if (rank > 2) return PlainStrips(s);
    s.parts = 1;  // rows of channels: channels last with the images as positions
    s.positions = shape[0];
    return RowStrips(s, parts);
  }
  if (name == channels_last) return RowStrips(s, parts);
  std::string blocked = plain;
  blocked[1] = 'B';
  for (const int lanes : {16, 8, 4}) {
    if (name == StrCat(blocked, lanes, "b")) return BlockedStrips(s, lanes);
  }
  return {};
}

std::optional<Sampling> Sampling::Of(const Attributes& attributes, const TensorType& x, const TensorType& y) {
  const Ints& stride = attributes.Get<Ints>("stride");
  if (stride.empty()) return {};
  const std::optional<Strips> of_x = StripsOf(x);
  const std::optional<Strips> of_y = StripsOf(y);
  Require(of_x && of_y, "sampled tensors lie as strips");
  // In plain memory a row's lanes are positions; those that are made lie apart, so each is a row of one.
  const int64_t step = of_x->is_plain ? 1 : of_x->row_stride;
  return Sampling{.y = *of_y,
                  .x_rows = x.shape[2],
                  .every = stride[0],
                  .x_stride = x.shape[3] * step,
                  .made = {y.shape[3], stride[1] * step, 1, step},
                  .all = {x.shape[3], step, 1, step}};
}

int64_t TwoSweeps::scratch_bytes() const {
  const Size channels = PaddedChannels(s_);
  return (channels * s_.parts * 2 * int64_t{sizeof(double)} + channels * kCoefficients * int64_t{sizeof(float)})
      .value();
}

void TwoSweeps::BindScratch(std::byte* scratch) {
  stride_ = PaddedChannels(s_);
  first_ = static_cast<double*>(static_cast<void*>(scratch));
  second_ = first_ + stride_ * s_.parts;
  coefficients_ = static_cast<float*>(static_cast<void*>(second_ + stride_ * s_.parts));
}

// Three orders: images among the threads (each reads what its core wrote, a bundle of groups that fits the cache at a
// time), groups among the threads, or, with few of both, all strips together.
void TwoSweeps::Run() {
  const int64_t threads = ThreadCount();
  if (s_.is_one_group) return RunGroupsTogether(0, s_.groups);
  if (threads > 1 && (s_.parts % threads == 0 || s_.parts >= 8 * threads)) {
    const int64_t bundle = std::max<int64_t>(1, kCacheBytes / std::max<int64_t>(1, arrays_ * s_.group_bytes()));
    for (int64_t group = 0; group < s_.groups; group += bundle) {
      RunGroupsTogether(group, std::min(s_.groups, group + bundle));
    }
    return;
  }
  // Below four groups a thread, an uneven split of groups would leave threads idle.
  if (s_.groups % threads == 0 || s_.groups >= 4 * threads) {
    const int64_t bundle = GroupsAtATime(threads);
    ParallelFor(s_.groups, 1, [this, bundle](int64_t begin, int64_t end, int) {
      for (int64_t group = begin; group < end; group += bundle) RunGroups(group, std::min(end, group + bundle));
    });
    return;
  }
  RunGroupsTogether(0, s_.groups);
}

// Neighbouring groups of small planes are taken together: stretches of a few KiB end before the processor has begun to
// read ahead.
int64_t TwoSweeps::GroupsAtATime(int64_t threads) const {
  const int64_t stretch = s_.group_bytes() / std::max<int64_t>(1, s_.parts);
  const int64_t fitting = kCacheBytes / std::max<int64_t>(1, threads * arrays_ * s_.group_bytes());
  return std::clamp<int64_t>(kStretchBytes / std::max<int64_t>(1, stretch), 1, std::max<int64_t>(1, fitting));
}

// The second sweep goes backwards: what the first read last is still in cache.
void TwoSweeps::RunGroups(int64_t begin, int64_t end) {
  for (int64_t group = begin; group < end; ++group) Begin(group);
  for (int64_t part = 0; part < s_.parts; ++part) {
    for (int64_t group = begin; group < end; ++group) SumInto(part, group);
  }
  for (int64_t group = begin; group < end; ++group) CombineGroup(group);
  for (int64_t part = s_.parts; part-- > 0;) {
    for (int64_t group = begin; group < end; ++group) Apply(part, group);
  }
}

// Strips one after another as they lie in memory, a range of them a thread, the same in both sweeps.
void TwoSweeps::RunGroupsTogether(int64_t first, int64_t last) {
  const int64_t groups = last - first;
  for (int64_t group = first; group < last; ++group) Begin(group);
  ParallelFor(s_.parts * groups, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) SumInto(i / groups, first + i % groups);
  });
  const int64_t grain = 1 + kFewSums / std::max<int64_t>(1, s_.parts * s_.lanes);
  ParallelFor(groups, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t group = begin; group < end; ++group) CombineGroup(first + group);
  });
  ParallelFor(s_.parts * groups, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = end; i-- > begin;) Apply(i / groups, first + i % groups);
  });
}

// Plain memory: lanes are positions of one channel, so their sums are joined here.
void TwoSweeps::SumInto(int64_t part, int64_t group) {
  const int64_t at = part * stride_ + s_.first_channel(group);
  if (!s_.is_plain) {
    std::fill_n(first_ + at, s_.width(group), 0.0);
    std::fill_n(second_ + at, s_.width(group), 0.0);
    return Sum(part, group, {first_ + at, second_ + at});
  }
  std::array<double, kMaxLanes> first{};
  std::array<double, kMaxLanes> second{};
  Sum(part, group, {first.data(), second.data()});
  first_[at] = std::accumulate(first.begin(), first.end(), 0.0);
  second_[at] = std::accumulate(second.begin(), second.end(), 0.0);
}

void TwoSweeps::CombineGroup(int64_t group) {
  const int64_t begin = s_.first_channel(group);
  const int64_t channels = s_.channels_of(group);
  for (int64_t c = 0; c < channels; c += kMaxLanes) {
    CombineChannels(begin + c, std::min<int64_t>(kMaxLanes, channels - c));
  }
  if (s_.is_plain) return;
  for (int c = 0; c < kCoefficients; ++c) {
    float* array = values(static_cast<Coefficient>(c));
    std::fill(array + begin + channels, array + begin + s_.lanes, 0.0F);
  }
}

// Sums of parts are added in the order of images; the split of work leaves no trace.
void TwoSweeps::CombineChannels(int64_t begin, int64_t channels) {
  std::array<double, kMaxLanes> first{};
  std::array<double, kMaxLanes> second{};
  for (int64_t part = 0; part < s_.parts; ++part) {
    for (int64_t c = 0; c < channels; ++c) {
      first[static_cast<size_t>(c)] += first_[part * stride_ + begin + c];
      second[static_cast<size_t>(c)] += second_[part * stride_ + begin + c];
    }
  }
  for (int64_t c = 0; c < channels; ++c) {
    Finish(begin + c, first[static_cast<size_t>(c)], second[static_cast<size_t>(c)]);
  }
}

}  // namespace moka
