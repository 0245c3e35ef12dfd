// Compares the four fields where a net gives them in both places, as text, since their messages differ.
#include "proto/upgrade/moved_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "core/error.h"
#include "core/text.h"
#include "proto/text/places.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The value as text; empty where the message lacks the field.
std::string GivenText(const Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  std::string text;
  if (field == nullptr || !message.GetReflection()->HasField(message, field)) return text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, -1, &text);
  return text;
}

}  // namespace

void RequireSameTransform(const Origin& origin, const std::string& layer, const std::string& param, const Message& old,
                          const TransformationParameter& transform) {
  for (const char* field : {"scale", "mean_file", "crop_size", "mirror"}) {
    const std::string before = GivenText(old, field);
    const std::string now = GivenText(transform, field);
    if (before.empty() || now.empty() || before == now) continue;
    throw Error(ErrorKind::kConfig, PlaceOf(origin, StrCat(param, ".", field)),
                Printable(StrCat("layer \"", layer, "\": ", param, ".", field, " is ", before, " and transform_param.",
                                 field, " is ", now, ", and the two are one thing")),
                "keep transform_param's: it is the newer name");
  }
}

}  // namespace moka
