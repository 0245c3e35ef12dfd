// Remarks on one record. Each has a kind, so that whoever sorts them need not read their words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moka {

struct RecordWarning {
  enum class Kind : uint8_t {
    kAnnotation,  // it is taken in another way than it may be meant
    kBox,         // a box reaches outside its picture, or has no area there
  };
  std::string text;
  Kind kind = Kind::kAnnotation;
};
using RecordWarnings = std::vector<RecordWarning>;

}  // namespace moka
