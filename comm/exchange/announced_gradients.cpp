// Announced gradients in the order of the calls of Add, and the schedule and message of those that go one way.
#include "comm/exchange/announced_gradients.h"

#include <algorithm>
#include <span>
#include <utility>

#include "comm/schedule/owned_parts.h"
#include "core/error.h"
#include "core/text.h"

namespace moka {

void AnnouncedGradients::Add(int64_t key, std::string_view layer, const Tensor& values, GradientRoute route) {
  Require(values.type().dtype == DType::kFloat32, "gradients are exchanged in float32");
  const bool is_new = index_of_key_.emplace(key, static_cast<int>(gradients_.size())).second;
  Require(is_new, "a gradient is announced once");
  gradients_.push_back({std::string(layer), values.type().Bytes(), 0});
  tensors_.push_back(values);
  routes_.push_back(route);
  compressed_.push_back(compression_ ? compression_->Add(key, values) : nullptr);
}

void AnnouncedGradients::AddParts(int64_t key, std::string_view layer, const PartsExchange& parts) {
  const auto size = static_cast<int64_t>(parts.to.size());
  Add(key, layer, Tensor({DType::kFloat32, Shape{size}, {}}, parts.to.data()), {GradientWay::kParts, 0});
  // The size of an all-reduce that would move as many bytes: planners know what that takes.
  gradients_.back().bytes = parts.elements / 2 * static_cast<int64_t>(sizeof(float));
  parts_[static_cast<int>(gradients_.size()) - 1] = parts;
}

int AnnouncedGradients::first_gathered() const {
  const auto it = std::ranges::find(routes_, GradientWay::kFromOwner, &GradientRoute::way);
  return static_cast<int>(it - routes_.begin());
}

int AnnouncedGradients::EndOfWay(int first, int end) const {
  const GradientWay way = route(first).way;
  // The program waits for it before it goes on.
  if (way == GradientWay::kInGroup || way == GradientWay::kParts) return first + 1;
  while (first < end && route(first).way == way) ++first;
  return first;
}

Schedule AnnouncedGradients::Arrange(int first, int last, const Schedule& planned, int rank, int ranks,
                                     Message& message) const {
  const GradientWay way = route(first).way;
  const auto append = [&](int i) {
    const std::span<float> values = tensors_[static_cast<size_t>(i)].as<float>();
    message.Append(values.data(), static_cast<int64_t>(values.size()));
  };
  if (way == GradientWay::kParts) {
    const PartsExchange& parts = parts_.at(first);
    message.Append(parts.from.data(), parts.sent.back());
    message.Append(parts.to.data(), parts.received.back());
    return ExchangeParts(rank, ranks, parts.sent, parts.received);
  }
  if (route(first).only_rank() < 0) {
    for (int i = first; i < last; ++i) append(i);
    return way == GradientWay::kInGroup ? SumInGroup(rank, ranks, route(first).owner) : planned;
  }
  std::vector<int64_t> bounds = {0};
  for (int owner = 0; owner < ranks; ++owner) {
    for (int i = first; i < last; ++i) {
      if (route(i).owner == owner) append(i);
    }
    bounds.push_back(message.size());
  }
  return way == GradientWay::kToOwner ? ReduceToOwners(rank, std::move(bounds))
                                      : GatherFromOwners(rank, std::move(bounds));
}

std::string AnnouncedGradients::Describe() const {
  std::string text;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const auto parts = parts_.find(static_cast<int>(i));
    text += StrCat(gradients_[i].layer, " ",
                   parts == parts_.end() ? tensors_[i].type().ToString() : StrCat(parts->second.elements, " in parts"));
    if (compressed_[i] != nullptr) text += StrCat(" by ", compression_->method().name);
    text += "\n";
  }
  return text;
}

std::vector<int> CutsOf(const AnnouncedGradients& gradients) {
  std::vector<int> cuts;
  const int all = static_cast<int>(gradients.all().size());
  for (int first = 0; first < all; first = cuts.back()) cuts.push_back(gradients.EndOfWay(first, all));
  return cuts;
}

}  // namespace moka
