// Goes over the given fields by reflection, asks each layer type's row what it reads, and takes the reasons for fields
// that nothing reads from one table.
#include "layers/net/unread_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "core/text_table.h"
#include "layers/net/field_sentences.h"
#include "layers/net/given_fields.h"
#include "layers/net/layer.h"
#include "proto/nets/filler.h"
#include "proto/text/places.h"

namespace moka {
namespace {

using Field = google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The fields that nothing here reads, and why.
class NeverReadFields {
 public:
  NeverReadFields() {
    for (const UnreadFields& row : FieldsNothingReads()) {
      for (const std::string& field : row.fields) acts_elsewhere_.emplace(std::pair(row.owner, field), row.has_effect);
    }
    for (const UnreadFields& row : FieldsLayersDoNotRead()) {
      for (const std::string& field : row.fields)
        acts_elsewhere_.emplace(std::pair(StrCat(row.owner, " ", row.param), field), false);
    }
  }
  // `owner` is a message, or "type param".
  bool Have(const std::string& owner, const std::string& field) const {
    return acts_elsewhere_.contains(std::pair(owner, field));
  }
  // Whether the field's fork makes something else by it.
  bool ActsElsewhere(const std::string& owner, const std::string& field) const {
    const auto found = acts_elsewhere_.find(std::pair(owner, field));
    return found != acts_elsewhere_.end() && found->second;
  }

 private:
  std::map<std::pair<std::string, std::string>, bool> acts_elsewhere_;
};

const NeverReadFields& NeverRead() {
  static const NeverReadFields kFields;
  return kFields;
}

bool IsOfLayers(const Field& field) { return field.message_type() != nullptr && field.name().ends_with("_param"); }

// A layer's text gives numbers in its own messages, and in how its weights learn.
bool HasNumbers(const Field& field) { return IsOfLayers(field) || field.message_type() == ParamSpec::descriptor(); }

// The types that read a parameter message, the first few.
std::string ReadersOf(const std::string& param) {
  constexpr size_t kShown = 4;
  std::vector<std::string> types;
  for (const LayerDef& def : AllLayers()) {
    if (std::ranges::find(def.params, param) != def.params.end()) types.push_back(def.type);
  }
  if (types.empty()) return "no layer reads it";
  return StrCat("what reads it: ", SomeOf(std::move(types), kShown));
}

// Whether a message that is given asks for nothing all the same.
bool IsOff(const Message& message) {
  if (const auto* noise = dynamic_cast<const SaltPepperParameter*>(&message)) return noise->fraction() == 0;
  const auto* generator = dynamic_cast<const RandomGeneratorParameter*>(&message);
  return generator != nullptr && generator->prob() == 0;
}

// Returns the sentence about a field of the first table that has another value than its default.
std::string WhyIgnored(const Message& message, const Field& field) {
  const bool is_off = field.message_type() != nullptr && !field.is_repeated() &&
                      IsOff(message.GetReflection()->GetMessage(message, &field));
  if (is_off || !NeverRead().ActsElsewhere(message.GetDescriptor()->name(), field.name()))
    return "is read and ignored: it changes nothing here";
  return "is not done by Moka: the fork of Caffe that has this field acts on it, and results differ from that fork's";
}

// A filler without a type is refused where its blob is made.
void LookIntoFillers(const Message& message, const Field& field, const std::string& path, const LayerParameter& layer,
                     Sentences& sentences) {
  const auto& reflection = *message.GetReflection();
  const int count = field.is_repeated() ? reflection.FieldSize(message, &field) : 1;
  for (int i = 0; i < count; ++i) {
    const Message& at = field.is_repeated() ? reflection.GetRepeatedMessage(message, &field, i)
                                            : reflection.GetMessage(message, &field);
    const auto& filler = dynamic_cast<const FillerParameter&>(at);
    if (!filler.has_type()) continue;
    for (const UnreadFillerField& unread : UnreadFieldsOf(filler)) {
      sentences.Add(layer, StrCat(path, field.is_repeated() ? StrCat("[", i, "]") : "", ".", unread.name),
                    StrCat("changes nothing: fillers of type ", Printable(filler.type()), " do not read it",
                           unread.readers.empty() ? "" : StrCat(", those of type ", unread.readers, " do")));
    }
  }
}

// Calls visit(message, path) for a field's message, or for each of several.
template <class Visit>
void VisitMessages(const Message& message, const Field& field, const std::string& path, Visit&& visit) {
  const auto& reflection = *message.GetReflection();
  if (!field.is_repeated()) return visit(reflection.GetMessage(message, &field), path);
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i)
    visit(reflection.GetRepeatedMessage(message, &field, i), StrCat(path, "[", i, "]"));
}

// "resize_param" of "resize_param[1]".
std::string WithoutIndex(const std::string& path) { return path.substr(0, path.find('[')); }

void LookInto(const Message& message, const std::string& path, const LayerParameter& layer, Sentences& sentences) {
  const std::string& owner = message.GetDescriptor()->name();
  for (const Field* field : GivenFields(message)) {
    const std::string here = StrCat(path, ".", field->name());
    if (NeverRead().Have(owner, field->name())) {
      sentences.Add(layer, here, WhyIgnored(message, *field));
    } else if (NeverRead().Have(layer.type() + " " + WithoutIndex(path), field->name())) {
      sentences.Add(layer, here, StrCat("is not read by layers of this type"));
    } else if (field->message_type() == FillerParameter::descriptor()) {
      LookIntoFillers(message, *field, here, layer, sentences);
    } else if (field->message_type() != nullptr) {
      VisitMessages(message, *field, here,
                    [&](const Message& at, const std::string& place) { LookInto(at, place, layer, sentences); });
    }
  }
}

// How images become an input is said where the input stands, and read by `moka infer`.
bool SaysHowPicturesComeIn(const LayerParameter& layer, const Field& field) {
  return layer.type() == "Input" && (field.name() == "transform_param" || field.name() == "record_data_param");
}

void LookAtLayer(const LayerParameter& layer, const LayerDef& def, Sentences& sentences) {
  for (const Field* field : GivenFields(layer)) {
    const bool is_read =
        SaysHowPicturesComeIn(layer, *field) || std::ranges::find(def.params, field->name()) != def.params.end();
    const bool has_effect = NeverRead().ActsElsewhere("LayerParameter", field->name());
    if (IsOfLayers(*field) && !is_read && !has_effect) {
      sentences.Add(layer, field->name(), StrCat("is not read by this type; ", ReadersOf(field->name())));
    } else if (NeverRead().Have("LayerParameter", field->name())) {
      sentences.Add(layer, field->name(), WhyIgnored(layer, *field));
    } else if (HasNumbers(*field)) {
      VisitMessages(layer, *field, field->name(),
                    [&](const Message& at, const std::string& place) { LookInto(at, place, layer, sentences); });
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

bool IsNeverRead(const std::string& type, const std::string& path, const Message& message, const Field& field) {
  return NeverRead().Have(message.GetDescriptor()->name(), field.name()) ||
         NeverRead().Have(type + " " + path, field.name());
}

std::vector<std::string> UnreadNetFields(const NetParameter& net) {
  Sentences sentences;
  if (net.debug_info()) {
    sentences.AddOfNet(net, "debug_info",
                       "changes nothing here: a value that is not finite is found and named without it");
  }
  for (const Field* field : GivenFields(net)) {
    if (NeverRead().Have("NetParameter", field->name()))
      sentences.AddOfNet(net, field->name(), WhyIgnored(net, *field));
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
      if (!HasNumbers(*field)) continue;
      VisitMessages(layer, *field, field->name(), [&](const Message& message, const std::string& place) {
        const std::string inner = NanIn(message);
        if (inner.empty()) return;
        const std::string path = StrCat(place, ".", inner);
        throw ErrorAt(layer, path,
                      StrCat("layer \"", layer.name(), "\": ", path, " must be a finite number, found nan"));
      });
    }
  }
}

}  // namespace moka
