#include "comm/state_mean.h"

#include "comm/all_reduce_choice.h"
#include "core/text.h"

namespace moka {
namespace {

AllReduceChoice Choose(const Communicator& communicator, const std::string& algorithm) {
  return algorithm == "auto" ? FixedAllReduce(communicator.size(), communicator.group())
                             : ChoiceOfAllReduce(algorithm, communicator.size(), communicator.group());
}

}  // namespace

StateMean::StateMean(Communicator& communicator, const std::string& algorithm, Wire wire,
                     const std::vector<Tensor>& states, int sums)
    : communicator_(communicator),
      algorithm_(Choose(communicator, algorithm).name),
      sums_(static_cast<size_t>(sums)),
      runner_(
          communicator.transport(),
          [&] {
            const AllReduceChoice choice = Choose(communicator, algorithm);
            return choice.algorithm->make(choice.arrangement, communicator.rank());
          }(),
          wire) {
  for (const Tensor& state : states) {
    states_.Append(static_cast<float*>(state.raw()), state.type().Bytes() / static_cast<int64_t>(sizeof(float)));
  }
  all_ = states_;
  all_.Append(sums_.data(), sums);
}

void StateMean::Run() {
  runner_.Run(all_, communicator_.patience());
  const float part = 1.0F / static_cast<float>(communicator_.size());
  states_.ForEach(0, states_.size(), [&](float* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) values[i] *= part;
  });
}

std::string StateMean::Describe() const {
  return StrCat(algorithm_, ", ", BytesText(states_.size() * static_cast<int64_t>(sizeof(float))));
}

}  // namespace moka
