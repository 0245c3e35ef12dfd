// The manual in the schema: the comments of the .proto files, by message and field.
#pragma once

#include <string>

namespace google::protobuf {
class Descriptor;
class FieldDescriptor;
}  // namespace google::protobuf

namespace moka {

// The comment above the field and the one behind it, as one text without line breaks; empty if it has none.
std::string CommentOf(const google::protobuf::FieldDescriptor& field);
// The comment above the message.
std::string CommentOf(const google::protobuf::Descriptor& message);

// A field's default as it would be written: `5`, `MAX`, `"L2"`; empty if it has none.
std::string DefaultOf(const google::protobuf::FieldDescriptor& field);

}  // namespace moka
