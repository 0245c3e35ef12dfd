// The ladder of rows ends where more at once is not faster: on a CPU a few rows fill the cores.
#include "tools/serve/served_model.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <random>

#include "core/error.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/program_report.h"
#include "tools/infer/tasks.h"

namespace moka {

int64_t ServedTensor::Count() const {
  return std::accumulate(row.begin(), row.end(), rows, [](int64_t count, int64_t side) { return count * side; });
}

namespace {

// The least time for each number of rows from 0 to `rows`, and the rung that it begins with.
struct Plan {
  std::vector<double> ms;
  std::vector<size_t> first;
};

Plan PlanOf(std::span<const Rung> rungs, int64_t rows) {
  Plan plan{std::vector<double>(static_cast<size_t>(rows + 1), std::numeric_limits<double>::infinity()),
            std::vector<size_t>(static_cast<size_t>(rows + 1))};
  plan.ms[0] = 0;
  for (int64_t n = 1; n <= rows; ++n) {
    for (size_t i = 0; i < rungs.size(); ++i) {
      const int64_t left = std::max<int64_t>(0, n - rungs[i].rows);
      const double ms = rungs[i].ms + plan.ms[static_cast<size_t>(left)];
      // The larger of equals: its rows have their answers together.
      if (ms > plan.ms[static_cast<size_t>(n)]) continue;
      plan.ms[static_cast<size_t>(n)] = ms;
      plan.first[static_cast<size_t>(n)] = i;
    }
  }
  return plan;
}

// Beyond so many rows the fastest rung does all but the last of them.
int64_t PlannedRows(std::span<const Rung> rungs, int64_t waiting) { return std::min(waiting, 4 * rungs.back().rows); }

const Rung& Fastest(std::span<const Rung> rungs) {
  return *std::ranges::min_element(rungs, {},
                                   [](const Rung& rung) { return rung.ms / static_cast<double>(rung.rows); });
}

}  // namespace

const Rung& NextRung(std::span<const Rung> rungs, int64_t waiting) {
  const int64_t rows = PlannedRows(rungs, waiting);
  if (rows < waiting) return Fastest(rungs);
  const Plan plan = PlanOf(rungs, rows);
  // The largest of the plan goes first: most rows have their answers soonest.
  size_t largest = plan.first[static_cast<size_t>(rows)];
  for (int64_t n = rows; n > 0;) {
    const size_t rung = plan.first[static_cast<size_t>(n)];
    largest = std::max(largest, rung);
    n = std::max<int64_t>(0, n - rungs[rung].rows);
  }
  return rungs[largest];
}

double PredictedMs(std::span<const Rung> rungs, int64_t rows) {
  if (rows <= 0) return 0;
  const int64_t planned = PlannedRows(rungs, rows);
  const Rung& fastest = Fastest(rungs);
  return PlanOf(rungs, planned).ms.back() +
         static_cast<double>(rows - planned) * fastest.ms / static_cast<double>(fastest.rows);
}

int64_t WeightsBytes(const InferSource& source) {
  int64_t bytes = 0;
  for (const std::string& file : Split(source.weights, ',')) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(file, failed);
    if (!failed) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

ServedModel::ServedModel(std::string name, std::string version, InferSource source, int64_t most_rows,
                         ModelSettings settings)
    : name_(std::move(name)),
      version_(std::move(version)),
      source_(std::move(source)),
      settings_(std::move(settings)),
      team_(ThreadCount()) {
  source_.shares_weights = true;
  const InferTask* task = FindInferTask(source_.card.task());
  if (task != nullptr && task->answers != nullptr) answers_ = task->answers(source_, {});
  const bool is_asked_otherwise = answers_ && answers_->net() == nullptr;
  if (is_asked_otherwise) {  // texts are asked one by one, by programs that are made for their lengths
    CheckSettings(false);
    counts_.Update([&](CountedModel& counted) { counted.memory_bytes = WeightsBytes(source_); });
    return;
  }
  AddRung(1);
  if (nets_[0]->keeps_state())
    states_ = std::make_unique<KeptStates>(KeptStates{*nets_[0], Sequences(settings_.sequences)});
  PreferOneThread();
  const DeployedNet& one = *nets_[0];
  const auto tensor_of = [&](const std::string& tensor_name, const Tensor& tensor) {
    const Shape& shape = tensor.shape();
    ServedTensor served{.name = tensor_name, .row = {}, .rows = shape.rank() == 0 ? 1 : shape[0]};
    for (int i = 1; i < shape.rank(); ++i) served.row.push_back(shape[i]);
    return served;
  };
  for (const std::string& input : one.inputs()) inputs_.push_back(tensor_of(input, one.program().input(input)));
  for (const std::string& output : one.outputs()) outputs_.push_back(tensor_of(output, one.output(output)));
  for (const ServedTensor& input : inputs_) {
    if (input.rows == 1) continue;
    throw Error(ErrorKind::kConfig, StrCat("input \"", input.name, "\" is no row for each sample"));
  }
  const bool are_rows = std::ranges::all_of(outputs_, [](const ServedTensor& output) { return output.rows == 1; });
  CheckSettings(are_rows && !states_);
  if (are_rows && !states_) AddLadder(most_rows);
  const std::vector<int64_t> allowed = settings_.RowsOfRuns(most_rows);
  settings_.most_rows = are_rows && !states_ && !allowed.empty() ? allowed.back() : 1;
  WarmUp();
  counts_.Update([&](CountedModel& counted) { counted.memory_bytes = MemoryBytes(); });
}

int64_t ServedModel::MemoryBytes() const {
  int64_t bytes = nets_[0]->weights()->Bytes();
  for (const DeployedNet* net : nets_) {
    const MemoryReport& memory = net->program().report().memory;
    bytes += memory.arena_bytes + memory.constant_bytes + memory.input_bytes;
  }
  return bytes;
}

void ServedModel::AddLadder(int64_t most_rows) {
  for (const int64_t rows : settings_.RowsOfRuns(most_rows)) {
    AddLargerRung(rows);
    if (!TakesRows(*nets_.back())) {
      DropRung();
      return CheckSettings(rungs_.size() > 1);
    }
    constexpr double kGain = 0.97;  // of a row's time, below which more rows are worth their memory
    const Rung& last = rungs_.back();
    const Rung& before = rungs_[rungs_.size() - 2];
    const bool is_faster =
        last.ms / static_cast<double>(last.rows) <= kGain * before.ms / static_cast<double>(before.rows);
    if (!is_faster && settings_.preferred_rows.empty()) return;
  }
}

void ServedModel::CheckSettings(bool runs_rows) const {
  const auto refuse = [](const SourcePlace& place, const std::string& text, const std::string& hint) {
    throw Error(ErrorKind::kConfig, place, text, hint);
  };
  if (settings_.rows_place && !runs_rows) {
    refuse(*settings_.rows_place, StrCat("model ", name_, " runs no batches"),
           rungs_.empty() ? "its texts are asked one by one" : "its requests run row by row");
  }
  if (settings_.sequences_place && !states_)
    refuse(*settings_.sequences_place, StrCat("model ", name_, " has no sequences"),
           "its net keeps nothing from one run to the next");
  if (!settings_.device) return;
  const Device& device = source_.compile.device;
  const WantedDevice& wanted = *settings_.device;
  const bool is_listed = wanted.gpus.empty() || std::ranges::find(wanted.gpus, device.index) != wanted.gpus.end();
  if (wanted.is_gpu == !device.is_cpu() && (device.is_cpu() || is_listed)) return;
  refuse(wanted.place, StrCat("model ", name_, " is to run on ", wanted.is_gpu ? "a GPU" : "the CPU"),
         StrCat("this server computes on ", NameOf(device), "; --device says on which"));
}

void ServedModel::WarmUp() {
  for (const auto& [rows, runs] : settings_.warm_ups) {
    for (int64_t run = 0; run < runs; ++run) {
      for (int64_t left = rows; left > 0;) {
        const Rung& rung = NextRung(rungs_, left);
        Run(rung);
        left -= rung.rows;
      }
    }
  }
  slowness_ = 1;
}

namespace {

// While it lives the calling thread's team is of so many threads.
class TeamOf {
 public:
  explicit TeamOf(int threads) : before_(ThreadCount()) { SetThreadCount(threads); }
  TeamOf(const TeamOf&) = delete;
  TeamOf& operator=(const TeamOf&) = delete;
  ~TeamOf() { SetThreadCount(before_); }

 private:
  int before_;
};

// The outputs for a row of numbers that are always the same.
std::vector<float> OutputsFor(uint32_t seed, int threads, DeployedNet& net) {
  const TeamOf team(threads);
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const std::string& input : net.inputs()) {
    for (float& value : net.program().input(input).as<float>()) value = uniform(random);
  }
  net.RunRows();
  std::vector<float> values;
  for (const std::string& output : net.outputs()) {
    const std::span<const float> of_output = net.output(output).as<const float>();
    values.insert(values.end(), of_output.begin(), of_output.end());
  }
  return values;
}

// Bit for bit: NaN is equal to itself.
bool AreSame(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

void ServedModel::AddRung(int64_t rows) {
  if (rows == 1 && answers_) {
    nets_.push_back(answers_->net());
  } else {
    const bool are_pictures = answers_ != nullptr;
    own_nets_.push_back(std::make_unique<DeployedNet>(
        source_, rows, are_pictures ? DeployedNet::Fills::kFirst : DeployedNet::Fills::kAll, std::string(),
        nets_.empty() ? SharedWeights() : nets_[0]->weights()));
    nets_.push_back(own_nets_.back().get());
  }
  rungs_.push_back({rows, TimeOf(*nets_.back()), ThreadCount()});
}

void ServedModel::AddLargerRung(int64_t rows) {
  // A request's way from the socket and back takes about as long of a thread. A net that takes less is no faster by a
  // team whose other threads are wanted there.
  constexpr double kWayMs = 0.1;
  if (rungs_[0].threads == 1 && team_ > 1) {
    const TeamOf one(1);
    AddRung(rows);
    if (rungs_.back().ms <= kWayMs * static_cast<double>(rows)) return;
    DropRung();
  }
  AddRung(rows);
}

void ServedModel::DropRung() {
  nets_.pop_back();
  rungs_.pop_back();
  own_nets_.pop_back();
}

void ServedModel::PreferOneThread() {
  // Threads that sleep between requests, as they do on a machine that others use, too, take some 50 us to wake at each
  // of a net's layers. Of a larger net's time that is little.
  constexpr double kSmallMs = 0.5;
  constexpr double kWakeMs = 0.1;
  constexpr double kMostSlowness = 20;  // of a team while others have its processors; larger nets are not tried
  if (team_ == 1 || rungs_[0].ms > kMostSlowness * kSmallMs || states_) return;
  const TeamOf one(1);
  const InferTask* task = FindInferTask(source_.card.task());
  std::unique_ptr<TaskAnswers> answers = answers_ ? task->answers(source_, nets_[0]->weights()) : nullptr;
  DeployedNet* const of_task = answers ? answers->net() : nullptr;
  std::unique_ptr<DeployedNet> own;
  if (of_task == nullptr)
    own = std::make_unique<DeployedNet>(source_, 1, DeployedNet::Fills::kAll, std::string(), nets_[0]->weights());
  DeployedNet& alone = of_task != nullptr ? *of_task : *own;
  const double ms = TimeOf(alone);
  if (ms > kSmallMs || ms > rungs_[0].ms + kWakeMs) return;
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    if (!AreSame(OutputsFor(seed, team_, *nets_[0]), OutputsFor(seed, 1, alone))) return;
  }
  rungs_[0] = {1, ms, 1};
  nets_[0] = &alone;
  if (answers) {
    answers_ = std::move(answers);
  } else {
    own_nets_[0] = std::move(own);
  }
}

void ServedModel::UseTeamOfOne() const { SetThreadCount(rungs_.empty() ? team_ : rungs_[0].threads); }

bool ServedModel::TakesRows(const DeployedNet& net) const {
  const auto has_rows = [&](const Tensor& tensor) {
    return tensor.shape().rank() > 0 && tensor.shape()[0] == net.batch();
  };
  return std::ranges::all_of(net.inputs(),
                             [&](const std::string& name) { return has_rows(net.program().input(name)); }) &&
         std::ranges::all_of(net.outputs(), [&](const std::string& name) { return has_rows(net.output(name)); });
}

double ServedModel::TimeOf(DeployedNet& net) const {
  constexpr int kRuns = 10;
  constexpr double kMostMs = 2000;
  std::vector<double> times;
  double sum = 0;
  net.RunRows();  // touches its memory
  for (int i = 0; i < kRuns && sum < kMostMs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    net.RunRows();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    sum += times.back();
  }
  // The least is the net's own time, whatever else the machine does meanwhile.
  return *std::ranges::min_element(times);
}

DeployedNet& ServedModel::NetOf(const Rung& rung) const {
  const auto found = std::ranges::find(rungs_, rung.rows, &Rung::rows);
  Require(found != rungs_.end(), "ServedModel: a rung of the model");
  return *nets_[static_cast<size_t>(found - rungs_.begin())];
}

std::span<float> ServedModel::InputRow(const Rung& rung, size_t input, int64_t row) {
  const auto count = static_cast<size_t>(inputs_.at(input).Count());
  return NetOf(rung).program().input(inputs_[input].name).as<float>().subspan(static_cast<size_t>(row) * count, count);
}

void ServedModel::Run(const Rung& rung) {
  SetThreadCount(rung.threads);
  const auto begin = std::chrono::steady_clock::now();
  NetOf(rung).RunRows();
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  constexpr double kNewPart = 0.05;
  constexpr double kMost = 100;
  slowness_ = slowness_ + kNewPart * (std::min(ms / rung.ms, kMost) - slowness_);
}

std::span<const float> ServedModel::OutputRow(const Rung& rung, size_t output, int64_t row) const {
  const auto count = static_cast<size_t>(outputs_.at(output).Count());
  return NetOf(rung).output(outputs_[output].name).as<const float>().subspan(static_cast<size_t>(row) * count, count);
}

}  // namespace moka
