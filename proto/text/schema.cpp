// The descriptors that protoc compiles in have no comments, so a descriptor set with them is embedded in the binary and
// built on first use.
#include "proto/text/schema.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include "core/error.h"
#include "core/text.h"
#include "proto/text/schema_bytes.h"

namespace moka {
namespace {

using google::protobuf::DescriptorPool;

// The compiled-in descriptors have no comments; these have.
const DescriptorPool& Commented() {
  static const DescriptorPool* pool = [] {
    const std::string_view bytes = SchemaBytes();
    google::protobuf::FileDescriptorSet files;
    Require(files.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())), "the embedded schema parses");
    auto* made = new DescriptorPool;  // lives as long as the process
    for (const google::protobuf::FileDescriptorProto& file : files.file()) {
      Require(made->BuildFile(file) != nullptr, "the embedded schema builds");
    }
    return made;
  }();
  return *pool;
}

// Words joined by single blanks.
std::string OneLine(const std::string& text) {
  std::string line;
  for (const std::string& part : Split(text, '\n')) {
    const std::string_view words = Trim(part);
    if (words.empty()) continue;
    line += (line.empty() ? "" : " ") + std::string(words);
  }
  return line;
}

template <class Described>
std::string Comment(const Described* described) {
  google::protobuf::SourceLocation place;
  if (described == nullptr || !described->GetSourceLocation(&place)) return {};
  return OneLine(place.leading_comments + "\n" + place.trailing_comments);
}

}  // namespace

std::string CommentOf(const google::protobuf::FieldDescriptor& field) {
  const auto* message = Commented().FindMessageTypeByName(field.containing_type()->full_name());
  return message == nullptr ? std::string{} : Comment(message->FindFieldByName(field.name()));
}

std::string CommentOf(const google::protobuf::Descriptor& message) {
  return Comment(Commented().FindMessageTypeByName(message.full_name()));
}

std::string DefaultOf(const google::protobuf::FieldDescriptor& field) {
  using google::protobuf::FieldDescriptor;
  if (!field.has_default_value()) return {};
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM: return std::string(field.default_value_enum()->name());
    case FieldDescriptor::CPPTYPE_FLOAT: return StrCat(field.default_value_float());
    case FieldDescriptor::CPPTYPE_DOUBLE: return StrCat(field.default_value_double());
    case FieldDescriptor::CPPTYPE_BOOL: return field.default_value_bool() ? "true" : "false";
    case FieldDescriptor::CPPTYPE_INT32: return StrCat(field.default_value_int32());
    case FieldDescriptor::CPPTYPE_INT64: return StrCat(field.default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT32: return StrCat(field.default_value_uint32());
    case FieldDescriptor::CPPTYPE_UINT64: return StrCat(field.default_value_uint64());
    case FieldDescriptor::CPPTYPE_STRING: return StrCat("\"", field.default_value_string(), "\"");
    case FieldDescriptor::CPPTYPE_MESSAGE: return {};
  }
  return {};
}

}  // namespace moka
