#include "layers/net/field_variants.h"

#include "proto/moka.pb.h"

namespace moka {

using Field = google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::vector<std::unique_ptr<Message>> FieldVariants(const Message& message, const Field& field) {
  std::vector<std::unique_ptr<Message>> variants;
  const auto& reflection = *message.GetReflection();
  const auto add = [&](const auto& set) {
    std::unique_ptr<Message> copy(message.New());
    copy->CopyFrom(message);
    set(*copy);
    variants.push_back(std::move(copy));
  };
  switch (field.cpp_type()) {
    case Field::CPPTYPE_BOOL:
      for (const bool value : {false, true}) {
        add([&](Message& m) {
          field.is_repeated() ? reflection.AddBool(&m, &field, value) : reflection.SetBool(&m, &field, value);
        });
      }
      break;
    case Field::CPPTYPE_INT32:
    case Field::CPPTYPE_UINT32:
    case Field::CPPTYPE_INT64:
    case Field::CPPTYPE_UINT64:
      for (const int value : {0, 1, 2, 3, 5, 8, 64, 1000, -1}) {
        if (value < 0 && (field.cpp_type() == Field::CPPTYPE_UINT32 || field.cpp_type() == Field::CPPTYPE_UINT64))
          continue;
        for (const bool clears : {false, true}) {
          if (clears && !field.is_repeated()) continue;
          add([&](Message& m) {
            if (clears) reflection.ClearField(&m, &field);
            const bool many = field.is_repeated();
            const auto u = static_cast<uint32_t>(value);
            switch (field.cpp_type()) {
              case Field::CPPTYPE_INT32:
                many ? reflection.AddInt32(&m, &field, value) : reflection.SetInt32(&m, &field, value);
                break;
              case Field::CPPTYPE_UINT32:
                many ? reflection.AddUInt32(&m, &field, u) : reflection.SetUInt32(&m, &field, u);
                break;
              case Field::CPPTYPE_INT64:
                many ? reflection.AddInt64(&m, &field, value) : reflection.SetInt64(&m, &field, value);
                break;
              default: many ? reflection.AddUInt64(&m, &field, u) : reflection.SetUInt64(&m, &field, u);
            }
          });
        }
      }
      break;
    case Field::CPPTYPE_FLOAT:
    case Field::CPPTYPE_DOUBLE:
      for (const float value : {0.0F, 0.25F, 0.75F, 1.0F, 3.0F, -2.0F}) {
        for (const bool clears : {false, true}) {
          if (clears && !field.is_repeated()) continue;
          add([&](Message& m) {
            if (clears) reflection.ClearField(&m, &field);
            const bool many = field.is_repeated();
            if (field.cpp_type() == Field::CPPTYPE_FLOAT) {
              many ? reflection.AddFloat(&m, &field, value) : reflection.SetFloat(&m, &field, value);
            } else {
              many ? reflection.AddDouble(&m, &field, value) : reflection.SetDouble(&m, &field, value);
            }
          });
        }
      }
      break;
    case Field::CPPTYPE_ENUM:
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        add([&](Message& m) {
          field.is_repeated() ? reflection.AddEnum(&m, &field, field.enum_type()->value(i))
                              : reflection.SetEnum(&m, &field, field.enum_type()->value(i));
        });
      }
      break;
    case Field::CPPTYPE_STRING:
      for (const char* value : {"", "other", "1,2"}) {
        add([&](Message& m) {
          field.is_repeated() ? reflection.AddString(&m, &field, value) : reflection.SetString(&m, &field, value);
        });
      }
      break;
    case Field::CPPTYPE_MESSAGE: {
      add([&](Message& m) {
        Message& inner =
            field.is_repeated() ? *reflection.AddMessage(&m, &field) : *reflection.MutableMessage(&m, &field);
        if (auto* filler = dynamic_cast<FillerParameter*>(&inner)) {
          filler->set_type("constant");
          filler->set_value(0.625F);
        }
      });
      break;
    }
  }
  return variants;
}

}  // namespace moka
