// Nets. The methods with an underscore are what moka/caffe/pycaffe.py builds pycaffe's interface on.
#include "tools/python/bindings/bindings.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "data/pipeline/memory_pipeline.h"
#include "layers/net/layer.h"
#include "optim/layerwise/net.h"
#include "optim/layerwise/net_files.h"
#include "proto/nets/net_file.h"
#include "proto/text/places.h"

namespace py = pybind11;

namespace moka::python {
namespace {

using Path = std::filesystem::path;

struct Chosen {
  int phase = 1;
  int level = 0;
  std::optional<std::vector<std::string>> stages;
};

std::shared_ptr<LayerwiseNet> Open(NetParameter param, const Chosen& state, const std::optional<Path>& weights) {
  if (state.phase != TRAIN && state.phase != TEST) {
    throw Error(ErrorKind::kUsage, {}, StrCat("phase ", state.phase, " is neither TRAIN (0) nor TEST (1)"));
  }
  LayerwiseOptions options;
  options.state = param.state();
  options.state.set_phase(static_cast<Phase>(state.phase));
  if (state.level != 0) options.state.set_level(state.level);
  if (state.stages) {
    for (const std::string& stage : *state.stages) options.state.add_stage(stage);
  }
  options.seed = NextSeed();
  options.external = MakePythonLayer;
  auto net = std::make_shared<LayerwiseNet>(param, std::move(options));
  if (weights) CopyWeights(weights->string(), *net);
  return net;
}

std::shared_ptr<LayerwiseNet> OpenFile(const Path& file, int phase, int level,
                                       std::optional<std::vector<std::string>> stages,
                                       const std::optional<Path>& weights) {
  const Unlocked unlocked;
  return Open(ReadNet(file), {phase, level, std::move(stages)}, weights);
}

std::shared_ptr<LayerwiseNet> OpenLegacy(const Path& file, const Path& weights, int phase) {
  const Unlocked unlocked;
  return Open(ReadNet(file), {phase, 0, {}}, weights);
}

std::shared_ptr<LayerwiseNet> OpenText(const std::string& text, int phase) {
  const Unlocked unlocked;
  return Open(NetFromText(text, "<text>"), {phase, 0, {}}, {});
}

py::list LayersOf(const LayerwiseNet& net) {
  py::list list;
  for (const auto& layer : net.layers()) {
    if (layer->external) {
      list.append(InstanceOf(*layer->external));
    } else {
      list.append(BoundLayer{layer->param.type(), layer->blobs, false});
    }
  }
  return list;
}

const LayerwiseNet::Layer& LayerAt(const LayerwiseNet& net, int i) {
  if (i < 0 || static_cast<size_t>(i) >= net.layers().size()) {
    throw py::index_error(StrCat("layer ", i, " of ", net.layers().size()));
  }
  return *net.layers()[static_cast<size_t>(i)];
}

// Contiguous float32 of a buffer.
std::vector<float> Floats(const py::buffer& buffer, const char* name) {
  const py::buffer_info info = buffer.request();
  const bool is_float = info.format == py::format_descriptor<float>::format();
  py::ssize_t stride = info.itemsize;
  bool is_contiguous = true;
  for (auto i = static_cast<size_t>(info.ndim); i-- > 0;) {
    is_contiguous = is_contiguous && (info.shape[i] <= 1 || info.strides[i] == stride);
    stride *= info.shape[i];
  }
  if (!is_float || !is_contiguous) {
    throw Error(ErrorKind::kUsage, {}, StrCat(name, " must be C contiguous and float32"),
                "use numpy.ascontiguousarray(x, numpy.float32)");
  }
  const auto* values = static_cast<const float*>(info.ptr);
  return {values, values + info.size};
}

// Samples of another layout may be as many numbers. Errors: kUsage at the layer.
void CheckSamples(const LayerParameter& layer, const Shape& batch, const py::buffer_info& data,
                  const py::buffer_info& labels) {
  if (data.ndim > Shape::kMaxRank || !std::ranges::equal(batch.dims().subspan(1), std::span(data.shape).subspan(1))) {
    std::string found;
    for (const py::ssize_t dim : data.shape) found += StrCat(found.empty() ? "[" : ",", dim);
    std::string wanted = "[n";
    for (const int64_t dim : batch.dims().subspan(1)) wanted += StrCat(",", dim);
    throw Error(ErrorKind::kUsage, PlaceOf(layer),
                StrCat("layer \"", layer.name(), "\" takes data of shape ", wanted, "], found ", found, "]"),
                "numpy's transpose puts dimensions into another order");
  }
  if (labels.size != labels.shape[0]) {
    throw Error(
        ErrorKind::kUsage, PlaceOf(layer),
        StrCat("layer \"", layer.name(), "\" takes one label a sample, found ", labels.size, " for ", labels.shape[0]));
  }
}

void SetInputArrays(const LayerwiseNet& net, const py::buffer& data, const py::buffer& labels) {
  if (net.layers().empty() || TraitsOf(net.layers()[0]->param).data != DataKind::kProgram) {
    throw Error(ErrorKind::kUsage, "set_input_arrays is for nets whose first layer is a MemoryData layer");
  }
  auto* pipeline = dynamic_cast<MemoryPipeline*>(net.pipeline(net.layers()[0]->param.name()));
  Require(pipeline != nullptr, "a MemoryData layer has its pipeline");
  const py::buffer_info data_info = data.request();
  const py::buffer_info label_info = labels.request();
  if (data_info.ndim < 1 || label_info.ndim < 1 || data_info.shape[0] != label_info.shape[0]) {
    throw Error(ErrorKind::kUsage, "data and labels must have the same first dimension");
  }
  CheckSamples(net.layers()[0]->param, pipeline->types()[0].shape, data_info, label_info);
  pipeline->Fill(Floats(data, "data"), Floats(labels, "labels"));
  pipeline->Seek(0);
}

struct HookMethod {
  const char* name;
  LayerwiseNet::Hook hook;
};
constexpr HookMethod kHookMethods[] = {{"before_forward", LayerwiseNet::Hook::kBeforeForward},
                                       {"after_forward", LayerwiseNet::Hook::kAfterForward},
                                       {"before_backward", LayerwiseNet::Hook::kBeforeBackward},
                                       {"after_backward", LayerwiseNet::Hook::kAfterBackward}};

using NetClass = py::class_<LayerwiseNet, std::shared_ptr<LayerwiseNet>>;

// Binds layers, blobs, and which of them belong together.
void BindParts(NetClass& net) {
  net.def_property_readonly("layers", &LayersOf)
      .def_property_readonly("_layer_names",
                             [](const LayerwiseNet& n) {
                               std::vector<std::string> names;
                               for (const auto& layer : n.layers()) names.push_back(layer->param.name());
                               return names;
                             })
      .def_property_readonly("_blobs", [](const LayerwiseNet& n) { return n.blobs().all; })
      .def_property_readonly("_blob_names", [](const LayerwiseNet& n) { return n.blobs().names; })
      .def_property_readonly("_blob_loss_weights", [](const LayerwiseNet& n) { return n.blobs().loss_weights; })
      .def_property_readonly("_inputs", [](const LayerwiseNet& n) { return n.blobs().inputs; })
      .def_property_readonly("_outputs", [](const LayerwiseNet& n) { return n.blobs().outputs; })
      .def("_bottom_ids", [](const LayerwiseNet& n, int i) { return LayerAt(n, i).bottom_ids; })
      .def("_visits", [](const LayerwiseNet& n, int i) { return LayerAt(n, i).visits; })
      .def("_gradient_ids",
           [](const LayerwiseNet& n, int i) {  // of the bottoms whose gradient the layer makes
             const LayerwiseNet::Layer& layer = LayerAt(n, i);
             std::vector<int> ids;
             for (size_t k = 0; layer.visits && k < layer.bottom_ids.size(); ++k) {
               if (layer.wanted_bottoms[k] != 0) ids.push_back(layer.bottom_ids[k]);
             }
             return ids;
           })
      .def("_top_ids", [](const LayerwiseNet& n, int i) { return LayerAt(n, i).top_ids; })
      .def("_set_input_arrays", &SetInputArrays);
}

void BindHooks(NetClass& net) {
  for (const HookMethod& method : kHookMethods) {
    net.def(method.name, [method](LayerwiseNet& n, const py::object& function) {
      const PythonCall call = CallOf(function, method.name, 1);
      const Unlocked released;  // a pass that runs in another thread has the net
      n.AddHook(method.hook, [call](int layer) {
        const Locked lock;
        (*call)(layer);
      });
    });
  }
}

}  // namespace

void BindNets(py::module_& m) {
  const py::call_guard<Unlocked> unlocked;
  NetClass net(m, "Net", py::dynamic_attr(), "A net that runs layer by layer.");
  net.def(py::init(&OpenFile), py::arg("network_file"), py::arg("phase"), py::arg("level") = 0,
          py::arg("stages") = py::none(), py::arg("weights") = py::none())
      .def(py::init(&OpenLegacy))
      .def_static("from_text", &OpenText, py::arg("text"), py::arg("phase"))
      .def_property_readonly("name", &LayerwiseNet::name)
      .def(
          "_forward", [](LayerwiseNet& n, int start, int end) { return n.Forward(start, end); }, unlocked)
      .def(
          "_backward", [](LayerwiseNet& n, int start, int end) { n.Backward(start, end); }, unlocked)
      .def("reshape", &LayerwiseNet::Reshape, unlocked)
      .def("clear_param_diffs", &LayerwiseNet::ClearParamDiffs, unlocked)
      .def(
          "copy_from", [](LayerwiseNet& n, const Path& path) { CopyWeights(path.string(), n); }, unlocked)
      .def(
          "_copy_trained", [](LayerwiseNet& n, const Path& path) { CopyTrainedWeights(path.string(), n); }, unlocked)
      .def(
          "save", [](const LayerwiseNet& n, const Path& path) { SaveWeights(n, path.string()); }, unlocked)
      .def(
          "save_hdf5", [](const LayerwiseNet& n, const Path& path) { SaveHdf5Weights(n, path.string()); }, unlocked)
      .def(
          "load_hdf5", [](LayerwiseNet& n, const Path& path) { CopyWeights(path.string(), n); }, unlocked)
      .def("share_with", &LayerwiseNet::ShareWith, unlocked);
  BindParts(net);
  BindHooks(net);
}

}  // namespace moka::python
