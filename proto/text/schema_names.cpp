// Names come from the descriptors, so that a field which is new is known here as well.
#include "proto/text/schema_names.h"

#include <google/protobuf/descriptor.h>

#include "core/text.h"
#include "proto/text/other_words.h"

namespace moka {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

std::string ShortName(const Descriptor& message) { return message.name(); }

std::vector<std::string> FieldNames(const Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) {
    if (message.field(i)->name() != "origin") names.push_back(message.field(i)->name());
  }
  return names;
}

std::vector<std::string> ValueNames(const EnumDescriptor& values) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(values.value_count()));
  for (int i = 0; i < values.value_count(); ++i) names.push_back(values.value(i)->name());
  return names;
}

std::string TakenBy(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return "an integer from -2147483648 to 2147483647";
    case FieldDescriptor::CPPTYPE_UINT32: return "an integer from 0 to 4294967295";
    case FieldDescriptor::CPPTYPE_INT64: return "an integer of 64 bits";
    case FieldDescriptor::CPPTYPE_UINT64: return "a 64-bit integer from 0";
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT: return "a number";
    case FieldDescriptor::CPPTYPE_BOOL: return "true or false";
    case FieldDescriptor::CPPTYPE_STRING: return "a text";
    case FieldDescriptor::CPPTYPE_ENUM: {
      const std::vector<std::string> names = ValueNames(*field.enum_type());
      constexpr size_t kShown = 8;
      if (names.size() > kShown) return StrCat("one of the ", names.size(), " values of ", field.enum_type()->name());
      return "one of " + Join(names, ", ");
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: return StrCat("a block { } of ", ShortName(*field.message_type()));
  }
  return "another type";
}

std::string FieldHint(const Descriptor& message, std::string_view name) {
  if (&message == SolverParameter::descriptor()) {
    const std::string meant = OtherToolsField(name);
    if (!meant.empty()) return meant;
  }
  if (&message == LayerParameter::descriptor()) {
    const std::string now = OlderLayersField(name);
    if (!now.empty()) return now;
  }
  std::string near = DidYouMean(name, FieldNames(message));
  if (!near.empty()) return near;
  constexpr size_t kShown = 3;
  std::vector<std::string> homes;
  for (int i = 0; i < message.field_count() && homes.size() < kShown; ++i) {
    const Descriptor* inner = message.field(i)->message_type();
    if (inner != nullptr && inner->FindFieldByName(std::string(name)) != nullptr) {
      homes.push_back("\"" + message.field(i)->name() + "\"");
    }
  }
  return homes.empty() ? std::string{} : StrCat("it is a field of ", Join(homes, ", "));
}

}  // namespace moka
