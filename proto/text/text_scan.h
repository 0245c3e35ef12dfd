// A light reading of prototxt for error messages: positions, and which blocks are open at a place. It never fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace moka {

// Converts between byte offsets, protobuf's positions and a person's. The text must outlive it.
class TextPositions {
 public:
  explicit TextPositions(std::string_view text);

  // Offset of protobuf's position: line from 0, column from 0 in bytes with tabs expanded to 8.
  size_t OffsetOf(int line, int column) const;
  // The place of the bytes [offset, offset+length) for a person: counts from 1, columns in characters.
  SourcePlace PlaceOf(const std::string& file, size_t offset, size_t length) const;

 private:
  // Known positions: at each line's start and every kStride bytes, so long lines cost no more than short ones.
  struct Mark {
    size_t offset = 0;
    int32_t line = 0;
    int32_t byte_column = 0;
    int32_t column = 0;
  };
  static constexpr size_t kStride = 256;
  void Advance(Mark& mark) const;

  std::string_view text_;
  std::vector<Mark> marks_;
};

// A block whose "{" was seen and whose "}" was not yet.
struct OpenBlock {
  std::string_view field;  // the name before the brace
  size_t offset = 0;       // of that name
};

struct TextScan {
  std::vector<OpenBlock> open;        // at the asked offset, outermost first
  bool balanced = true;               // every brace of the whole text has its partner
  std::vector<OpenBlock> top_fields;  // the first fields outside all blocks, at most 256
};

TextScan ScanText(std::string_view text, size_t offset);

// The last occurrence of a whole word that ends at or before `offset`; npos if none is within 4096 bytes.
size_t FindWordBefore(std::string_view text, std::string_view word, size_t offset);

}  // namespace moka
