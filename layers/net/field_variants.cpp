// Makes, by reflection, a few values for each type of field: the other boolean, every enumerator, numbers beside the
// one given.
#include "layers/net/field_variants.h"

#include "proto/moka.pb.h"

namespace moka {

using Field = google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

// Puts a number into a field of any type that holds numbers.
void PutNumber(Message& message, const Field& field, double value) {
  const auto& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  const auto whole = static_cast<int64_t>(value);
  const auto i = static_cast<int32_t>(whole);
  const auto u = static_cast<uint32_t>(whole);
  const auto f = static_cast<float>(value);
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32:
      return many ? reflection.AddInt32(&message, &field, i) : reflection.SetInt32(&message, &field, i);
    case Field::CPPTYPE_UINT32:
      return many ? reflection.AddUInt32(&message, &field, u) : reflection.SetUInt32(&message, &field, u);
    case Field::CPPTYPE_INT64:
      return many ? reflection.AddInt64(&message, &field, whole) : reflection.SetInt64(&message, &field, whole);
    case Field::CPPTYPE_UINT64:
      return many ? reflection.AddUInt64(&message, &field, u) : reflection.SetUInt64(&message, &field, u);
    case Field::CPPTYPE_FLOAT:
      return many ? reflection.AddFloat(&message, &field, f) : reflection.SetFloat(&message, &field, f);
    default:
      return many ? reflection.AddDouble(&message, &field, value) : reflection.SetDouble(&message, &field, value);
  }
}

std::vector<double> NumbersFor(const Field& field) {
  switch (field.cpp_type()) {
    case Field::CPPTYPE_FLOAT:
    case Field::CPPTYPE_DOUBLE: return {0, 0.25, 0.75, 1, 3, -2};
    case Field::CPPTYPE_UINT32:
    case Field::CPPTYPE_UINT64: return {0, 1, 2, 3, 5, 8, 64, 1000};
    default: return {0, 1, 2, 3, 5, 8, 64, 1000, -1};
  }
}

// A filler of the field becomes a constant.
void PutMessage(Message& message, const Field& field) {
  const auto& reflection = *message.GetReflection();
  Message& inner =
      field.is_repeated() ? *reflection.AddMessage(&message, &field) : *reflection.MutableMessage(&message, &field);
  if (auto* filler = dynamic_cast<FillerParameter*>(&inner)) {
    filler->set_type("constant");
    filler->set_value(0.625F);
  }
}

}  // namespace

std::vector<std::unique_ptr<Message>> FieldVariants(const Message& message, const Field& field) {
  std::vector<std::unique_ptr<Message>> variants;
  const auto& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  const auto add = [&](const auto& set) {
    std::unique_ptr<Message> copy(message.New());
    copy->CopyFrom(message);
    set(*copy);
    variants.push_back(std::move(copy));
  };
  switch (field.cpp_type()) {
    case Field::CPPTYPE_BOOL:
      for (const bool value : {false, true}) {
        add([&](Message& m) { many ? reflection.AddBool(&m, &field, value) : reflection.SetBool(&m, &field, value); });
      }
      break;
    case Field::CPPTYPE_ENUM:
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        const auto* value = field.enum_type()->value(i);
        add([&](Message& m) { many ? reflection.AddEnum(&m, &field, value) : reflection.SetEnum(&m, &field, value); });
      }
      break;
    case Field::CPPTYPE_STRING:
      for (const char* value : {"", "other", "1,2"}) {
        add([&](Message& m) {
          many ? reflection.AddString(&m, &field, value) : reflection.SetString(&m, &field, value);
        });
      }
      break;
    case Field::CPPTYPE_MESSAGE: add([&](Message& m) { PutMessage(m, field); }); break;
    default:
      for (const double value : NumbersFor(field)) {
        add([&](Message& m) { PutNumber(m, field, value); });
        if (!many) continue;
        add([&](Message& m) {  // in place of the list
          reflection.ClearField(&m, &field);
          PutNumber(m, field, value);
        });
      }
  }
  return variants;
}

}  // namespace moka
