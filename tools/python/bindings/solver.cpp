// Solvers as pycaffe has them.
#include "tools/python/bindings/bindings.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>

#include "core/error.h"
#include "core/text.h"
#include "optim/layerwise/solver.h"
#include "optim/optimizers/solver_fields.h"
#include "proto/nets/solver_file.h"

namespace py = pybind11;

namespace moka::python {
namespace {

using Path = std::filesystem::path;

std::shared_ptr<LayerwiseSolver> OpenSolver(const Path& file, const std::string& type) {
  const Unlocked unlocked;
  SolverParameter solver = ReadSolver(file);
  if (!type.empty()) solver.set_type(type);
  if (!solver.has_snapshot_prefix()) solver.set_snapshot_prefix(Path(file).replace_extension().string());
  const SolverNets nets = ReadSolverNets(solver);
  LayerwiseOptions options;
  options.seed = solver.random_seed() >= 0 ? static_cast<uint64_t>(solver.random_seed()) : NextSeed();
  options.external = MakePythonLayer;
  auto made = std::make_shared<LayerwiseSolver>(solver, nets, std::move(options));
  made->SetPulse(CheckInterrupt);
  return made;
}

// As the file's would be: in its range, at least min_lr.
void SetBaseRate(SolverParameter& solver, double rate) {
  SolverParameter changed = solver;
  changed.set_base_lr(static_cast<float>(rate));
  CheckSolverNumbers(changed);
  if (changed.min_lr() > changed.base_lr()) {
    throw Error(ErrorKind::kConfig, StrCat("base_lr ", rate, " is below min_lr ", changed.min_lr()));
  }
  solver.set_base_lr(changed.base_lr());
}

std::string TypeOf(const Path& file) { return ReadSolver(file).type(); }

}  // namespace

void BindSolvers(py::module_& m) {
  const py::call_guard<Unlocked> unlocked;
  py::class_<SolverParameter>(m, "SolverParameter", "The fields of a running solver that may be read or set.")
      .def_property_readonly("max_iter", [](const SolverParameter& p) { return p.max_iter(); })
      .def_property_readonly("display", [](const SolverParameter& p) { return p.display(); })
      .def_property_readonly("layer_wise_reduce", [](const SolverParameter&) { return false; })
      .def_property(
          "base_lr", [](const SolverParameter& p) { return p.base_lr(); }, &SetBaseRate);

  py::class_<LayerwiseSolver, std::shared_ptr<LayerwiseSolver>>(m, "Solver", py::dynamic_attr())
      .def(py::init(&OpenSolver), py::arg("solver_file"), py::arg("type") = "")
      .def_property_readonly("net", &LayerwiseSolver::net)
      .def_property_readonly("test_nets", &LayerwiseSolver::test_nets)
      .def_property_readonly("iter", &LayerwiseSolver::iteration)
      .def_property_readonly("lr", &LayerwiseSolver::rate)
      .def_property_readonly("param", &LayerwiseSolver::param, py::return_value_policy::reference_internal)
      .def("step", &LayerwiseSolver::Step, py::arg("iterations"), unlocked)
      .def(
          "solve",
          [](LayerwiseSolver& s, const std::optional<Path>& resume) {
            const Unlocked released;
            s.Solve(resume ? resume->string() : std::string());
          },
          py::arg("resume_file") = py::none())
      .def("apply_update", &LayerwiseSolver::ApplyUpdate, unlocked)
      .def("snapshot", &LayerwiseSolver::Snapshot, unlocked)
      .def(
          "restore", [](LayerwiseSolver& s, const Path& file) { s.Restore(file.string()); }, unlocked)
      .def(
          "share_weights", [](LayerwiseSolver& s, LayerwiseNet& net) { net.ShareWith(*s.net()); }, unlocked)
      .def("add_callback", [](LayerwiseSolver& s, const py::object& on_start, const py::object& on_gradients) {
        const auto calling = [](PythonCall call) {
          return [call = std::move(call)] {
            const Locked lock;
            (*call)();
          };
        };
        s.AddCallback({calling(CallOf(on_start, "add_callback", 1)), calling(CallOf(on_gradients, "add_callback", 2))});
      });

  m.def("solver_type", &TypeOf, py::arg("solver_file"));
}

}  // namespace moka::python
