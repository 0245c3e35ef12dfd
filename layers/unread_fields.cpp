#include "layers/unread_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "layers/layer.h"
#include "proto/places.h"

namespace moka {
namespace {

using Field = google::protobuf::FieldDescriptor;
using google::protobuf::Message;

using FieldSet = std::set<std::pair<std::string, std::string>>;  // owner or "type param", field

const FieldSet& NeverRead() {
  static const FieldSet kSet = [] {
    FieldSet set;
    for (const UnreadFields& row : FieldsNothingReads()) {
      for (const std::string& field : row.fields) set.emplace(row.owner, field);
    }
    for (const UnreadFields& row : FieldsLayersDoNotRead()) {
      for (const std::string& field : row.fields) set.emplace(row.owner + " " + row.param, field);
    }
    return set;
  }();
  return kSet;
}

// Fields that are given a value other than the default, which says what is so without them.
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

bool IsOfLayers(const Field& field) { return field.message_type() != nullptr && field.name().ends_with("_param"); }

// The types that read a parameter message, the first few.
std::string ReadersOf(const std::string& param) {
  constexpr size_t kShown = 4;
  std::vector<std::string> types;
  for (const LayerDef& def : AllLayers()) {
    if (std::ranges::find(def.page.params, param) != def.page.params.end()) types.push_back(def.type);
  }
  if (types.empty()) return "no layer reads it";
  const size_t more = types.size() > kShown ? types.size() - kShown : 0;
  types.resize(types.size() - more);
  return StrCat("what reads it: ", Join(types, ", "), more > 0 ? StrCat(" and ", more, " more") : "");
}

// Sentences by kind, so that a hundred convolutions with an engine are one.
class Sentences {
 public:
  void Add(const LayerParameter& layer, const std::string& path, const std::string& why) {
    Kind& kind = kinds_[layer.type() + " " + path];
    if (++kind.count > 1) return;
    kind.text = StrCat(PlaceOf(layer, path).ToString(), ": ", path, " of layer \"", Printable(layer.name()), "\" (",
                       layer.type(), ") ", why);
    order_.push_back(&kind);
  }
  void AddOfNet(const NetParameter& net, const std::string& field, const std::string& why) {
    order_.push_back(&(kinds_[" " + field] = {StrCat(PlaceOf(net, field).ToString(), ": ", field, " ", why), 1}));
  }
  std::vector<std::string> Take() const {
    std::vector<std::string> sentences;
    for (const Kind* kind : order_) {
      const std::string more = kind->count < 2 ? "" : StrCat(", as in ", kind->count - 1, " more");
      sentences.push_back(kind->text + more);
    }
    return sentences;
  }

 private:
  struct Kind {
    std::string text;
    int count = 0;
  };
  std::map<std::string, Kind> kinds_;
  std::vector<const Kind*> order_;
};

constexpr const char* kIgnored = "is read and ignored: it changes nothing here";

void LookInto(const Message& message, const std::string& path, const LayerParameter& layer, Sentences& sentences) {
  const std::string& owner = message.GetDescriptor()->name();
  for (const Field* field : GivenFields(message)) {
    const std::string here = StrCat(path, ".", field->name());
    if (NeverRead().contains({owner, field->name()})) {
      sentences.Add(layer, here, kIgnored);
    } else if (NeverRead().contains({layer.type() + " " + path, field->name()})) {
      sentences.Add(layer, here, StrCat("is not read by layers of this type"));
    } else if (field->message_type() != nullptr && !field->is_repeated()) {
      LookInto(message.GetReflection()->GetMessage(message, field), here, layer, sentences);
    }
  }
}

// How pictures become an input is said where the input stands, and read by `moka infer`.
bool SaysHowPicturesComeIn(const LayerParameter& layer, const Field& field) {
  return layer.type() == "Input" && (field.name() == "transform_param" || field.name() == "record_data_param");
}

void LookAtLayer(const LayerParameter& layer, const LayerDef& def, Sentences& sentences) {
  for (const Field* field : GivenFields(layer)) {
    const bool is_read = SaysHowPicturesComeIn(layer, *field) ||
                         std::ranges::find(def.page.params, field->name()) != def.page.params.end();
    if (IsOfLayers(*field) && !is_read) {
      sentences.Add(layer, field->name(), StrCat("is not read by this type; ", ReadersOf(field->name())));
    } else if (NeverRead().contains({"LayerParameter", field->name()})) {
      sentences.Add(layer, field->name(), kIgnored);
    } else if (IsOfLayers(*field) && !field->is_repeated()) {
      LookInto(layer.GetReflection()->GetMessage(layer, field), field->name(), layer, sentences);
    }
  }
}

// The path of the first float that is NaN; empty if there is none.
std::string NanIn(const Message& message) {
  std::vector<const Field*> given;
  const auto& reflection = *message.GetReflection();
  reflection.ListFields(message, &given);
  for (const Field* field : given) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string here = field->is_repeated() ? StrCat(field->name(), "[", i, "]") : field->name();
      if (field->cpp_type() == Field::CPPTYPE_FLOAT) {
        const float value =
            field->is_repeated() ? reflection.GetRepeatedFloat(message, field, i) : reflection.GetFloat(message, field);
        if (std::isnan(value)) return here;
      }
      if (field->message_type() == nullptr || field->message_type() == BlobProto::descriptor()) break;
      if (field->message_type() == Origin::descriptor()) break;
      const std::string inner = NanIn(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                           : reflection.GetMessage(message, field));
      if (!inner.empty()) return StrCat(here, ".", inner);
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> UnreadNetFields(const NetParameter& net) {
  Sentences sentences;
  if (net.debug_info()) {
    sentences.AddOfNet(net, "debug_info",
                       "changes nothing here: a value that is not finite is found and named without it");
  }
  for (const Field* field : GivenFields(net)) {
    if (NeverRead().contains({"NetParameter", field->name()})) sentences.AddOfNet(net, field->name(), kIgnored);
  }
  for (const LayerParameter& layer : net.layer()) {
    const LayerDef* def = FindLayer(layer.type());
    if (def != nullptr) LookAtLayer(layer, *def, sentences);
  }
  return sentences.Take();
}

void CheckNetNumbers(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    for (const Field* field : GivenFields(layer)) {
      if (!IsOfLayers(*field) || field->is_repeated()) continue;
      const std::string inner = NanIn(layer.GetReflection()->GetMessage(layer, field));
      if (inner.empty()) continue;
      const std::string path = StrCat(field->name(), ".", inner);
      throw ErrorAt(layer, path, StrCat("layer \"", layer.name(), "\": ", path, " must be a finite number, found nan"));
    }
  }
}

}  // namespace moka
