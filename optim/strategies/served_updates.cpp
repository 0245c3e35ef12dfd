// The server's update is the solver's own, compiled for the blobs that a rank owns, and runs in the service's thread
// when gradients come.
#include "optim/strategies/served_updates.h"

#include <algorithm>
#include <numeric>

#include "comm/transport/same_on_all.h"
#include "core/error.h"
#include "core/text.h"
#include "layers/net/catalog.h"
#include "optim/strategies/ownership.h"

namespace moka {
namespace {

static_assert(kWishes <= ParameterService::kSignals);

ParameterService::Rule RuleOf(const DistributedParameter& param) {
  if (param.strategy() == "turn") return ParameterService::Rule::kTurn;
  if (param.server() == "asynchronous") return ParameterService::Rule::kArrival;
  if (param.server() == "stale") return ParameterService::Rule::kBounded;
  return ParameterService::Rule::kTogether;
}

int64_t ElementsOf(const std::vector<NetBlob>& blobs) {
  return std::accumulate(blobs.begin(), blobs.end(), int64_t{0},
                         [](int64_t sum, const NetBlob& blob) { return sum + blob.shape.Count(); });
}

// body(blob, its part of `all`).
template <class Blobs, class T, class Body>
void ForEachPart(const Blobs& blobs, std::span<T> all, Body body) {
  size_t at = 0;
  for (const NetBlob& blob : blobs) {
    const auto count = static_cast<size_t>(blob.shape.Count());
    body(blob, all.subspan(at, count));
    at += count;
  }
}

}  // namespace

std::vector<SlotState> ServedUpdates::Slots(const Setting& setting) {
  return BuildUpdateGraph(StandardCatalog(), *setting.solver, setting.blobs, setting.net).updates.slots;
}

ServedUpdates::ServedUpdates(Communicator& world, ParameterStore& store, Setting setting)
    : world_(world),
      store_(store),
      setting_(std::move(setting)),
      rule_(RuleOf(setting_.solver->distributed())),
      owned_(ShareOut(setting_.blobs, world.size())) {
  std::vector<int64_t> elements;
  for (const std::vector<NetBlob>& blobs : owned_) elements.push_back(ElementsOf(blobs));
  slots_ = Slots(setting_);
  BuildServer();
  const auto all = static_cast<size_t>(std::accumulate(elements.begin(), elements.end(), int64_t{0}));
  gradients_.resize(all);
  weights_.resize(all);
  for (const NetBlob& blob : setting_.blobs) {
    zeros_.resize(std::max(zeros_.size(), static_cast<size_t>(blob.shape.Count())));
  }
  const DistributedParameter& param = setting_.solver->distributed();
  service_ = std::make_unique<ParameterService>(world, std::move(elements), rule_, param.staleness(), *this);
}

ServedUpdates::~ServedUpdates() = default;

void ServedUpdates::Join() {
  std::string lines;
  for (const std::vector<NetBlob>& blobs : owned_) {
    for (const NetBlob& blob : blobs) lines += StrCat(blob.name, " ", blob.shape.ToString(), "\n");
  }
  RequireSame(world_, lines, "blob");
}

void ServedUpdates::BuildServer() {
  const std::vector<NetBlob>& own = owned_[static_cast<size_t>(world_.rank())];
  if (own.empty()) return;
  UpdateGraph built = BuildUpdateGraph(StandardCatalog(), *setting_.solver, own, setting_.net, {}, {},
                                       UpdatesByWorker() ? 1.0 : 1.0 / world_.size());
  for (const NetBlob& blob : own) served_.Add(blob.name, blob.shape);
  for (const SlotState& slot : built.updates.slots) served_.Add(slot.name, slot.shape);
  inputs_ = built.updates.inputs;
  CompileOptions options = setting_.compile;
  options.name = "update";
  update_ = Compile(std::move(built.graph), served_, options);
  if (setting_.solver->distributed().delay_compensation() != 0) {
    current_.resize(static_cast<size_t>(ElementsOf(own)));
  }
}

void ServedUpdates::Begin(int64_t iteration) {
  if (service_->is_entered()) return;
  for (const std::string& name : served_.Names()) served_.Set(name, store_.Values(name));
  service_->Enter(iteration);
}

double ServedUpdates::Finish(int64_t iteration, double loss, bool must_agree, Wishes& wishes) {
  size_t begin = 0;
  for (const std::vector<NetBlob>& blobs : owned_) {
    ForEachPart(blobs, std::span<float>(gradients_).subspan(begin), [&](const NetBlob& blob, std::span<float> part) {
      const std::string sum = SlotName(blob.name, kSumSlot);
      store_.Get(sum, part);
      store_.Set(sum, std::span<const float>(zeros_).first(part.size()));
    });
    begin += static_cast<size_t>(ElementsOf(blobs));
  }
  ParameterService::Signals signals{};
  std::ranges::copy(wishes.wanted(), signals.begin());
  const ParameterService::Answer answer = service_->Exchange(iteration, loss, signals, gradients_, weights_);
  begin = 0;
  for (const std::vector<NetBlob>& blobs : owned_) {
    ForEachPart(blobs, std::span<const float>(weights_).subspan(begin),
                [&](const NetBlob& blob, std::span<const float> part) { store_.Set(blob.name, part); });
    begin += static_cast<size_t>(ElementsOf(blobs));
  }
  wishes.Count(std::span<const double>(answer.signals).first<kWishes>());
  if (must_agree || wishes.is_any_counted()) {
    service_->Leave();
    ShareStates();
  }
  return answer.loss;
}

void ServedUpdates::ShareStates() {
  std::vector<std::vector<std::string>> names = SlotsOf(owned_, slots_);
  for (size_t rank = 0; rank < owned_.size(); ++rank) {
    for (const NetBlob& blob : owned_[rank]) names[rank].push_back(blob.name);
  }
  ShareValues(world_, names, served_, store_);
  MeanOverRanks(world_, store_, setting_.statistics);
}

void ServedUpdates::Apply(int64_t clock, double loss, std::span<float> gradients, std::span<const float> sent) {
  if (!update_) return;
  const SolverParameter& solver = *setting_.solver;
  if (!current_.empty() && !sent.empty()) {
    Read(current_);
    // The sums are of iter_size batches, and their square would be iter_size times too large.
    const float lambda = solver.distributed().delay_compensation() / static_cast<float>(solver.iter_size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] += lambda * gradients[i] * gradients[i] * (current_[i] - sent[i]);
    }
  }
  const std::span<const float> all = gradients;
  ForEachPart(owned_[static_cast<size_t>(world_.rank())], all, [&](const NetBlob& blob, std::span<const float> part) {
    served_.Set(SlotName(blob.name, kSumSlot), part);
  });
  update_->input("guard").as<float>()[0] = static_cast<float>(loss);
  for (const std::string& name : inputs_) {
    const double value = UpdateInput(solver, name, clock);
    const bool is_divided = name == "lr" && UpdatesByWorker();
    update_->input(name).as<float>()[0] = static_cast<float>(is_divided ? value / world_.size() : value);
  }
  update_->Run();
}

void ServedUpdates::Read(std::span<float> values) const {
  ForEachPart(owned_[static_cast<size_t>(world_.rank())], values,
              [&](const NetBlob& blob, std::span<float> part) { served_.Get(blob.name, part); });
}

void ServedUpdates::Cancel(const std::string& why) noexcept {
  if (service_->is_entered()) return service_->Cancel(why);
  world_.Fail(why);
}

std::string ServedUpdates::Describe() const {
  const DistributedParameter& param = setting_.solver->distributed();
  const std::string rule = param.strategy() == "turn"
                               ? std::string("gradients are applied by turns")
                               : StrCat("parameter server, ", param.server(),
                                        param.server() == "stale" ? StrCat(" (", param.staleness(), ")") : "");
  const int64_t bytes = static_cast<int64_t>(weights_.size() * sizeof(float));
  return StrCat(rule, ": ", world_.size(), " ranks serve ", BytesText(bytes), " of weights",
                param.delay_compensation() != 0 ? ", delays compensated" : "");
}

}  // namespace moka
