// Every local_steps iterations all states become their mean over the ranks, by one all-reduce that carries requests and
// loss along.
#include "optim/strategies/local_sgd.h"

#include <algorithm>

#include "comm/transport/same_on_all.h"
#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

std::vector<Tensor> TensorsOf(const ParameterStore& store, const std::vector<std::string>& names) {
  std::vector<Tensor> tensors;
  for (const std::string& name : names) tensors.push_back(store.tensor(name));
  return tensors;
}

}  // namespace

LocalSgd::LocalSgd(Communicator& world, const SolverParameter& solver, ParameterStore& store,
                   std::vector<std::string> names)
    : world_(world),
      steps_(solver.distributed().local_steps()),
      from_(solver.distributed().local_from_iter()),
      store_(store),
      names_(std::move(names)),
      mean_(world, solver.distributed().algorithm(), TensorsOf(store, names_), kWishes + 1) {
  for (const std::string& name : names_) {
    if (!store.claims(name).mirrors.empty()) mirrored_.push_back(name);
  }
}

void LocalSgd::Join() {
  std::string lines;
  for (const std::string& name : names_) lines += StrCat(name, " ", store_.type(name).ToString(), "\n");
  RequireSame(world_, lines, "value");
}

double LocalSgd::Finish(int64_t iteration, double loss, bool must_agree, Wishes& wishes) {
  wishes.CountNone();
  if (!must_agree && iteration >= from_ && (iteration + 1) % steps_ != 0) return loss;
  const std::span<float> sums = mean_.sums();
  std::ranges::copy(wishes.wanted(), sums.begin());
  sums[kWishes] = static_cast<float>(loss);
  mean_.Run();
  for (const std::string& name : mirrored_) store_.Set(name, store_.Values(name));
  wishes.Count(std::span<const float>(sums).first<kWishes>());
  return double{sums[kWishes]} / world_.size();
}

std::string LocalSgd::Describe() const {
  return StrCat("local SGD: ", world_.size(), " ranks take the mean of their weights every ",
                steps_ == 1 ? std::string("iteration") : StrCat(steps_, " iterations"),
                from_ > 0 ? StrCat(", every iteration before ", from_) : std::string(), " · ", mean_.Describe());
}

}  // namespace moka
