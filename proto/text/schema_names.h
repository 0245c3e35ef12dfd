// The names of the schema's fields and values, and which of these a person may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// "a number", "true or false", "an integer from 0 to 4294967295", "one of MAX, AVE": what a field takes.
std::string TakenBy(const google::protobuf::FieldDescriptor& field);
std::vector<std::string> FieldNames(const google::protobuf::Descriptor& message);
std::vector<std::string> ValueNames(const google::protobuf::EnumDescriptor& values);
// A message's name without the package: "ConvolutionParameter", "SolverParameter".
std::string ShortName(const google::protobuf::Descriptor& message);
// "did you mean ...?" for a name that is no field of the message, or where else a field of that name stands.
std::string FieldHint(const google::protobuf::Descriptor& message, std::string_view name);

}  // namespace moka
