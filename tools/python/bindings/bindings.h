// The parts of the Python module moka._moka, a file each. Everything that runs a net lets go of the interpreter's lock;
// whoever calls back into Python takes it again.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>

#include "optim/layerwise/external_layer.h"

namespace moka::python {

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
};

// What Python layers derive from; also how Moka's own layers are shown.
struct BoundLayer {
  std::string type = "Python";
  std::shared_ptr<BlobList> blobs = std::make_shared<BlobList>();
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
