// Copies the parser's tree of places into the `origin` fields of layers, solvers and nets, field by field; later stages
// give errors a line without the text.
#include "proto/text/origins.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <vector>

#include "core/text.h"

namespace moka {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

// Longer lists are known by their first elements, so that a long list of numbers does not cost 100 bytes a number.
constexpr int kListLimit = 256;

const FieldDescriptor* OriginField(const Descriptor* type) {
  const FieldDescriptor* field = type->FindFieldByName("origin");
  return field != nullptr && field->message_type() == Origin::descriptor() ? field : nullptr;
}

class Filler {
 public:
  Filler(const TextPositions& lines, const std::string& file) : lines_(lines), file_(file) {}

  // `scope` is the origin that gets the places, `prefix` the message's path in it ("" or "a.b.").
  void Fill(const TextFormat::ParseInfoTree& tree, const std::string& prefix, Origin* scope, Message& message) const {
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->message_type() == Origin::descriptor()) continue;
      const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
        if (!is_message && i >= kListLimit) break;
        FillElement(tree, prefix, scope, message, *field, i);
      }
    }
  }

 private:
  void FillElement(const TextFormat::ParseInfoTree& tree, const std::string& prefix, Origin* scope, Message& message,
                   const FieldDescriptor& field, int i) const {
    const Reflection& reflection = *message.GetReflection();
    const int index = field.is_repeated() ? i : -1;
    const TextFormat::ParseLocation at = tree.GetLocation(&field, index);
    SourcePlace place{.file = file_};
    if (at.line >= 0) place = lines_.PlaceOf(file_, lines_.OffsetOf(at.line, at.column), field.name().size());
    const std::string path = prefix + field.name() + (field.is_repeated() ? StrCat("[", i, "]") : "");
    Message* child = nullptr;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      child = field.is_repeated() ? reflection.MutableRepeatedMessage(&message, &field, i)
                                  : reflection.MutableMessage(&message, &field);
    }
    Origin* own = child == nullptr ? nullptr : MutableOrigin(*child);
    if (own != nullptr) {
      own->Clear();
      own->set_file(file_);
      own->set_line(place.line);
      own->set_column(place.column);
      own->set_length(place.length);
    } else if (scope != nullptr && at.line >= 0 && (child == nullptr || i < kListLimit)) {
      FieldPlace& entry = *scope->add_field();
      entry.set_path(path);
      entry.set_line(place.line);
      entry.set_column(place.column);
      entry.set_length(place.length);
    }
    if (child == nullptr || (own == nullptr && i >= kListLimit)) return;
    const TextFormat::ParseInfoTree* nested = tree.GetTreeForNested(&field, index);
    if (nested != nullptr) Fill(*nested, own != nullptr ? "" : path + ".", own != nullptr ? own : scope, *child);
  }

  const TextPositions& lines_;
  const std::string& file_;
};

}  // namespace

Origin* MutableOrigin(Message& message) {
  const FieldDescriptor* field = OriginField(message.GetDescriptor());
  if (field == nullptr) return nullptr;
  return google::protobuf::DynamicCastToGenerated<Origin>(message.GetReflection()->MutableMessage(&message, field));
}

const Origin* OriginOf(const Message& message) {
  const FieldDescriptor* field = OriginField(message.GetDescriptor());
  if (field == nullptr) return nullptr;
  return google::protobuf::DynamicCastToGenerated<Origin>(&message.GetReflection()->GetMessage(message, field));
}

void FillOrigins(const TextFormat::ParseInfoTree& tree, const TextPositions& lines, const std::string& file,
                 Message& message) {
  Origin* origin = MutableOrigin(message);
  if (origin != nullptr) {
    origin->Clear();
    origin->set_file(file);
  }
  Filler(lines, file).Fill(tree, "", origin, message);
}

void ClearOrigins(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  if (const FieldDescriptor* own = OriginField(message.GetDescriptor())) reflection.ClearField(&message, own);
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      ClearOrigins(*reflection.MutableMessage(&message, field));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      ClearOrigins(*reflection.MutableRepeatedMessage(&message, field, i));
    }
  }
}

void ForgetField(Origin& origin, std::string_view path) {
  auto& fields = *origin.mutable_field();
  const auto is_part = [&](const FieldPlace& field) {
    const std::string_view other = field.path();
    return other.starts_with(path) &&
           (other.size() == path.size() || other[path.size()] == '.' || other[path.size()] == '[');
  };
  fields.erase(std::remove_if(fields.begin(), fields.end(), is_part), fields.end());
}

}  // namespace moka
