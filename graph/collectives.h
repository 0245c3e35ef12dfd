// The interface by which the nodes that sum gradients over ranks ask of the room that communicates
// (comm/exchange/gradient_exchange.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/device/tensor.h"

namespace moka {

class Stream;

// An exchange of parts between all ranks. What goes to rank r are the elements [sent[r], sent[r + 1]) of `from`, or all
// of them to every rank where `sent` has two numbers; what comes from it goes to [received[r], received[r + 1]) of
// `to`, or is added up there, in the order of ranks, where `received` has two. A rank's own part stays to whoever
// announces.
struct PartsExchange {
  std::span<float> from;
  std::span<float> to;
  std::vector<int64_t> sent;
  std::vector<int64_t> received;
  int64_t elements = 0;  // of the whole that goes to this rank or comes from it, its own part included: alike on all
};

class Collectives {
 public:
  virtual ~Collectives() = default;

  // Announces a tensor of float32 that is summed in place once an iteration, while a program is bound: in the order of
  // its steps, so alike on all ranks. `key` tells it from the program's others; `layer` is for people.
  virtual void Announce(int64_t key, std::string_view layer, const Tensor& values) = 0;
  // The same for a tensor whose Begin is followed by its End at once, and whose sum is over the ranks of this one's
  // group only: `ranks` neighbours.
  virtual void AnnounceGroup(int64_t key, std::string_view layer, const Tensor& values, int ranks) = 0;
  // The same for an exchange whose Begin is followed by its End at once.
  virtual void AnnounceParts(int64_t key, std::string_view layer, const PartsExchange& parts) = 0;
  // The tensor holds this rank's values. Returns at once; the tensor is the exchange's until End.
  virtual void Begin(int64_t key) noexcept = 0;
  // Returns when the tensor holds the sum over all ranks, or when the exchange has failed, which whoever runs the
  // program asks afterwards.
  virtual void End(int64_t key) noexcept = 0;

  // The same in a program of a GPU, for the place in its stream where the call stands. May be recorded with the rest of
  // a step and is then done again by each Launch. Errors: kUnavailable when a GPU fails.
  virtual void Begin(int64_t key, Stream& stream) = 0;
  virtual void End(int64_t key, Stream& stream) = 0;
  // Sleeps until the stream has done a step that was queued whole. When the exchange fails, it ends what is under way,
  // and whoever runs the program asks afterwards.
  virtual void Await(Stream& stream) = 0;
  // Steps that were recorded under another number are not to be launched any more.
  virtual int64_t plan_number() const = 0;
};

}  // namespace moka
