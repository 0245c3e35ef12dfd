// Runs one all-reduce over the states where they lie, with room for a few sums behind them, and divides by the number
// of ranks: the averaging step of local SGD (Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019).
#include "comm/exchange/state_mean.h"

#include "comm/algorithms/all_reduce_choice.h"
#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

AllReduceChoice Choose(const Communicator& communicator, const std::string& algorithm) {
  return algorithm == "auto" ? FixedAllReduce(communicator.size(), communicator.group())
                             : ChoiceOfAllReduce(algorithm, communicator.size(), communicator.group());
}

}  // namespace

StateMean::StateMean(Communicator& communicator, const std::string& algorithm, const std::vector<Tensor>& states,
                     int sums)
    : communicator_(communicator),
      algorithm_(Choose(communicator, algorithm).name),
      sums_(static_cast<size_t>(sums)),
      runner_(
          communicator.transport(),
          [&] {
            const AllReduceChoice choice = Choose(communicator, algorithm);
            return choice.algorithm->make(choice.arrangement, communicator.rank());
          }(),
          Wire::kFloat32) {
  for (const Tensor& state : states) {
    states_.Append(static_cast<float*>(state.raw()), state.type().Bytes() / static_cast<int64_t>(sizeof(float)));
  }
  runner_.SetOnStall([this](int round, bool is_sending, std::vector<int> peers) {
    communicator_.SetWaiting(round, is_sending, std::move(peers));
  });
  all_ = states_;
  all_.Append(sums_.data(), sums);
}

void StateMean::Run() {
  communicator_.BeginCollective();
  try {
    runner_.Run(all_, communicator_.patience());
  } catch (const Error& error) {
    if (!communicator_.transport().failure().empty() || !communicator_.watch().diagnose) throw;
    const std::string text = communicator_.watch().diagnose() + error.text();
    communicator_.Fail(text);
    throw Error(ErrorKind::kPeer, text);
  }
  const float part = 1.0F / static_cast<float>(communicator_.size());
  states_.ForEach(0, states_.size(), [&](float* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) values[i] *= part;
  });
}

std::string StateMean::Describe() const {
  return StrCat(algorithm_, ", ", BytesText(states_.size() * static_cast<int64_t>(sizeof(float))));
}

}  // namespace moka
