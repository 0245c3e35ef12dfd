// The module, and what belongs to the whole process: the version, the log, seeds, devices.
#include "tools/python/bindings/bindings.h"

#include <pybind11/stl.h>

#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/text.h"
#include "core/threads/team.h"
#include "layers/net/layer.h"

namespace py = pybind11;

namespace moka::python {
namespace {

struct Seeds {
  std::mutex mutex;
  std::optional<uint64_t> seed;
  uint32_t nets = 0;
};

Seeds& TheSeeds() {
  static Seeds seeds;
  return seeds;
}

void SetRandomSeed(uint64_t seed) {
  const std::lock_guard lock(TheSeeds().mutex);
  TheSeeds().seed = seed;
  TheSeeds().nets = 0;
}

[[noreturn]] void RefuseGpu() {
  throw Error(ErrorKind::kUnavailable, {}, "there is no GPU that this build of Moka could use",
              "call set_mode_cpu() instead, or set MOKA_GPU_CALLS=cpu in the environment to pass over such calls");
}

std::vector<std::string> LayerTypes() {
  std::vector<std::string> types;
  for (const LayerDef& layer : AllLayers()) types.push_back(layer.type);
  return types;
}

// Levels of glog: 0 information, 1 warnings, 2 and more errors.
void SetLogLevel(int level) {
  SetStderrLevel(level <= 0 ? LogLevel::kInfo : level == 1 ? LogLevel::kWarning : LogLevel::kError);
}

}  // namespace

uint64_t NextSeed() {
  const std::lock_guard lock(TheSeeds().mutex);
  Seeds& seeds = TheSeeds();
  if (!seeds.seed) {
    std::random_device entropy;
    return uint64_t{entropy()} << 32U | entropy();
  }
  constexpr uint32_t kDomain = 0x4E455453;  // apart from other uses of Philox with this seed
  const auto words = Philox({seeds.nets++, 0, 0, kDomain},
                            {static_cast<uint32_t>(*seeds.seed), static_cast<uint32_t>(*seeds.seed >> 32U)});
  return uint64_t{words[0]} << 32U | words[1];
}

void CheckInterrupt() {
  const Locked lock;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void BindSession(py::module_& m) {
  m.attr("__version__") = MOKA_VERSION;
  m.def("set_random_seed", &SetRandomSeed, py::arg("seed"));
  m.def("layer_type_list", &LayerTypes);
  m.def("set_log_level", &SetLogLevel, py::arg("level"));
  m.def(
      "log", [](const std::string& text) { LogInfo(text); }, py::arg("text"));
  m.def("refuse_gpu", [] { RefuseGpu(); });
}

}  // namespace moka::python

PYBIND11_MODULE(_moka, m) {
  using namespace moka::python;
  m.doc() = "Moka's nets and solvers; use it through the packages moka and moka.caffe.";
  moka::KeepTeamAcrossForks();
  BindEnd(m);
  BindErrors(m);
  BindSession(m);
  BindBlobs(m);
  BindLayers(m);
  BindNets(m);
  BindSolvers(m);
  BindTraining(m);
  BindImages(m);
}
