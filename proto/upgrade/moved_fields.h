// Fields of data layers that Caffe moved into transform_param: scale, mean_file, crop_size and mirror.
#pragma once

#include <string>

#include "proto/moka.pb.h"

namespace moka {

// Requires each moved field that both messages have to say one thing. `old` is the layer's message called `param`
// ("data_param"). Errors: kConfig at the old field, with both values.
void RequireSameTransform(const Origin& origin, const std::string& layer, const std::string& param,
                          const google::protobuf::Message& old, const TransformationParameter& transform);

}  // namespace moka
