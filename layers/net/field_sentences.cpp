// Collects sentences about given fields, layer by layer, in the order of the net.
#include "layers/net/field_sentences.h"

#include "core/text.h"
#include "proto/text/places.h"

namespace moka {

void Sentences::Add(const LayerParameter& layer, const std::string& path, const std::string& why) {
  Kind& kind = kinds_[StrCat(layer.type(), " ", path, " ", why)];
  if (++kind.count > 1) return;
  kind.text = StrCat(PlaceOf(layer, path).ToString(), ": ", path, " of layer \"", Printable(layer.name()), "\" (",
                     layer.type(), ") ", why);
  order_.push_back(&kind);
}

void Sentences::AddOfNet(const NetParameter& net, const std::string& field, const std::string& why) {
  order_.push_back(&(kinds_[" " + field] = {StrCat(PlaceOf(net, field).ToString(), ": ", field, " ", why), 1}));
}

std::vector<std::string> Sentences::Take() const {
  std::vector<std::string> sentences;
  for (const Kind* kind : order_) {
    const std::string more = kind->count < 2 ? "" : StrCat(", as in ", kind->count - 1, " more");
    sentences.push_back(kind->text + more);
  }
  return sentences;
}

}  // namespace moka
