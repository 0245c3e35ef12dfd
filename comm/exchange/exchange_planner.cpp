// Measures candidates on the transport that the training uses, keeps the least time of several runs (the others were
// disturbed), and lets rank 0 plan from its numbers: times differ between ranks, and all must have one plan.
#include "comm/exchange/exchange_planner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "comm/exchange/exchange_text.h"
#include "comm/exchange/gather_plan.h"
#include "comm/transport/rank_values.h"
#include "core/error.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {
namespace {

constexpr std::string_view kNccl = "nccl";
constexpr int kRepeats = 3;          // of a measurement; the least counts
constexpr double kLongest_s = 0.05;  // a message that takes longer is the last measured: larger ones follow its slope

}  // namespace

ExchangePlanner::ExchangePlanner(Communicator& communicator, ExchangeOptions options, DeviceExchange* device)
    : communicator_(communicator), options_(std::move(options)), device_(device) {
  ChooseCandidates();
}

void ExchangePlanner::ChooseCandidates() {
  const int ranks = communicator_.size();
  const int group = communicator_.group();
  if (UsesNccl()) {
    if (options_.algorithm != "auto" && options_.algorithm != kNccl) {
      throw Error(ErrorKind::kConfig, SourcePlace{},
                  StrCat("algorithm \"", options_.algorithm, "\" is for gradients of CPUs: NCCL sums those of GPUs"),
                  "take \"auto\", or train on CPUs");
    }
    if (options_.wire != Wire::kFloat32) {
      throw Error(ErrorKind::kConfig, SourcePlace{},
                  StrCat("wire \"", moka::NameOf(options_.wire),
                         "\" is for gradients of CPUs: those of GPUs travel as float32"),
                  "take wire: \"float32\"");
    }
    candidates_ = {AllReduceChoice{std::string(kNccl), nullptr, {}}};
    const std::array<std::string_view, 3> by_times = {"optimal", "greedy", "two"};
    if (options_.has_fixed_order && std::ranges::find(by_times, options_.fusion) != by_times.end()) {
      options_.fusion = "fixed";
    }
    return;
  }
  if (options_.algorithm != "auto") {
    candidates_ = {ChoiceOfAllReduce(options_.algorithm, ranks, group)};
    if (options_.has_fixed_order && !candidates_[0].algorithm->has_fixed_order) {
      throw Error(ErrorKind::kConfig, SourcePlace{},
                  StrCat("the sums of algorithm \"", candidates_[0].name,
                         "\" depend on how gradients are joined, and the solver is deterministic"),
                  "take \"auto\", or set deterministic: false");
    }
    return;
  }
  if (options_.has_fixed_order) {
    candidates_ = {FixedAllReduce(ranks, group)};
  } else {
    candidates_ = AllReduceChoices(ranks, group, communicator_.numa_group());
  }
}

const AllReduceChoice& ExchangePlanner::CandidateOf(const std::string& name) const {
  const auto it = std::ranges::find(candidates_, name, &AllReduceChoice::name);
  if (it == candidates_.end()) RefuseMessage(communicator_, 0, StrCat("a plan by \"", Printable(name), "\""));
  return *it;
}

double ExchangePlanner::LeastSeconds(const std::function<void()>& run) const {
  double least = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    communicator_.Barrier();
    const int64_t begin = NowMicros();
    run();
    std::vector<double> seconds = {static_cast<double>(NowMicros() - begin) * 1e-6 / communicator_.size()};
    communicator_.Sum(seconds);  // the mean over ranks, the same on all
    least = std::min(least, seconds[0]);
  }
  return least;
}

// As a step has it: queued, and over when the stream is.
void ExchangePlanner::MeasureNccl(int64_t bytes) {
  Stream& stream = device_->stream();
  const DeviceBuffer memory = stream.Allocate(bytes);
  stream.Zero(memory.data(), bytes);
  stream.Synchronize();
  const std::unique_ptr<Event> done = MakeEvent(stream.device());
  std::vector<CostPoint> points;
  for (int64_t size = std::min<int64_t>(1024, bytes);; size = std::min(size * 4, bytes)) {
    const Message message{std::span<float>(reinterpret_cast<float*>(memory.data()), static_cast<size_t>(size / 4))};
    const double least = LeastSeconds([&] {
      device_->all_reduce().Queue(message, {}, Wire::kFloat32, stream);
      stream.Record(*done);
      const StreamWait wait =
          WaitForStream(*done, device_->all_reduce(), communicator_.patience(), [] { return false; });
      if (wait.is_done && wait.failure.empty()) return;
      device_->Abort();
      throw Error(ErrorKind::kPeer, wait.failure.empty()
                                        ? StrCat("NCCL has not summed ", BytesText(size), " in ",
                                                 std::chrono::duration<double>(communicator_.patience()).count(), " s")
                                        : wait.failure);
    });
    points.push_back({size, least});
    if (size >= bytes || least > kLongest_s) break;
  }
  costs_.Add(std::string(kNccl), CostCurve(points));
}

void ExchangePlanner::Measure(int64_t bytes) {
  costs_ = {};
  if (UsesNccl()) return MeasureNccl(bytes);
  for (const AllReduceChoice& candidate : candidates_) {
    Runner runner(communicator_.transport(), candidate.algorithm->make(candidate.arrangement, communicator_.rank()),
                  options_.wire);
    std::vector<CostPoint> points;
    for (int64_t size = 1024;; size = std::min(size * 4, bytes)) {
      std::vector<float> values(static_cast<size_t>(std::max<int64_t>(size / BytesOf(options_.wire), 1)));
      const Message message{std::span<float>(values)};
      const double least = LeastSeconds([&] { runner.Run(message, communicator_.patience()); });
      points.push_back({size, least});
      if (size >= bytes || least > kLongest_s) break;
    }
    costs_.Add(candidate.name, CostCurve(points));
  }
}

FusionInput ExchangePlanner::InputOf(const GradientExchange& exchange) const {
  FusionInput input;
  for (size_t i = 0; i < exchange.announced().all().size(); ++i) {
    const ExchangedGradient& gradient = exchange.announced().all()[i];
    const int64_t bytes = gradient.bytes / 4 * BytesOf(options_.wire);
    input.gradients.push_back({StrCat(gradient.layer, "#", i), bytes, gradient.ready_s,
                               exchange.announced().route(static_cast<int>(i)).only_rank()});
  }
  input.ranks = communicator_.size();
  // Ready when the last of the ranks is.
  std::vector<double> ready;
  for (const ReadyGradient& gradient : input.gradients) ready.push_back(gradient.ready_s);
  communicator_.Max(ready);
  double latest = 0;
  const auto summed = static_cast<size_t>(exchange.announced().first_gathered());
  for (size_t i = 0; i < ready.size(); ++i) {
    input.gradients[i].ready_s = latest = std::max(latest, ready[i]);
    if (i < summed) input.backward_s = latest;
  }
  return input;
}

// When the first of the ranks reads each weight that comes from its owner; as they are gathered, ascending.
std::vector<double> ExchangePlanner::NeedsOf(const GradientExchange& exchange) const {
  std::vector<double> earlier;  // negative, for the least
  for (auto i = static_cast<size_t>(exchange.announced().first_gathered()); i < exchange.announced().all().size();
       ++i) {
    earlier.push_back(-exchange.announced().all()[i].needed_s);
  }
  if (earlier.empty()) return earlier;
  communicator_.Max(earlier);
  std::vector<double> needs;
  for (const double s : earlier) needs.push_back(needs.empty() ? -s : std::max(-s, needs.back()));
  return needs;
}

void ExchangePlanner::Plan(GradientExchange& exchange) {
  input_ = InputOf(exchange);
  const std::vector<double> needs = NeedsOf(exchange);
  std::string text;
  if (communicator_.is_first()) {
    text = ToText(PlanWithGathers(options_.fusion, input_, needs, costs_, options_.bucket_bytes));
  }
  plan_ = PlanOfText(communicator_.Broadcast(text));
  CheckPlan(plan_, input_);
  for (const int cut : CutsOf(exchange.announced())) CutBucket(plan_, input_, cut);
  const std::string hash = StrCat(HashOf(plan_), " ", HashOf(input_.gradients));
  const std::vector<std::string> all = communicator_.AllGather(hash);
  const auto differs = std::ranges::find_if(all, [&](const std::string& other) { return other != all[0]; });
  if (differs != all.end()) {
    throw Error(ErrorKind::kPeer, StrCat(communicator_.NameOf(static_cast<int>(differs - all.begin())),
                                         " has another plan of communication than ", communicator_.NameOf(0)));
  }
  std::vector<int> ends;
  std::vector<Schedule> schedules;
  for (const Bucket& bucket : plan_.buckets) {
    ends.push_back(static_cast<int>(bucket.first + bucket.count));
    const AllReduceChoice& candidate = CandidateOf(bucket.algorithm);
    schedules.push_back(UsesNccl() ? Schedule{}
                                   : candidate.algorithm->make(candidate.arrangement, communicator_.rank()));
  }
  exchange.SetPlan(ends, schedules, options_.wire);
}

std::string ExchangePlanner::Explain(const GradientExchange& exchange) const {
  const ExchangeTimes times = exchange.Times();
  std::string text = ExplainExchange({.plan = plan_,
                                      .input = input_,
                                      .costs = costs_,
                                      .times = times.buckets,
                                      .iterations = times.iterations,
                                      .exposed_s = times.exposed_s});
  if (exchange.delays() != nullptr) text += exchange.delays()->Describe() + "\n";
  return text;
}

std::string ExchangePlanner::Describe() const {
  std::vector<std::string> hosts = communicator_.hosts();
  std::ranges::sort(hosts);
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  int64_t bytes = 0;
  std::vector<std::string> algorithms;
  for (const Bucket& bucket : plan_.buckets) {
    bytes += bucket.bytes;
    if (std::ranges::find(algorithms, bucket.algorithm) == algorithms.end()) algorithms.push_back(bucket.algorithm);
  }
  std::array<char, 64> size{};
  std::snprintf(size.data(), size.size(), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return StrCat(communicator_.size(), " ranks on ", hosts.size(), hosts.size() == 1 ? " host" : " hosts",
                " · gradients ", size.data(), " in ", plan_.buckets.size(),
                plan_.buckets.size() == 1 ? " bucket" : " buckets", " · ", Join(algorithms, ", "), " · ",
                NameOf(options_.wire));
}

}  // namespace moka
