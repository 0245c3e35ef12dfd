// Layer type Python: the module and class are looked up among the built-in ones.
#include "layers/types/python/python.h"

#include <algorithm>
#include <charconv>

#include "core/text.h"
#include "layers/net/fork_types.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "layers/shapes/shape_reader.h"

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
  if (IsWithoutForks()) hint = StrCat(hint, "; ", kWithoutForks);
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

std::string BuiltIns() {
  std::string lines;
  for (const PythonLayerDef& def : AllPythonLayers()) lines += StrCat("\n", NameOf(def), ": ", def.doc);
  return lines;
}

// The bottoms that a loss compares have one shape; a class that picks triplets takes an anchor, a positive and a
// negative at least.
void NeedsOfPython(const ShapeReader& reader) {
  constexpr int64_t kTriplet = 3;
  const LayerParameter& layer = reader.layer();
  if (layer.loss_weight_size() > 0 && layer.bottom_size() == 2) NeedEqualCounts(reader);
  const bool picks_triplets = layer.python_param().layer().starts_with("TripletSelect");
  const Shape* x = reader.bottom(0);
  if (reader.has_failed() && picks_triplets && x != nullptr && x->rank() > 0 && (*x)[0] == 1)
    reader.Rebatch(1, kTriplet);
}

// The whole number that follows a word of the parameters, as in "{'batch_size': 8}"; 0 if none does. A class that is
// not built in may write them as it likes, so they are not parsed.
int64_t NumberAfter(const std::string& text, std::string_view word) {
  size_t at = text.find(word);
  if (at == std::string::npos) return 0;
  at = text.find_first_not_of("'\":= \t", at + word.size());
  int64_t number = 0;
  if (at != std::string::npos) std::from_chars(text.data() + at, text.data() + text.size(), number);
  return std::max<int64_t>(number, 0);
}

// Messages of the layer (transform_param, data_param) go before its parameters.
GuessedTypes GuessPythonData(const LayerParameter& layer) {
  const auto read = [](const LayerParameter& data, DataFields& fields) {
    const std::string& text = data.python_param().param_str();
    const auto take = [&](std::string_view word, int64_t& field) {
      if (field <= 0) field = NumberAfter(text, word);
    };
    if (fields.source.empty()) fields.source = text;
    take("batch_size", fields.batch);
    take("batchsize", fields.batch);
    fields.batch = std::max<int64_t>(fields.batch, 1);
    take("'imh'", fields.new_h);
    take("'imw'", fields.new_w);
  };
  return GuessPictures(layer, {.read = read});
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
          .min_bottoms = 0,
          .max_bottoms = -1,
          .min_tops = 0,
          .max_tops = -1,
          .build = BuildPython,
          .traits = {.runs_python = true},
          .guess = GuessPythonData,
          .needs = NeedsOfPython,
          .params = {"python_param"},
          .page_list = BuiltIns};
}

}  // namespace moka
