// Layers written in Python: layer { type: "Python" python_param { module layer param_str } }.
#include "tools/python/bindings/bindings.h"

#include <utility>

#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/types/python/python.h"

namespace py = pybind11;

namespace moka::python {
namespace {

py::list ListOf(const BlobList& blobs) {
  py::list list;
  for (const auto& blob : blobs) list.append(blob);
  return list;
}

// Says in the exception which layer it comes from (Python 3.11 shows such notes).
void Name(py::error_already_set& error, const std::string& layer, const char* method) {
  const py::object value = error.value();
  if (!value || !py::hasattr(value, "add_note")) return;
  value.attr("add_note")(StrCat("in ", method, " of the Python layer \"", layer, "\""));
}

class PythonLayer : public ExternalLayer {
 public:
  PythonLayer(std::string name, py::object instance) : name_(std::move(name)), instance_(std::move(instance)) {
    blobs_ = instance_.cast<BoundLayer&>().blobs;
  }
  PythonLayer(const PythonLayer&) = delete;
  PythonLayer& operator=(const PythonLayer&) = delete;
  ~PythonLayer() override {
    if (Py_IsInitialized() == 0) {
      instance_.release();  // the interpreter has gone, and its objects with it
      return;
    }
    const Locked lock;
    instance_ = py::object();
  }

  void SetUp(const BlobList& bottoms, const BlobList& tops) override {
    Call("setup", [&](const py::object& method) { method(ListOf(bottoms), ListOf(tops)); });
  }
  void Reshape(const BlobList& bottoms, const BlobList& tops) override {
    Call("reshape", [&](const py::object& method) { method(ListOf(bottoms), ListOf(tops)); });
  }
  void Forward(const BlobList& bottoms, const BlobList& tops) override {
    Call("forward", [&](const py::object& method) { method(ListOf(bottoms), ListOf(tops)); });
  }
  void Backward(const BlobList& tops, const std::vector<char>& propagate_down, const BlobList& bottoms) override {
    Call("backward", [&](const py::object& method) {
      py::list down;
      for (const char wanted : propagate_down) down.append(py::bool_(wanted != 0));
      method(ListOf(tops), down, ListOf(bottoms));
    });
  }
  const std::shared_ptr<BlobList>& blobs() override { return blobs_; }
  const py::object& instance() const { return instance_; }

 private:
  template <class Body>
  void Call(const char* name, Body body) {
    const Locked lock;
    try {
      body(instance_.attr(name));
    } catch (py::error_already_set& error) {
      Name(error, name_, name);
      throw;
    }
  }

  std::string name_;
  py::object instance_;
  std::shared_ptr<BlobList> blobs_;
};

// The class, or nothing when its module is not there and Moka has a layer of its own for it.
py::object FindClass(const LayerParameter& param) {
  const PythonParameter& python = param.python_param();
  try {
    return py::module_::import(python.module().c_str()).attr(python.layer().c_str());
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_ImportError) && FindPythonLayer(python.module(), python.layer()) != nullptr)
      return py::none();
    Name(error, param.name(), "python_param");
    throw;
  }
}

}  // namespace

std::unique_ptr<ExternalLayer> MakePythonLayer(const LayerParameter& param) {
  if (!TraitsOf(param).runs_python) return nullptr;
  const Locked lock;
  const py::object type = FindClass(param);
  if (type.is_none()) return nullptr;
  try {
    py::object instance = type(py::none());
    instance.attr("param_str") = param.python_param().param_str();
    instance.attr("phase") = static_cast<int>(param.phase());
    return std::make_unique<PythonLayer>(param.name(), std::move(instance));
  } catch (py::error_already_set& error) {
    Name(error, param.name(), "__init__");
    throw;
  }
}

py::object InstanceOf(ExternalLayer& layer) { return dynamic_cast<PythonLayer&>(layer).instance(); }

void BindLayers(py::module_& m) {
  py::class_<BoundLayer>(m, "Layer", py::dynamic_attr(),
                         "What layers written in Python derive from: they define setup, reshape, forward, backward.")
      .def(py::init([](const py::args& /*param*/) { return std::make_unique<BoundLayer>(); }))
      .def_readonly("type", &BoundLayer::type)
      .def_property_readonly("blobs", [](const BoundLayer& layer) {
        return BlobVec{layer.blobs, layer.may_grow};
      });
}

}  // namespace moka::python
