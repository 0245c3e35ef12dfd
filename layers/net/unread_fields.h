// Finds the fields of a net that have no effect here: a parameter message of another layer's type, a field that this
// layer passes over, what forks do and Moka does not. All of it is said, with its place, before a net is used.
#pragma once

#include <string>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

struct UnreadFields {
  std::string owner;  // a message's name ("ConvolutionParameter"), or a layer's type
  std::string param;  // of a layer's type: the field of LayerParameter
  std::vector<std::string> fields;
  // Whether the fork that has the fields makes another result by them (a crop, noise, a file), which Moka does not;
  // others are leftovers (engines, caches, pictures on a screen) that change nothing anywhere.
  bool has_effect = false;
};

// Fields of messages that no layer and no reader of data asks for, sorted by message.
const std::vector<UnreadFields>& FieldsNothingReads();
// Fields that others read, and layers of these types do not.
const std::vector<UnreadFields>& FieldsLayersDoNotRead();

// Whether the tables have a field of the message at `path` ("convolution_param") of a layer of the type.
bool IsNeverRead(const std::string& type, const std::string& path, const google::protobuf::Message& message,
                 const google::protobuf::FieldDescriptor& field);

// A sentence for each kind of field that is set and not read, at its first place, with how many layers have it.
std::vector<std::string> UnreadNetFields(const NetParameter& net);

// Errors: kConfig at the first number of a layer's messages that is NaN.
void CheckNetNumbers(const NetParameter& net);

}  // namespace moka
