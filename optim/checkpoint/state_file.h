// The container of a checkpoint's solver state: named sections, each with its length and CRC-32C, and a checksum of the
// whole at the end, so that every cut, flipped or zeroed byte is found and named.
//
//   file    := "MOKASTAT" version:u32 section* end
//   section := name_bytes:u32 (>= 1) name body_bytes:u64 crc32c(of the three before):u32 body crc32c(body):u32
//   end     := 0:u32 sections:u64 crc32c(of all before):u32
//
// Numbers are little-endian.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "core/types.h"

namespace moka {

// Writes sections into a file that its owner commits. Errors: those of AtomicFile.
class StateWriter {
 public:
  explicit StateWriter(AtomicFile& file);
  // Requires: a name of 1 to kStateNameLimit bytes, none twice.
  void AddSection(std::string_view name, std::string_view body);
  // A tensor's section: rank:u32 dimension:i64... float32 values row-major.
  void AddTensor(std::string_view name, const Shape& shape, std::span<const float> values);
  void Finish();

 private:
  AtomicFile& file_;
  uint64_t sections_ = 0;
};

inline constexpr size_t kStateNameLimit = 4096;

struct StateSection {
  std::string name;
  std::string_view body;  // into the bytes given to ReadState
};

// Checks everything. Errors: kBadData naming the file and the section or part that is damaged, with the byte offset.
std::vector<StateSection> ReadState(std::string_view bytes, const std::string& file);

struct StateTensor {
  Shape shape;
  std::vector<float> values;
};
// The body of a tensor's section. Errors: kBadData naming file and section.
StateTensor TensorOf(const StateSection& section, const std::string& file);

}  // namespace moka
