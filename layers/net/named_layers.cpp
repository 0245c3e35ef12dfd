// A layer without a name gets its type's, and one whose name is taken a number behind "#"; both are told.
#include "layers/net/named_layers.h"

#include <map>
#include <set>

#include "core/text.h"
#include "proto/text/places.h"

namespace moka {

std::vector<std::string> NameLayers(NetParameter& net) {
  std::vector<std::string> sentences;
  std::map<std::string, const LayerParameter*> first;
  std::map<std::string, int> uses;  // of a base name so far, so that many layers of one name take no longer than few
  for (LayerParameter& layer : *net.mutable_layer()) {
    const std::string old = layer.name();
    if (!old.empty() && first.emplace(old, &layer).second) continue;
    const std::string base = old.empty() ? layer.type() : old;
    int& count = uses[base];
    std::string name = base;
    while (first.contains(name)) name = StrCat(base, "#", 1 + ++count);
    sentences.push_back(
        Printable(old.empty() ? StrCat(PlaceOf(layer).ToString(), ": a layer of type \"", layer.type(),
                                       "\" has no name; it is \"", name, "\" here")
                              : StrCat(PlaceOf(layer, "name").ToString(), ": the name \"", old, "\" is taken by the ",
                                       Located(*first[old]), "; this layer is \"", name, "\" here")));
    layer.set_name(name);
    first.emplace(name, &layer);
  }
  return sentences;
}

}  // namespace moka
