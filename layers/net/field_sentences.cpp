// Collects sentences about given fields, layer by layer, in the order of the net.
#include "layers/net/field_sentences.h"

#include <google/protobuf/text_format.h>

#include <memory>

#include "core/text.h"
#include "proto/text/places.h"

namespace moka {

using Field = google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::vector<const Field*> GivenFields(const Message& message) {
  std::vector<const Field*> given;
  message.GetReflection()->ListFields(message, &given);
  const std::unique_ptr<Message> plain(message.New());
  std::erase_if(given, [&](const Field* field) {
    if (field->name() == "origin") return true;
    if (field->is_repeated() || field->message_type() != nullptr) return false;
    std::string text;
    google::protobuf::TextFormat::PrintFieldValueToString(message, field, -1, &text);
    std::string usual;
    google::protobuf::TextFormat::PrintFieldValueToString(*plain, field, -1, &usual);
    return text == usual;
  });
  return given;
}

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
