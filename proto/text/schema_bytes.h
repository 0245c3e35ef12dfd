// The .proto files as a FileDescriptorSet with their comments, written into the library by the build
// (proto/CMakeLists.txt). For schema.cpp only.
#pragma once

#include <string_view>

namespace moka {

std::string_view SchemaBytes();

}  // namespace moka
