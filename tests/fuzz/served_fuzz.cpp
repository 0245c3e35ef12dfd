// The messages that a parameter server reads from its workers, and a worker from servers. The first byte says which
// rule serves and which rank this one is; this rank pushes three times and leaves, while the input plays the others.
#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "comm/server/parameter_service.h"
#include "comm/transport/communicator.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/played_ranks.h"

namespace moka {
namespace {

class OwnValues final : public ServedValues {
 public:
  void Apply(int64_t /*clock*/, double /*loss*/, std::span<float> gradients, std::span<const float> /*sent*/) override {
    Require(gradients.size() == values_.size(), "a gradient a value");
    for (size_t i = 0; i < values_.size(); ++i) values_[i] -= gradients[i];
  }
  void Read(std::span<float> values) const override { std::ranges::copy(values_, values.begin()); }

 private:
  std::array<float, 2> values_{};
};

void Serve(Communicator& world, ParameterService::Rule rule) {
  constexpr int64_t kClock = 5;
  OwnValues own;
  ParameterService service(world, std::vector<int64_t>(kPlayedRanks, 2), rule, /*staleness=*/1, own);
  service.Enter(kClock);
  const std::vector<float> gradients(2UL * kPlayedRanks, 0.5F);
  std::vector<float> values(gradients.size());
  for (int64_t i = 0; i < 3; ++i) service.Exchange(kClock + i, 1, {}, gradients, values);
  service.Leave();
}

}  // namespace

FuzzTarget ServedFuzz() {
  return {"served", [](std::string_view bytes) {
            if (bytes.empty()) return;
            const auto what = static_cast<uint8_t>(bytes.front());
            const int rank = what / 4 % kPlayedRanks;
            Communicator world(std::make_unique<PlayedRanks>(bytes.substr(1), rank));
            Serve(world, static_cast<ParameterService::Rule>(what % 4));
          }};
}

}  // namespace moka
