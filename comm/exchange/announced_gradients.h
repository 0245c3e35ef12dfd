// The gradients of a program as it announces them: what they are, and the way on which each crosses to the other ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/compression/gradient_compression.h"
#include "comm/exchanged_gradient.h"
#include "comm/schedule/message.h"
#include "comm/schedule/schedule.h"
#include "graph/collectives.h"

namespace moka {

// A gradient goes to all ranks as their sum; the same, always as float32 (what is no gradient: losses, statistics); to
// the rank that owns it alone; is not summed but its owner's on all ranks afterwards; is summed in groups of
// neighbours; or is moved as AnnounceParts says.
enum class GradientWay : uint8_t { kToAll, kExactToAll, kToOwner, kFromOwner, kInGroup, kParts };

struct GradientRoute {
  GradientWay way = GradientWay::kToAll;
  int owner = 0;  // or the number of ranks in a group
  bool operator==(const GradientRoute&) const = default;
  // The rank to or from which alone it goes; -1 if it is summed for several.
  int only_rank() const { return way == GradientWay::kToOwner || way == GradientWay::kFromOwner ? owner : -1; }
};

class AnnouncedGradients {
 public:
  // Before anything is announced: some gradients cross compressed (comm/compression), from an iteration on.
  void SetCompression(std::unique_ptr<GradientCompression> compression) { compression_ = std::move(compression); }
  // Null without; the compressed form of gradient i, null for one that crosses as it is.
  GradientCompression* compression() const { return compression_.get(); }
  CompressedGradient* compressed(size_t i) const { return compressed_[i]; }

  // In the order of the program's steps. Requires: the key is new, the values are float32.
  void Add(int64_t key, std::string_view layer, const Tensor& values, GradientRoute route = {});
  void AddParts(int64_t key, std::string_view layer, const PartsExchange& parts);
  void SetRoute(int64_t key, GradientRoute route) { routes_[static_cast<size_t>(IndexOf(key))] = route; }

  // Requires: a key that was announced.
  int IndexOf(int64_t key) const { return index_of_key_.at(key); }
  std::vector<ExchangedGradient>& all() { return gradients_; }
  const std::vector<ExchangedGradient>& all() const { return gradients_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const GradientRoute& route(int i) const { return routes_[static_cast<size_t>(i)]; }
  // The first that comes from its owner; the number of gradients if none does.
  int first_gathered() const;

  // The end of a bucket that begins at gradient `first` and ends at `end` at the latest: all of one way.
  int EndOfWay(int first, int end) const;
  // The message of a bucket, in the order in which its schedule sends it, and that schedule: `planned`, or that of the
  // bucket's way.
  Schedule Arrange(int first, int last, const Schedule& planned, int rank, int ranks, Message& message) const;
  // A line a gradient: equal where ranks announced the same.
  std::string Describe() const;

 private:
  std::unique_ptr<GradientCompression> compression_;
  std::map<int64_t, int> index_of_key_;
  std::vector<ExchangedGradient> gradients_;
  std::vector<Tensor> tensors_;
  std::vector<CompressedGradient*> compressed_;
  std::vector<GradientRoute> routes_;
  std::map<int, PartsExchange> parts_;  // by gradient
};

// Gradients behind which a bucket ends whatever the plan, ascending, each one past the last: ways differ there.
std::vector<int> CutsOf(const AnnouncedGradients& gradients);

}  // namespace moka
