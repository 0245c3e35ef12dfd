// The frozen result of compilation: kernels bound to fixed memory, in order. Run() allocates nothing, looks nothing up
// and takes no lock. A program borrows its states from the ParameterStore it was compiled with. One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/tensor.h"
#include "graph/graph.h"
#include "graph/parameter_store.h"
#include "graph/program_report.h"

namespace moka {

class Collectives;
class KernelSearch;
class SharedArena;
struct Quantization;

// Bytes of memory that this process may have (core/device/memory.h); nothing larger is asked for.
int64_t MachineMemoryBytes();

// The arithmetic of products and convolutions, and the type of what lies between layers. tf32: float32 whose factors
// GPUs round to 10 bits; auto: to be chosen before a program is compiled.
enum class Compute : uint8_t { kFloat32, kTf32, kBFloat16, kFloat16, kAuto };

struct CompileOptions {
  std::string name = "program";  // in dumps and traces
  Device device = {};            // of the store too
  Compute compute = Compute::kFloat32;
  // Layers that compute in float32 whatever `compute` says.
  std::set<std::string> keep32_layers;
  // Only what layers keep from run to run is assigned: what depends on the other states alone (folded batch norms,
  // packed weights) is computed once, by RefreshConstants, and batch norms fold into convolutions.
  bool inference = false;
  // The states will not change any more: once the constants are computed, the store gives up the states that no step
  // reads (most weights then lie packed among the constants), and RefreshConstants may not be called.
  bool releases_states = false;
  bool deterministic = true;
  // Training keeps less: what is cheap to make again from what is kept anyway is made again by the backward pass.
  bool recompute = false;
  std::set<std::string> disabled_passes;
  // Rows of kernels ("winograd", or "convolution/winograd" for one op) that are not used, and rows that are taken
  // before all others wherever they accept a node.
  std::set<std::string> disabled_kernels;
  std::set<std::string> preferred_kernels;
  // Inference with 8-bit integers by these ranges (graph/passes/quantize.cpp). Null: none.
  std::shared_ptr<const Quantization> quantization;
  // Inference: what calibration looks at becomes outputs.
  bool observes_convolutions = false;
  // Where several rows accept a heavy node (one whose op counts its operations) the fastest of them here is taken.
  // Null: the first listed.
  std::shared_ptr<KernelSearch> search;
  // Called after each pass that changed the graph, for --dump-after.
  std::function<void(std::string_view pass, const Graph&)> on_pass;
  // Called many times while a program is compiled: what it throws ends the compilation and leaves the store usable.
  std::function<void()> on_pulse;
  // Called with a program's steps once it is compiled.
  std::function<void(std::span<const StepReport>)> on_compiled;
  // Sums gradients over ranks (graph/collectives.h). Null: there is one rank.
  std::shared_ptr<Collectives> collectives;
  // Where what lies between nodes has its place, beside that of other programs that take turns with this one; outputs
  // are read before another one runs. CPUs only. Null: memory of its own.
  std::shared_ptr<SharedArena> arena;
  // Refuse to allocate more than this (0: the machine's memory).
  int64_t memory_limit_bytes = 0;
};

// The first value found not finite, in step order.
struct NonFinite {
  std::string layer;
  std::string what;  // "output 0 of convolution", "state conv1/0"
  int64_t index = 0;
  double value = 0;
};

class Program {
 public:
  virtual ~Program() = default;

  // Plain tensors of the host to fill before a run. Requires: the graph has that input.
  virtual Tensor input(std::string_view name) const = 0;
  virtual bool HasInput(std::string_view name) const = 0;
  // Plain tensors of the host to read after a run. Requires: the graph has that output.
  virtual Tensor output(std::string_view name) const = 0;
  virtual std::vector<std::string> OutputNames() const = 0;

  // The stream that a GPU's program puts its work into; null on the CPU.
  virtual Stream* stream() const = 0;
  // An input in the device's memory, for a caller that fills it there by work of stream(): from now on Start leaves the
  // host's tensor of that name alone. Requires: a GPU's program that has not run yet and has that input.
  virtual Tensor TakeInput(std::string_view name) = 0;
  // An output in the device's memory, for a caller that reads it there, after Finish or by work of stream(): from now
  // on Start leaves the host's tensor of that name alone. Requires: as for TakeInput.
  virtual Tensor TakeOutput(std::string_view name) = 0;

  // Begins one iteration over the inputs as they are. A GPU works on while the caller does; the CPU is done on return.
  virtual void Start() = 0;
  // Waits for the iteration begun last: its outputs may be read, its inputs written. Errors: kBadData when a kernel
  // finds bad data (a label outside its classes), naming the layer; kUnavailable when a GPU fails.
  virtual void Finish() = 0;
  // Start and Finish.
  void Run() {
    Start();
    Finish();
  }
  // Recomputes what depends on states alone. Call after the states changed (inference programs only). Requires: the
  // program keeps its states.
  virtual void RefreshConstants() = 0;
  // Run with the milliseconds of each step (as many as steps()). Steps that run beside others (graph/tracks.h) share
  // out the time that all of them take.
  virtual void RunTimed(std::span<double> step_ms) = 0;
  // Runs again over the present inputs, looking at every step's results and at the states.
  virtual std::optional<NonFinite> FindNonFinite() = 0;

  virtual const std::vector<StepReport>& steps() const = 0;
  // The passes, the memory and the text that compiling it came to.
  virtual const ProgramReport& report() const = 0;
};

// Whether the program's graph has that output.
bool HasOutput(const Program& program, std::string_view name);

// Runs the pass pipeline (ARCHITECTURE §5) over the graph and freezes it. The store must hold every state of the graph.
// Errors: kConfig (shapes, with layer and place), kUnavailable (memory needed against memory there, no kernel).
std::unique_ptr<Program> Compile(Graph graph, ParameterStore& store, const CompileOptions& options);

}  // namespace moka
