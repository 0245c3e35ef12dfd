// Other values for a field, to see what it changes.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <memory>
#include <vector>

namespace moka {

// The message with values that a field of the kind may have in its place (of a list also behind those that are there),
// one message each; a filler becomes a constant.
std::vector<std::unique_ptr<google::protobuf::Message>> FieldVariants(const google::protobuf::Message& message,
                                                                      const google::protobuf::FieldDescriptor& field);

}  // namespace moka
