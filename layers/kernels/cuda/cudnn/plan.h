// Plans of cuDNN: which of its engines computes a graph of operations, found by its heuristics under Moka's rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/kernels/cuda/cudnn/library.h"

namespace moka::cudnn {

// The target of a plan: a GPU through a handle, or one that is only described (DeviceProperties), which is enough to
// plan and not to run.
struct Target {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

struct PlanRules {
  bool deterministic = true;  // no engine whose result depends on timing
  bool may_round = true;      // engines may round factors below their type (TF32); half types have nothing to lose
  int64_t most_workspace_bytes = 0;
};

struct Plan {
  Descriptor descriptor;
  int64_t workspace_bytes = 0;
  std::string engine;  // "engine 37": the number that cuDNN's text of the plan names
};

// The graph of these operations, finished.
Descriptor MakeGraph(const std::vector<const Descriptor*>& operations, const Target& target);

// Plans that obey the rules, the best by cuDNN's heuristics first, at most so many; none if cuDNN does not support the
// graph. Errors: those of Check.
std::vector<Plan> FindPlans(const Descriptor& graph, const Target& target, const PlanRules& rules, size_t most);

// A plan as text, and a plan of a text that TextOf gave, on this machine or another with such a GPU; none if cuDNN does
// not take it (of another version, say) or it breaks the rules.
std::string TextOf(const Plan& plan);
std::optional<Plan> PlanOf(const std::string& text, const Target& target, const PlanRules& rules);

// A handle of the GPU for all kernels of the process: its stream is set and work queued under one lock. Errors:
// kUnavailable.
class Handle {
 public:
  static Handle& Of(const Device& device);
  explicit Handle(const Device& device);
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  cudnnHandle_t get() const { return handle_; }
  // Queues a plan over the pack's memory.
  void Execute(void* native_stream, const Descriptor& plan, const Descriptor& pack);

 private:
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace moka::cudnn
