// Binary messages from untrusted files: the whole structure is checked before protobuf allocates anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/moka.pb.h"

namespace moka {

constexpr int64_t kWireLimitBytes = (int64_t{1} << 31) - 1;  // protobuf's own limit
constexpr int kWireDepthLimit = 64;
constexpr int64_t kWireMessageLimit = 1 << 20;         // messages and texts in one file
constexpr int64_t kWireFieldLimit = int64_t{1} << 24;  // fields in one file; a packed list is one

// Parses `bytes` into `message`; returns how many fields the schema does not have (they are skipped and dropped).
// Errors: kBadData naming the file, what it is if it is of another kind than `expected` ("a .caffemodel"), or the byte
// offset: cut short (with byte counts), zero-filled tail, wrong wire type, too deep, too many fields.
int64_t ParseWire(std::string_view bytes, const std::string& file, std::string_view expected,
                  google::protobuf::Message& message);

// The bytes of a message, the same for the same content. Errors: kBadData over 2 GiB.
std::string WireBytes(const google::protobuf::Message& message);

}  // namespace moka
