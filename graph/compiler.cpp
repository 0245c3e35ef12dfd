// Compile: passes, schedule, kernels, storage, then a frozen program.
#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include "core/device/memory.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/team_wait.h"
#include "core/trace.h"
#include "graph/binding.h"
#include "graph/collectives.h"
#include "graph/layer_names.h"
#include "graph/non_finite.h"
#include "graph/op.h"
#include "graph/pass.h"
#include "graph/passes/passes.h"
#include "graph/program_memory.h"
#include "graph/schedule.h"
#include "graph/state_layer.h"
#include "graph/tracks.h"

namespace moka {

int64_t MachineMemoryBytes() {
  static const int64_t bytes = ReadMemoryFacts("/").total_bytes;
  return bytes;
}

namespace {

// A kernel with its memory, ready to run.
struct BoundStep {
  NodeId node = kNoId;
  std::unique_ptr<Kernel> kernel;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

std::string TypesText(std::span<const TensorType> types) {
  std::string s;
  for (const TensorType& type : types) s += StrCat(s.empty() ? "" : ", ", type.ToString());
  return s;
}

class FrozenProgram : public Program {
 public:
  FrozenProgram(Graph graph, ParameterStore& store, const CompileOptions& options)
      : options_(options),
        graph_(std::move(graph)),
        store_(store),
        stream_(options.device.is_cpu() ? nullptr : MakeStream(options.device)) {
    Require(options.device == store.device(), "Compile: the store lies on the program's device");
    if (stream_ && options.inference) done_ = MakeEvent(options.device);
  }
  ~FrozenProgram() override {
    try {
      if (stream_) stream_->Synchronize();  // what is under way reads the program's memory
    } catch (const Error& broken) {
      LogWarning(StrCat("program \"", options_.name, "\": ", broken.what()));
    }
  }

  // Passes to memory, once.
  void Freeze() {
    RunPasses(CompilePasses(), graph_, {options_, store_}, report_.passes);
    CheckStates();
    schedule_ = MakeSchedule(graph_, ConstantNodes(graph_, options_.inference));
    if (!stream_) FindTracks(graph_, ThreadCount(), schedule_);
    track_errors_.resize(static_cast<size_t>(schedule_.track_count()));
    std::vector<Binding> bindings;
    std::vector<int64_t> scratch_bytes;
    for (const std::vector<NodeId>* phase : {&schedule_.constants, &schedule_.steps}) {
      for (const NodeId id : *phase) {
        Pulse();  // making kernels takes most of the time
        std::optional<OneThread> alone;
        if (TrackOf(bindings.size()) >= 0) alone.emplace();
        bindings.push_back(BindKernel(graph_, id, options_));
        scratch_bytes.push_back(bindings.back().object ? bindings.back().object->scratch_bytes() : 0);
      }
    }
    Pulse();
    const StoragePlan plan = PlanStorage(graph_, schedule_, scratch_bytes);
    Pulse();
    data_.emplace(graph_, plan, report_.memory);
    CheckMemory();
    data_->Allocate(graph_, plan, store_, stream_.get(), options_.arena.get());
    BindSteps(plan, bindings);
    Describe(bindings);
    RunConstants();
    if (options_.releases_states) ReleaseStates();
  }

  Tensor input(std::string_view name) const override { return Find(data_->inputs(), name, "input"); }
  bool HasInput(std::string_view name) const override { return data_->inputs().contains(name); }
  Tensor output(std::string_view name) const override { return Find(data_->outputs(), name, "output"); }
  std::vector<std::string> OutputNames() const override {
    std::vector<std::string> names;
    for (const GraphOutput& output : graph_.outputs()) names.push_back(output.name);
    return names;
  }

  Stream* stream() const override { return stream_.get(); }
  Tensor TakeInput(std::string_view name) override {
    Require(stream_ != nullptr && !has_run_, "TakeInput: a GPU's program, before its first run");
    return data_->TakeInput(name);
  }
  Tensor TakeOutput(std::string_view name) override {
    Require(stream_ != nullptr && !has_run_, "TakeOutput: a GPU's program, before its first run");
    return data_->TakeOutput(name);
  }

  void Start() override {
    if (stream_ && options_.collectives) FollowPlan();
    if (!stream_) {
      MindLoad();
      RunSteps([this](size_t i) { RunStep(i); });
      data_->AssignStates();
    } else if (recording_) {
      recording_->Launch(*stream_);
    } else if (std::exchange(has_run_, true) && may_record_ && RecordStep()) {
      // The first run is not recorded: libraries load what they need then, which no recording may hold.
      recording_->Launch(*stream_);
    } else {
      QueueStep();
    }
    if (done_) stream_->Record(*done_);
  }

  void Finish() override {
    if (done_) Watch(*done_);
    if (stream_ && options_.collectives) {
      options_.collectives->Await(*stream_);
    } else if (stream_) {
      stream_->Synchronize();
    }
    CheckFaults();
  }

  void RefreshConstants() override {
    Require(!options_.releases_states, "RefreshConstants: the states are there");
    RunConstants();
  }

  void RunTimed(std::span<double> step_ms) override {
    Require(step_ms.size() == steps_.size(), "RunTimed: one number a step");
    if (stream_) return RunTimedOnDevice(step_ms);
    const double tracks_ms = RunSteps([&](size_t i) {
      const auto begin = std::chrono::steady_clock::now();
      RunStep(i);
      step_ms[i] = MillisecondsSince(begin);
    });
    ShareOut(tracks_ms, step_ms);
    data_->AssignStates();
    CheckFaults();
  }

  std::optional<NonFinite> FindNonFinite() override {
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const Value& value = graph_.value(id);
      if (value.kind != ValueKind::kState || !store_.Has(value.name)) continue;
      if (const auto found = Scan(store_.tensor(value.name), {}, "state " + value.name))
        return NonFinite{LayerOfState(graph_, id), found->what, found->index, found->value};
    }
    for (const auto& [name, tensor] : data_->inputs()) {
      if (auto found = FirstNonFinite(tensor, name, "input " + name)) return found;
    }
    data_->PutInputs();
    for (size_t i = constant_count_; i < steps_.size(); ++i) {
      const StepReport& report = step_reports_[i];
      if (report.pass == "update") continue;
      std::optional<OneThread> alone;
      if (TrackOf(i) >= 0) alone.emplace();
      RunStep(i);
      for (size_t k = 0; k < steps_[i].outputs.size(); ++k) {
        if (auto found = Scan(steps_[i].outputs[k], report.layer, StrCat("output ", k, " of ", report.op))) {
          if (!report.pass.empty()) found->what += " (" + report.pass + ")";
          return found;
        }
      }
    }
    return std::nullopt;
  }

  const std::vector<StepReport>& steps() const override { return step_reports_; }
  const ProgramReport& report() const override { return report_; }

 private:
  void Pulse() const {
    if (options_.on_pulse) options_.on_pulse();
  }

  static Tensor Find(const ProgramMemory::TensorMap& tensors, std::string_view name, std::string_view kind) {
    const auto it = tensors.find(name);
    Require(it != tensors.end(), StrCat("the program has an ", kind, " \"", name, "\""));
    return it->second;
  }

  // Every state is in the store, in the layout the passes chose; mirrors come into it here.
  void CheckStates() {
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const Value& value = graph_.value(id);
      if (value.kind != ValueKind::kState) continue;
      if (value.mirrored != kNoId && !store_.Has(value.name)) {
        store_.AddMirror(value.name, graph_.value(value.mirrored).name, value.type);
      }
      Require(store_.Has(value.name), StrCat("state ", value.name, " is in the store"));
      store_.FixLayout(value.name, value.type.layout);
    }
    for (const Assignment& assignment : graph_.assignments()) {
      Require(graph_.value(assignment.value).producer != kNoId, "an assigned value is computed by a node");
      store_.MarkWritten(graph_.value(assignment.state).name);
    }
  }

  // A rehearsed GPU's is the machine's.
  int64_t DeviceMemoryBytes() const {
    if (options_.device.is_cpu() || options_.device.is_rehearsed()) return MachineMemoryBytes();
    return FindCuda().gpus.at(static_cast<size_t>(options_.device.index)).memory_bytes;
  }

  void CheckMemory() const {
    const int64_t limit = options_.memory_limit_bytes > 0 ? options_.memory_limit_bytes : DeviceMemoryBytes();
    const Size needed = Size(report_.memory.arena_bytes) + report_.memory.constant_bytes + report_.memory.input_bytes;
    if (needed <= limit) return;
    std::string largest;
    for (const auto& [name, bytes] : report_.memory.largest)
      largest += StrCat(largest.empty() ? "" : ", ", name, " ", BytesText(bytes));
    throw Error(ErrorKind::kUnavailable, {},
                StrCat("program \"", options_.name, "\" needs ", BytesText(needed.value()), " but the limit is ",
                       BytesText(limit), " (largest: ", largest, ")"),
                "use a smaller batch");
  }

  void BindSteps(const StoragePlan& plan, std::vector<Binding>& bindings) {
    for (size_t i = 0; i < bindings.size(); ++i) {
      BoundStep step;
      step.node = bindings[i].node;
      step.kernel = std::move(bindings[i].object);
      const Node& node = graph_.node(step.node);
      for (const ValueId id : node.inputs) step.inputs.push_back(data_->tensor(id));
      for (const ValueId id : node.outputs) step.outputs.push_back(data_->tensor(id));
      if (step.kernel) {
        step.kernel->Bind({step.inputs, step.outputs, data_->arena() + plan.scratch_offset[i], stream_.get()});
      }
      steps_.push_back(std::move(step));
    }
    constant_count_ = schedule_.constants.size();
  }

  void Describe(const std::vector<Binding>& bindings) {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Node& node = graph_.node(steps_[i].node);
      StepReport report;
      report.layer = LayersText(node.origin.layer);
      report.layers = LayersOf(node.origin.layer);
      report.op = node.op->name;
      report.pass = node.origin.pass;
      report.kernel = bindings[i].kernel;
      report.refusals = bindings[i].refusals;
      if (steps_[i].kernel) report.implementation = steps_[i].kernel->implementation();
      report.is_constant = i < constant_count_;
      const std::vector<TensorType> inputs = graph_.InputTypes(node);
      const std::vector<TensorType> outputs = graph_.OutputTypes(node);
      report.types = StrCat(TypesText(outputs), " <- ", TypesText(inputs));
      if (!inputs.empty()) report.factors = inputs[0].dtype;
      if (node.op->precision == Precision::kPrefer16) {
        const auto half = std::ranges::find_if(inputs, [](const TensorType& type) { return IsHalf(type.dtype); });
        if (half != inputs.end()) report.factors = half->dtype;
      }
      if (!node.op->is_alias) {
        for (const TensorType& type : inputs) report.bytes += type.Bytes();
        for (const TensorType& type : outputs) report.bytes += type.Bytes();
        report.flops = node.op->flops != nullptr ? node.op->flops(node.attributes, inputs, outputs)
                       : outputs.empty()         ? 0
                                                 : outputs[0].shape.Count();
      }
      step_reports_.push_back(std::move(report));
    }
    report_.text = ToText(graph_) + "\n";
    for (size_t i = 0; i < steps_.size(); ++i) report_.text += StepLine(step_reports_[i], i);
  }

  void RunStep(size_t i) {
    Kernel* kernel = steps_[i].kernel.get();
    if (kernel == nullptr) return;
    const ScopedSpan span(step_reports_[i].layer, step_reports_[i].op);
    if (!stream_) return kernel->Run();
    try {
      kernel->Run();
    } catch (Error& e) {
      e.AddNote(StrCat("in ", step_reports_[i].op, " of layer \"", step_reports_[i].layer, "\""));
      throw;
    }
  }

  // The track of step i, of constants and steps; -1 outside.
  int TrackOf(size_t i) const {
    return schedule_.TrackOf(static_cast<int>(i) - static_cast<int>(schedule_.constants.size()));
  }

  static double MillisecondsSince(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }

  // Steps of tracks run beside each other: each counts for its part of the time that all of them take together, with
  // the wait for the last.
  void ShareOut(double tracks_ms, std::span<double> step_ms) const {
    double sum = 0;
    for (size_t i = 0; i < step_ms.size(); ++i) sum += TrackOf(i) < 0 ? 0 : step_ms[i];
    for (size_t i = 0; i < step_ms.size(); ++i) {
      if (TrackOf(i) >= 0) step_ms[i] *= tracks_ms / sum;
    }
  }

  // f(i) for every step that is no constant: tracks beside each other, each in a thread of its own. Returns the
  // milliseconds of the tracks.
  template <class F>
  double RunSteps(const F& f) {
    const size_t tracks_begin = schedule_.tracks.empty() ? steps_.size() : constant_count_ + Track(0);
    const size_t tracks_end =
        schedule_.tracks.empty() ? steps_.size() : constant_count_ + Track(schedule_.track_count());
    for (size_t i = constant_count_; i < tracks_begin; ++i) f(i);
    const auto begin = std::chrono::steady_clock::now();
    if (tracks_begin < tracks_end) RunTracks(f);
    const double ms = MillisecondsSince(begin);
    for (size_t i = tracks_end; i < steps_.size(); ++i) f(i);
    return ms;
  }

  template <class F>
  void RunTracks(const F& f) {
    ParallelFor(schedule_.track_count(), 1, [&](int64_t begin, int64_t end, int) {
      for (auto track = static_cast<int>(begin); track < end; ++track) {
        try {
          for (size_t i = constant_count_ + Track(track); i < constant_count_ + Track(track + 1); ++i) f(i);
        } catch (...) {
          track_errors_[static_cast<size_t>(track)] = std::current_exception();
        }
      }
    });
    for (std::exception_ptr& error : track_errors_) {
      if (error) std::rethrow_exception(std::exchange(error, nullptr));
    }
  }

  size_t Track(int track) const { return static_cast<size_t>(schedule_.tracks[static_cast<size_t>(track)]); }

  void RunConstants() {
    for (size_t i = 0; i < constant_count_; ++i) RunStep(i);
    if (stream_) stream_->Synchronize();
  }

  // A recorded step holds what ranks do by the plan of its time. Under a new one a step is queued once before it is
  // recorded, as a first one is.
  void FollowPlan() {
    const int64_t now = options_.collectives->plan_number();
    if (std::exchange(plan_number_, now) == now) return;
    recording_.reset();
    has_run_ = false;
  }

  // One iteration into the stream: begins with the inputs' copies to the device and ends with the outputs' to the host.
  void QueueStep() {
    data_->PutInputs();
    for (size_t i = constant_count_; i < steps_.size(); ++i) RunStep(i);
    data_->AssignStates();
    data_->TakeOutputs();
  }

  // False, and said once, if something in the step cannot be recorded: then it is queued anew every time.
  bool RecordStep() {
    stream_->BeginRecording();
    try {
      QueueStep();
      recording_ = stream_->EndRecording();
      return true;
    } catch (const Error& broken) {
      may_record_ = false;
      LogWarning(StrCat("program \"", options_.name,
                        "\" runs without a recorded step, with more work for the CPU: ", broken.what()));
    }
    try {
      stream_->EndRecording();  // the stream works again
    } catch (const Error&) {
      // It was ended above, or is broken as was said.
    }
    return false;
  }

  // Looks for the end of a short run without sleeping: to wake up takes longer than an image's inference may last
  // more.
  static void Watch(const Event& done) {
    constexpr auto kShort = std::chrono::milliseconds(2);
    const auto begin = std::chrono::steady_clock::now();
    while (!done.IsDone() && std::chrono::steady_clock::now() - begin < kShort) {
    }
  }

  void RunTimedOnDevice(std::span<double> step_ms) {
    // All made beforehand: what the host does between two steps would count as theirs.
    std::vector<std::unique_ptr<Event>> events;
    for (size_t i = constant_count_; i <= steps_.size(); ++i) events.push_back(MakeEvent(options_.device));
    data_->PutInputs();
    stream_->Record(*events.front());
    for (size_t i = constant_count_; i < steps_.size(); ++i) {
      RunStep(i);
      stream_->Record(*events[i - constant_count_ + 1]);
    }
    data_->AssignStates();
    data_->TakeOutputs();
    Finish();
    for (size_t i = 1; i < events.size(); ++i)
      step_ms[constant_count_ + i - 1] = events[i]->MillisSince(*events[i - 1]);
  }

  // Gives up the states that only constants read, directly or through an alias.
  void ReleaseStates() {
    std::set<const void*> read;
    for (size_t i = constant_count_; i < steps_.size(); ++i) {
      for (const Tensor& input : steps_[i].inputs) read.insert(input.raw());
    }
    for (const GraphOutput& output : graph_.outputs()) read.insert(data_->tensor(output.value).raw());
    std::vector<std::string> released;
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const Value& value = graph_.value(id);
      if (value.kind == ValueKind::kState && !read.contains(data_->tensor(id).raw())) released.push_back(value.name);
    }
    store_.Remove(released);
  }

  void CheckFaults() {
    for (size_t i = constant_count_; i < steps_.size(); ++i) {
      Kernel* kernel = steps_[i].kernel.get();
      if (kernel == nullptr || !kernel->CanFault()) continue;
      const std::string fault = kernel->TakeFault();
      if (fault.empty()) continue;
      throw Error(ErrorKind::kBadData, graph_.node(steps_[i].node).origin.place,
                  StrCat("layer \"", step_reports_[i].layer, "\": ", fault));
    }
  }

  std::optional<NonFinite> Scan(const Tensor& tensor, std::string_view layer, const std::string& what) const {
    DeviceBuffer room;
    return FirstNonFinite(data_->OnHost(tensor, room), layer, what);
  }

  CompileOptions options_;
  Graph graph_;
  ParameterStore& store_;
  NodeSchedule schedule_;
  ProgramReport report_;
  std::unique_ptr<Stream> stream_;  // null on the CPU
  std::optional<ProgramMemory> data_;
  std::vector<BoundStep> steps_;  // constants first
  size_t constant_count_ = 0;
  std::vector<std::exception_ptr> track_errors_;  // of the run
  std::vector<StepReport> step_reports_;
  bool has_run_ = false;
  bool may_record_ = true;
  int64_t plan_number_ = 0;               // of the collectives
  std::unique_ptr<Event> done_;           // GPU, inference: the end of the run begun last
  std::unique_ptr<Recording> recording_;  // GPU: a step, once it has run
};

}  // namespace

bool HasOutput(const Program& program, std::string_view name) {
  const std::vector<std::string> names = program.OutputNames();
  return std::ranges::find(names, name) != names.end();
}

std::unique_ptr<Program> Compile(Graph graph, ParameterStore& store, const CompileOptions& options) {
  Verify(graph, "building");
  auto program = std::make_unique<FrozenProgram>(std::move(graph), store, options);
  program->Freeze();
  if (options.on_compiled) options.on_compiled(program->steps());
  return program;
}

}  // namespace moka
