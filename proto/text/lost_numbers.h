// Numbers of a prototxt that no float32 holds: not 0 as written, and 0 once they are read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Descriptor;
}

namespace moka {

struct LostNumber {
  size_t offset = 0;  // bytes
  std::string_view word;
};

// The numbers of float fields that are nearer to 0 than to the least float32 above it ("weight_decay: 1e-60"), the
// first of them if they are many. `text` parses as a message of the type `root`.
std::vector<LostNumber> LostNumbers(std::string_view text, const google::protobuf::Descriptor* root);

// The fault of one of them, and what to write in its place.
std::string LostNumberText(std::string_view word);
std::string LostNumberHint();

}  // namespace moka
