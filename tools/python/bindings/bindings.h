// The parts of the Python module moka._moka, a file each. Everything that runs a net lets go of the interpreter's lock;
// whoever calls back into Python takes it again.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "optim/layerwise/external_layer.h"

namespace moka::python {

// The interpreter's lock while it lives, and its absence. pybind11's own would not do: Python ends a thread that asks
// for the lock of a finished interpreter by unwinding it, which C++ code cannot survive. Threads that ask for it once
// the process is ending wait for that end instead, without the lock.
class Locked {
 public:
  Locked();

 private:
  std::optional<pybind11::gil_scoped_acquire> lock_;
};
class Unlocked {
 public:
  Unlocked() : released_(std::in_place) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked();

 private:
  std::optional<pybind11::gil_scoped_release> released_;
};

// A function of the user's that threads without the lock may call, copy and drop. Errors: TypeError naming `method` and
// the argument's position unless it can be called.
using PythonCall = std::shared_ptr<pybind11::object>;
PythonCall CallOf(const pybind11::object& function, const char* method, int position);

void BindEnd(pybind11::module_& m);
void BindErrors(pybind11::module_& m);
void BindBlobs(pybind11::module_& m);
void BindLayers(pybind11::module_& m);
void BindNets(pybind11::module_& m);
void BindSolvers(pybind11::module_& m);
void BindTraining(pybind11::module_& m);
void BindImages(pybind11::module_& m);
void BindSession(pybind11::module_& m);

// A list of blobs as Python sees it.
struct BlobVec {
  std::shared_ptr<BlobList> blobs;
  bool may_grow = true;  // not those of layers that Moka made
};

// The class that Python layers derive from; also how Moka's own layers are shown.
struct BoundLayer {
  std::string type = "Python";
  std::shared_ptr<BlobList> blobs = std::make_shared<BlobList>();
  bool may_grow = true;
};

// Makes layers of type Python from their classes. Throws what Python throws.
std::unique_ptr<ExternalLayer> MakePythonLayer(const LayerParameter& param);
// The instance of the user's class. Requires: made by MakePythonLayer; the interpreter's lock is held.
pybind11::object InstanceOf(ExternalLayer& layer);

// The seed of the next net: of set_random_seed and how many nets were made since, else of the machine's entropy.
uint64_t NextSeed();
// KeyboardInterrupt where the user pressed Ctrl-C. Takes the interpreter's lock.
void CheckInterrupt();

}  // namespace moka::python
