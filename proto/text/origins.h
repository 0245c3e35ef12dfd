// Filling, changing and dropping the `origin` fields of messages.
#pragma once

#include <google/protobuf/text_format.h>

#include <string>
#include <string_view>

#include "core/error.h"
#include "proto/moka.pb.h"
#include "proto/text/text_scan.h"

namespace moka {

// Notes the place of every field of the message, from the tree its parse left.
void FillOrigins(const google::protobuf::TextFormat::ParseInfoTree& tree, const TextPositions& lines,
                 const std::string& file, google::protobuf::Message& message);
// Removes every origin, at any depth.
void ClearOrigins(google::protobuf::Message& message);

// The origin of a message that can have one; null for others.
Origin* MutableOrigin(google::protobuf::Message& message);
const Origin* OriginOf(const google::protobuf::Message& message);
// The origin of the layer the place stands in: the last that begins before it. Null if there is none.
template <class Layers>
Origin* OriginAt(Layers& layers, const SourcePlace& place) {
  Origin* found = nullptr;
  for (auto& layer : layers) {
    const Origin& origin = layer.origin();
    if (origin.line() > place.line || (origin.line() == place.line && origin.column() >= place.column)) continue;
    found = layer.mutable_origin();
  }
  return found;
}
// Forgets the places of the field `path` and of all its parts.
void ForgetField(Origin& origin, std::string_view path);

}  // namespace moka
