// What a rank reads from others before and between the steps of a training: texts, sums, the fields that must be equal,
// clocks, arrivals, a plan of communication. A transport plays the other ranks with the input's bytes. The first byte
// says what is asked, and the second which rank this one is.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "comm/all_reduce_choice.h"
#include "comm/arrivals.h"
#include "comm/clocks.h"
#include "comm/communicator.h"
#include "comm/fusion_plan.h"
#include "comm/same_on_all.h"
#include "core/text.h"
#include "tests/fuzz/one_input.h"

namespace moka {
namespace {

constexpr int kRanks = 3;

// Takes whatever is sent; what comes, from whichever rank, is the input, and when that ends the others have failed.
class PlayedRanks final : public Transport {
 public:
  PlayedRanks(std::string_view bytes, int rank) : Transport(rank, kRanks), bytes_(bytes.size() / kUnit * kUnit) {
    std::ranges::transform(bytes.substr(0, bytes_.size()), bytes_.begin(), [](char c) { return std::byte(c); });
  }

  std::span<std::byte> Reserve(int /*peer*/) override { return sink_; }
  void Commit(int /*peer*/, int64_t bytes) override {
    if (bytes < 0 || bytes > std::ssize(sink_) || bytes % kUnit != 0) std::abort();
  }
  std::span<const std::byte> Peek(int /*peer*/) override { return std::span(bytes_).subspan(at_); }
  void Consume(int /*peer*/, int64_t bytes) override {
    if (bytes < 0 || static_cast<size_t>(bytes) > bytes_.size() - at_ || bytes % kUnit != 0) std::abort();
    at_ += static_cast<size_t>(bytes);
  }
  void Idle(Deadline /*until*/, int /*peers*/) override { has_ended_ = at_ == bytes_.size(); }
  void Fail(const std::string& /*why*/) override {}
  std::string failure() const override { return has_ended_ ? "the input ends" : ""; }

 private:
  std::array<std::byte, 4096> sink_{};
  std::vector<std::byte> bytes_;
  size_t at_ = 0;
  bool has_ended_ = false;
};

FusionInput ThreeGradients() {
  FusionInput input;
  for (int i = 0; i < 3; ++i) input.gradients.push_back({.name = StrCat("g", i), .bytes = 8, .ready_s = i * 0.1});
  input.ranks = kRanks;
  return input;
}

void ReadPlan(Communicator& world) {
  static const FusionInput input = ThreeGradients();
  FusionPlan plan = PlanOfText(world.Broadcast({}, (world.rank() + 1) % kRanks));
  Require(PlanOfText(ToText(plan)) == plan, "plans read back");
  CheckPlan(plan, input);
  for (int64_t cut = 0; cut <= 3; ++cut) CutBucket(plan, input, cut);
  CheckPlan(plan, input);
}

void ReadArrivals(Communicator& world) {
  ArrivalLog log;
  log.Start(1);
  const ClockOffset clock{.at_micros = 1, .micros = 2, .error_micros = 3};
  ArrivalTable(GatherArrivals(world, log, clock, clock));
}

void Ask(char what, Communicator& world) {
  std::array<double, 3> numbers = {1, 2, 3};
  switch (what) {
    case 'b': world.Broadcast("own", (world.rank() + 1) % kRanks); return;
    case 'g': Require(world.AllGather("own").size() == kRanks, "a text a rank"); return;
    case 's': world.Sum(numbers); return;
    case 'm': world.Max(numbers); return;
    case 'r': world.Receive((world.rank() + 1) % kRanks); return;
    case 'e': RequireSame(world, "a\nb\n", "line"); return;
    case 'f': RequireSameFields(world, {{"solver.momentum", "0.9"}, {"version", "1", true}}); return;
    case 'c': MeasureClock(world, {"this", [] { return int64_t{5}; }}); return;
    case 'a': ReadArrivals(world); return;
    default: ReadPlan(world);
  }
}

}  // namespace
}  // namespace moka

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view bytes) {
    if (bytes.size() < 2) return;
    const int rank = static_cast<uint8_t>(bytes[1]) % moka::kRanks;
    moka::Communicator world(std::make_unique<moka::PlayedRanks>(bytes.substr(2), rank));
    moka::Ask(bytes.front(), world);
  });
}
