// A convolution does the work of what follows it (graph/passes/fold.cpp): of two that are summed the first in the net's
// order takes the sum, and a ReLU goes with it. The range of its result is the one behind all that; where that is never
// rounded, nothing reads its integers, and the range is that of the largest sum.
#include "tools/exchange/import/imported_ranges.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace moka {
namespace {

bool IsOneOf(const std::string& type, std::initializer_list<std::string_view> types) {
  return std::ranges::find(types, type) != types.end();
}

const LayerParameter& MakerOf(NetWriter& net, const std::string& blob) { return net.net().layer(net.PlaceOf(blob)); }

// Whether no value of the blob is below 0, as far as the layers say it that make it.
bool IsNeverNegative(NetWriter& net, std::string blob) {
  for (;;) {
    const LayerParameter& layer = MakerOf(net, blob);
    if (layer.type() == "ReLU") return layer.relu_param().negative_slope() == 0;
    if (layer.type() == "Clip") return layer.clip_param().min() >= 0;
    const bool passes_on = IsOneOf(layer.type(), {"Pooling", "Reshape", "Flatten", "Permute", "Slice", "Split"});
    if (!passes_on) return IsOneOf(layer.type(), {"ReLU6", "Sigmoid", "AbsVal", "Softmax"});
    blob = layer.bottom(0);
  }
}

bool IsSum(const LayerParameter& layer) {
  if (layer.bottom_size() != 2) return false;
  if (layer.type() == "Add") return true;
  const EltwiseParameter& p = layer.eltwise_param();
  return layer.type() == "Eltwise" && p.operation() == EltwiseParameter::SUM && p.coeff_size() == 0;
}

struct ValueRange {
  double low = 0;
  double high = 0;
};

class RangeReader {
 public:
  explicit RangeReader(NetWriter& net) : net_(net) {
    for (const LayerParameter& layer : net.net().layer()) {
      for (const std::string& bottom : layer.bottom()) readers_[bottom].push_back(&layer);
    }
    for (size_t i = 0; i < net.weights().size(); ++i) weights_[net.weights()[i].layer].push_back(i);
  }

  // The one of two convolutions that are summed that alone is rounded before, if it comes first; else an empty name.
  std::string RoundedFirst(const LayerParameter& sum) const {
    const std::string& a = sum.bottom(0);
    const std::string& b = sum.bottom(1);
    if (!IsSummand(a) || !IsSummand(b) || net_.levels().contains(a) == net_.levels().contains(b)) return {};
    const std::string& first = net_.PlaceOf(a) < net_.PlaceOf(b) ? a : b;
    return net_.levels().contains(first) ? first : std::string();
  }

  void Add(const LayerParameter& layer, Quantization& all) const {
    const std::optional<ValueRange> input = RangeAt(layer.bottom(0));
    if (!input || IsScaledBehind(layer.top(0))) return;
    const std::vector<size_t>& blobs = weights_.at(layer.name());
    const NamedBlob& weights = net_.weights()[blobs[0]];
    ConvolutionRanges ranges;
    ranges.input_low = input->low;
    ranges.input_high = input->high;
    ranges.checksum = net_.hashes()[blobs[0]];
    const auto outputs = static_cast<size_t>(weights.shape[0]);
    const size_t each = weights.values.size() / outputs;
    double most = 0;
    for (size_t k = 0; k < outputs; ++k) {
      double largest = 0;
      double sum = blobs.size() > 1 ? std::abs(double{net_.weights()[blobs[1]].values[k]}) : 0;
      for (size_t i = k * each; i < (k + 1) * each; ++i) {
        const double magnitude = std::abs(double{weights.values[i]});
        largest = std::max(largest, magnitude);
        sum += magnitude * std::max(input->high, -input->low);
      }
      ranges.weights.push_back(largest);
      most = std::max(most, sum);
    }
    const ValueRange output = RangeBehind(ResultOf(layer)).value_or(ValueRange{-most, most});
    ranges.output_low = output.low;
    ranges.output_high = output.high;
    all.convolutions[layer.name()] = ranges;
  }

 private:
  std::optional<ValueRange> RangeAt(const std::string& blob) const {
    const auto found = net_.levels().find(blob);
    if (found == net_.levels().end()) return std::nullopt;
    const double low = IsNeverNegative(net_, blob) ? 0 : found->second.low();
    return ValueRange{std::max(low, found->second.low()), found->second.high()};
  }

  // The only layer that reads the blob; null if there are others or none.
  const LayerParameter* OnlyReader(const std::string& blob) const {
    const auto readers = readers_.find(blob);
    return readers == readers_.end() || readers->second.size() != 1 ? nullptr : readers->second[0];
  }

  // Whether a batch norm or the like is folded into the weights, which are then other ones.
  bool IsScaledBehind(const std::string& blob) const {
    const LayerParameter* next = OnlyReader(blob);
    return next != nullptr && IsOneOf(next->type(), {"BatchNorm", "Scale", "Bias", "Power"});
  }

  // Whether the sum is taken by the convolution that makes this blob.
  bool TakesSum(const LayerParameter& sum, const std::string& blob) const {
    return std::ranges::none_of(sum.bottom(), [&](const std::string& other) {
      return other != blob && IsSummand(other) && net_.PlaceOf(other) < net_.PlaceOf(blob);
    });
  }

  // Whether a convolution makes the blob for one reader.
  bool IsSummand(const std::string& blob) const {
    return MakerOf(net_, blob).type() == "Convolution" && OnlyReader(blob) != nullptr;
  }

  // The blob that holds what the convolution computes with all that it takes.
  std::string ResultOf(const LayerParameter& layer) const {
    std::string blob = layer.top(0);
    const LayerParameter* next = OnlyReader(blob);
    if (next != nullptr && IsSum(*next) && TakesSum(*next, blob)) {
      blob = next->top(0);
      next = OnlyReader(blob);
    }
    const bool is_relu = next != nullptr && next->type() == "ReLU" && next->relu_param().negative_slope() == 0;
    return is_relu ? next->top(0) : blob;
  }

  // The range of a result that is rounded there or behind max pooling, which leaves values as they are.
  std::optional<ValueRange> RangeBehind(std::string blob) const {
    for (;;) {
      if (const std::optional<ValueRange> range = RangeAt(blob)) return range;
      const LayerParameter* next = OnlyReader(blob);
      const bool is_max =
          next != nullptr && next->type() == "Pooling" && next->pooling_param().pool() == PoolingParameter::MAX;
      if (!is_max) return std::nullopt;
      blob = next->top(0);
    }
  }

  NetWriter& net_;
  std::map<std::string, std::vector<const LayerParameter*>> readers_;
  std::map<std::string, std::vector<size_t>> weights_;  // places of a layer's blobs
};

}  // namespace

bool MayLackReLU(NetWriter& net, const std::string& blob) {
  const std::string& type = MakerOf(net, blob).type();
  return IsOneOf(type, {"Convolution", "Deconvolution", "InnerProduct", "MatMul", "Eltwise", "Add", "Bias", "Scale"});
}

void PutRoundedSummandsLast(NetWriter& net) {
  if (net.levels().empty()) return;
  const RangeReader reader(net);
  for (int i = 0; i < net.net().layer_size(); ++i) {
    if (!IsSum(net.net().layer(i))) continue;
    const std::string rounded = reader.RoundedFirst(net.net().layer(i));
    if (!rounded.empty()) net.MoveLayer(net.PlaceOf(rounded), i - 1);
  }
}

Quantization RangesOf(NetWriter& net) {
  Quantization all;
  if (net.levels().empty()) return all;
  const RangeReader reader(net);
  for (const LayerParameter& layer : net.net().layer()) {
    if (layer.type() == "Convolution") reader.Add(layer, all);
  }
  return all;
}

}  // namespace moka
