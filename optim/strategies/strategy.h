// How the ranks of a training come to the same weights. Where gradients are summed in the program of the step itself
// (synchronous and delayed training) there is no strategy object: comm/exchange/gradient_exchange.h does it. The others
// let each rank compute by itself and agree between steps; they are what this interface is for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/transport/communicator.h"
#include "graph/parameter_store.h"
#include "proto/moka.pb.h"

namespace moka {

enum class StrategyKind : uint8_t { kSynchronous, kDelayed, kLocal, kServed };

// Errors: kConfig at solver.distributed's field: an unknown name (the nearest is named), a number out of range, solver
// fields that do not go with the strategy.
StrategyKind StrategyOf(const SolverParameter& solver);

inline bool SumsGradients(StrategyKind kind) {
  return kind == StrategyKind::kSynchronous || kind == StrategyKind::kDelayed;
}

// Whether each rank updates the weights it owns only. Errors: kConfig at a field that does not go with it.
bool ShardsUpdates(const SolverParameter& solver);

// The mean over all ranks of values that they keep apart, such as running statistics. Errors: kPeer.
void MeanOverRanks(Communicator& world, ParameterStore& store, const std::vector<std::string>& names);

// The things that this rank wants all to know, which it goes on wanting until they do, and how many ranks are known to
// want each since the last step.
inline constexpr int kWishes = 3;
class Wishes {
 public:
  void Want(int wish) { wanted_.at(static_cast<size_t>(wish)) = 1; }
  int count(int wish) const { return counted_.at(static_cast<size_t>(wish)); }

  // As they cross to the other ranks.
  std::span<const float, kWishes> wanted() const { return wanted_; }
  // Takes what came of it: the sums over all ranks. With sums of `delay` iterations before, a wish that was counted
  // comes as often again, which counts for nothing.
  template <typename Number>
  void Count(std::span<const Number, kWishes> sums, int delay = 0) {
    for (size_t i = 0; i < counted_.size(); ++i) Count(i, static_cast<int>(sums[i]), delay);
  }
  void CountNone() { counted_.fill(0); }
  // Whether one is known to all.
  bool is_any_counted() const;
  // A wish that all know of is wanted no more.
  void DropCounted();

 private:
  void Count(size_t wish, int sum, int delay);

  std::array<float, kWishes> wanted_{};
  std::array<int, kWishes> counted_{};
  std::array<int, kWishes> repeats_{};  // that are still to come
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  // All ranks, before the first iteration. Errors: kConfig when they do not train the same program.
  virtual void Join() = 0;
  // Before the programs of an iteration run.
  virtual void Begin(int64_t iteration) = 0;
  // After them: `loss` is this rank's mean over its batches; returns what is to be reported of all ranks. Where
  // `must_agree`, a test, a checkpoint or the end follows: then all ranks hold the same values in their stores, nothing
  // is under way and the communicator is free. The same after an iteration in which a wish is counted. Errors:
  // kPeer.
  virtual double Finish(int64_t iteration, double loss, bool must_agree, Wishes& wishes) = 0;
  // Ends what is under way because of an error of this rank, and tells the others.
  virtual void Cancel(const std::string& why) noexcept = 0;
  // For the first lines of a log: "local SGD, every 8 iterations".
  virtual std::string Describe() const = 0;
};

}  // namespace moka
