// Fields that a message of a net gives.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <vector>

namespace moka {

// Fields that are given a value other than the default, which says what is so without them.
std::vector<const google::protobuf::FieldDescriptor*> GivenFields(const google::protobuf::Message& message);

}  // namespace moka
