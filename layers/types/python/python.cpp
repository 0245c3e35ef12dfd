// Layer type Python: the module and class are looked up among the built-in ones.
#include "layers/types/python/python.h"

#include <algorithm>

#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

std::string NameOf(const PythonLayerDef& def) { return StrCat(def.module, ".", def.layer); }

const PythonLayerDef& Find(const LayerBuilder& l) {
  const PythonParameter& p = l.param().python_param();
  l.Check(!p.module().empty() && !p.layer().empty(), "python_param",
          "python_param.module and python_param.layer must be given");
  if (const PythonLayerDef* def = FindPythonLayer(p.module(), p.layer())) return *def;
  const std::string name = StrCat(p.module(), ".", p.layer());
  std::vector<std::string> names;
  std::vector<std::string> same_class;
  for (const PythonLayerDef& def : AllPythonLayers()) {
    names.push_back(NameOf(def));
    if (def.layer == p.layer()) same_class.push_back(StrCat("\"", NameOf(def), "\""));
  }
  std::string hint = DidYouMean(name, names);
  if (hint.empty() && !same_class.empty()) hint = StrCat("classes of that name: ", Join(same_class, ", "));
  if (hint.empty()) hint = "`moka explain layer Python` lists the built-in ones";
  l.Fail("python_param.layer",
         StrCat("Python layer \"", name, "\" is not built in; it runs only in nets that Python holds"), hint);
}

void CheckCount(const LayerBuilder& l, const PythonLayerDef& def, const std::string& noun, int found, int least,
                int most) {
  const std::string range = least == most ? StrCat(least) : StrCat(least, " to ", most);
  l.Check(found >= least && found <= most, noun, StrCat(NameOf(def), " takes ", range, " ", noun, "s, found ", found));
}

// Whether the class is another one of that name, with other bottoms or tops.
bool IsAnother(const LayerBuilder& l, const PythonLayerDef& def) {
  return l.top_count() < def.min_tops || l.top_count() > def.max_tops || l.bottom_count() < def.min_bottoms ||
         l.bottom_count() > def.max_bottoms;
}

// In a net that is only looked at: the tops are inputs. A loss is one number, another top is as the bottom beside it,
// and what is written in place stays what it was.
void TakeAsInputs(LayerBuilder& l) {
  std::vector<TensorType> types = l.AskDataTypes();
  const auto& bottoms = l.param().bottom();
  bool is_in_place = false;
  for (int i = 0; i < l.top_count() && l.bottom_count() > 0; ++i) {
    const bool is_loss = l.param().loss_weight_size() > 0;
    types[static_cast<size_t>(i)].shape = is_loss ? Shape{1} : l.shape(std::min(i, l.bottom_count() - 1));
    is_in_place = is_in_place || std::ranges::find(bottoms, l.param().top(i)) != bottoms.end();
  }
  if (!is_in_place) return l.AddData(types);
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, l.bottom(std::min(i, l.bottom_count() - 1)));
}

void BuildPython(LayerBuilder& l) {
  const PythonParameter& p = l.param().python_param();
  const PythonLayerDef* known = FindPythonLayer(p.module(), p.layer());
  if (l.FeedsPythonData() && !p.layer().empty() && (known == nullptr || IsAnother(l, *known))) return TakeAsInputs(l);
  const PythonLayerDef& def = Find(l);
  CheckCount(l, def, "bottom", l.bottom_count(), def.min_bottoms, def.max_bottoms);
  CheckCount(l, def, "top", l.top_count(), def.min_tops, def.max_tops);
  def.build(l, def.reads_list ? PythonFields(l, {}) : PythonFields(l));
}

std::string Doc() {
  std::string doc =
      "A layer written in Python elsewhere, here built in: python_param.module and layer name it, param_str holds its "
      "fields (YAML or a Python dictionary; numbers without keys where it says so). What the originals read from a "
      "configuration module has their defaults and can be given in param_str under the lower-case name. Known:";
  for (const PythonLayerDef& def : AllPythonLayers()) doc += StrCat("\n", NameOf(def), ": ", def.doc);
  return doc;
}

}  // namespace

const PythonLayerDef* FindPythonLayer(std::string_view module, std::string_view layer) {
  const auto is_it = [&](const PythonLayerDef& def) { return def.module == module && def.layer == layer; };
  const auto found = std::ranges::find_if(AllPythonLayers(), is_it);
  return found == AllPythonLayers().end() ? nullptr : &*found;
}

const std::vector<PythonLayerDef>& AllPythonLayers() {
  static const std::vector<PythonLayerDef> layers = [] {
    std::vector<PythonLayerDef> all = PythonLayerRows();
    std::ranges::sort(all, {}, [](const PythonLayerDef& def) { return NameOf(def); });
    return all;
  }();
  return layers;
}

int64_t StreamOf(const LayerBuilder& l) {
  return static_cast<int64_t>(StableHash(l.param().name()) & ((uint64_t{1} << 40U) - 1));
}

LayerDef PythonLayer() {
  return {.type = "Python",
          .doc = Doc(),
          .min_bottoms = 0,
          .max_bottoms = -1,
          .min_tops = 0,
          .max_tops = -1,
          .build = BuildPython,
          .page = {
              .params = {"python_param"},
              .formula = "That of the built-in layer which `python_param.module` and `layer` name; `param_str` is "
                         "parsed as YAML or a Python dictionary, keys that no layer asks for are allowed, and no "
                         "Python runs. The example's `pyloss.EuclideanLossLayer` gives `sum((a - b)^2) / (2 N)`, of "
                         "shape `[1]`, for bottoms of N items; a loss only with `loss_weight`.",
              .gradient = "That of the named layer. `pyloss.EuclideanLossLayer`: `da = (a - b) / N`, `db = (b - a) / "
                          "N`, times the weight. Layers of data and of targets give none.",
              .source = "BVLC Caffe's python_layer, with the Python classes of pycaffe's examples, py-faster-rcnn, "
                        "R-FCN, MNC, FCN, LRCN and DetectNet nets built in, and those of OHEM, R-C3D, MTCNN, "
                        "AffordanceNet, densecap, mtnet, pycaffe-yolo, caffe-face-attributes and Synopsys's Caffe. Any "
                        "other module or class is an error.",
              .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "loss"
  type: "Python"
  bottom: "a"
  bottom: "b"
  top: "loss"
  python_param { module: "pyloss" layer: "EuclideanLossLayer" }
  loss_weight: 1
})"}};
}

}  // namespace moka
