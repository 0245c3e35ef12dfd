// MATLAB's files of version 5 (R8 to R2018, without HDF5) as far as lists of numbers and texts need them: matrices of
// numbers, texts and structures, compressed or not, little endian. "MAT-File Format", The MathWorks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// A variable, or a cell of a structure.
struct MatValue {
  std::string name;                 // of a variable
  std::string text;                 // of a matrix of characters
  std::vector<double> numbers;      // of any matrix of numbers, column by column
  std::vector<std::string> fields;  // of a structure
  std::vector<MatValue> cells;      // its values: field by field of its first element, then of the next
  int64_t elements() const { return fields.empty() ? 0 : static_cast<int64_t>(cells.size() / fields.size()); }
  // A field's value of an element. Errors: kBadData naming the field where there is none.
  const MatValue& At(int64_t element, std::string_view field) const;
};

// Errors: kBadData naming `file`, for what is damaged, of another version or kind, unpacks to more than 64 MiB, or has
// values that take more than 128 MiB.
std::vector<MatValue> ReadMatFile(std::string_view bytes, const std::string& file);

}  // namespace moka
