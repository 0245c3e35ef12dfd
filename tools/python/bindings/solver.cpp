// Solvers as pycaffe has them.
#include "tools/python/bindings/bindings.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>

#include "optim/layerwise/solver.h"
#include "proto/solver_file.h"

namespace py = pybind11;

namespace moka::python {
namespace {

using Path = std::filesystem::path;

std::shared_ptr<LayerwiseSolver> OpenSolver(const Path& file, const std::string& type) {
  const py::gil_scoped_release unlocked;
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

std::string TypeOf(const Path& file) { return ReadSolver(file).type(); }

}  // namespace

void BindSolvers(py::module_& m) {
  const py::call_guard<py::gil_scoped_release> unlocked;
  py::class_<SolverParameter>(m, "SolverParameter", "The fields of a running solver that may be read or set.")
      .def_property_readonly("max_iter", [](const SolverParameter& p) { return p.max_iter(); })
      .def_property_readonly("display", [](const SolverParameter& p) { return p.display(); })
      .def_property_readonly("layer_wise_reduce", [](const SolverParameter&) { return false; })
      .def_property(
          "base_lr", [](const SolverParameter& p) { return p.base_lr(); },
          [](SolverParameter& p, float rate) { p.set_base_lr(rate); });

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
            const py::gil_scoped_release released;
            s.Solve(resume ? resume->string() : std::string());
          },
          py::arg("resume_file") = py::none())
      .def("apply_update", &LayerwiseSolver::ApplyUpdate, unlocked)
      .def("snapshot", &LayerwiseSolver::Snapshot, unlocked)
      .def(
          "restore", [](LayerwiseSolver& s, const Path& file) { s.Restore(file.string()); }, unlocked)
      .def(
          "share_weights", [](LayerwiseSolver& s, LayerwiseNet& net) { net.ShareWith(*s.net()); }, unlocked)
      .def("add_callback", [](LayerwiseSolver& s, std::function<void()> on_start, std::function<void()> on_gradients) {
        s.AddCallback({std::move(on_start), std::move(on_gradients)});
      });

  m.def("solver_type", &TypeOf, py::arg("solver_file"));
}

}  // namespace moka::python
