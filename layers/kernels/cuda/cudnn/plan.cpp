// Asks cuDNN's heuristics for configurations, best first, drops those whose engines break the rules (nondeterminism,
// rounding to TF32, too much memory), and keeps a plan as the library's own JSON text.
#include "layers/kernels/cuda/cudnn/plan.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "core/device/device.h"
#include "core/error.h"
#include "core/text.h"

namespace moka::cudnn {
namespace {

constexpr int64_t kMostConfigurations = 64;

// The configurations that a mode of the heuristics names, best first.
// The backend fills descriptors that the caller has made, hence as many empty ones as may come.
std::vector<Descriptor> Configurations(const Descriptor& graph, const Target& target, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.SetRaw(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.properties != nullptr) heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  if (!heuristics.TryFinalize()) return {};  // no engine for it in this mode
  std::vector<Descriptor> all;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < kMostConfigurations; ++i) {
    handles.push_back(all.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).handle());
  }
  int64_t count = 0;
  Check(Functions().get_attribute(heuristics.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                  kMostConfigurations, &count, handles.data()),
        "reading the heuristics' results");
  all.erase(all.begin() + std::min(count, kMostConfigurations), all.end());
  return all;
}

// Whether an engine does nothing that the rules forbid.
bool Obeys(const Descriptor& configuration, const PlanRules& rules) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.handle();
  int64_t count = 0;
  Check(Functions().get_attribute(configuration.handle(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                  &count, &handle),
        "reading a configuration's engine");
  const std::vector<int32_t> notes =
      engine.GetEnums(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return std::ranges::none_of(notes, [&](int32_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return rules.deterministic;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: return !rules.may_round;
      // Sums in a half type: what float32 sums are for would be lost.
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return true;
      default: return false;
    }
  });
}

// "engine 37" from `"engineId":37` in the plan's own text; "engine" if it has none.
std::string EngineOf(const Plan& plan) {
  const std::string text = TextOf(plan);
  const std::string key = "\"engineId\":";
  const size_t at = text.find(key);
  if (at == std::string::npos) return "engine";
  const size_t begin = at + key.size();
  return StrCat("engine ", text.substr(begin, text.find_first_not_of("0123456789", begin) - begin));
}

void AimAt(const Target& target, Plan& plan) {
  if (target.properties != nullptr) {
    plan.descriptor.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
  } else {
    plan.descriptor.SetRaw(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  }
}

// None if the engine finds that it does not take the graph after all, or wants too much memory.
std::optional<Plan> Finished(Plan plan, const PlanRules& rules) {
  if (!plan.descriptor.TryFinalize()) return {};
  plan.workspace_bytes = plan.descriptor.GetInt(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (plan.workspace_bytes > rules.most_workspace_bytes) return {};
  plan.engine = EngineOf(plan);
  return plan;
}

}  // namespace

Descriptor MakeGraph(const std::vector<const Descriptor*>& operations, const Target& target) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  if (target.handle != nullptr) {
    graph.SetRaw(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  }
  graph.Finalize();
  return graph;
}

std::vector<Plan> FindPlans(const Descriptor& graph, const Target& target, const PlanRules& rules, size_t most) {
  std::vector<Plan> plans;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const Descriptor& configuration : Configurations(graph, target, mode)) {
      if (plans.size() == most) return plans;
      if (!Obeys(configuration, rules)) continue;
      Plan plan{Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), 0, {}};
      plan.descriptor.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      AimAt(target, plan);
      if (std::optional<Plan> made = Finished(std::move(plan), rules)) plans.push_back(std::move(*made));
    }
    if (!plans.empty()) break;  // the fallback is for graphs that the first mode knows nothing for
  }
  return plans;
}

std::string TextOf(const Plan& plan) { return plan.descriptor.GetText(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION); }

std::optional<Plan> PlanOf(const std::string& text, const Target& target, const PlanRules& rules) {
  Plan plan{Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), 0, {}};
  AimAt(target, plan);
  const cudnnStatus_t status =
      Functions().set_attribute(plan.descriptor.handle(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                CUDNN_TYPE_CHAR, static_cast<int64_t>(text.size()), text.data());
  if (status != CUDNN_STATUS_SUCCESS) return {};
  return Finished(std::move(plan), rules);
}

Handle& Handle::Of(const Device& device) {
  static std::mutex mutex;
  // Never destroyed: when the process ends cuDNN's parts may be gone before it.
  static auto& handles = *new std::map<int, std::unique_ptr<Handle>>();
  const std::scoped_lock lock(mutex);
  std::unique_ptr<Handle>& handle = handles[device.index];
  if (!handle) handle = std::make_unique<Handle>(device);
  return *handle;
}

Handle::Handle(const Device& device) {
  if (const cudaError_t status = cudaSetDevice(device.index); status != cudaSuccess) {
    throw Error(ErrorKind::kUnavailable, {}, StrCat(NameOf(device), ": ", cudaGetErrorString(status)));
  }
  Check(Functions().create(&handle_), "cudnnCreate");
}

Handle::~Handle() { Functions().destroy(handle_); }

void Handle::Execute(void* native_stream, const Descriptor& plan, const Descriptor& pack) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  Check(Functions().set_stream(handle_, static_cast<cudaStream_t>(native_stream)), "cudnnSetStream");
  Check(Functions().execute(handle_, plan.handle(), pack.handle()), "cudnnBackendExecute");
}

}  // namespace moka::cudnn
