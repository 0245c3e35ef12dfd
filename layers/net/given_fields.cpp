// A field's text beside that of the same field in a message that was not filled in.
#include "layers/net/given_fields.h"

#include <google/protobuf/text_format.h>

#include <memory>
#include <string>

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

}  // namespace moka
