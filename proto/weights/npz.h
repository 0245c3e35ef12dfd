// Arrays in NumPy's files: .npz (a zip of .npy members) and single .npy.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace moka {

struct NumpyArray {
  Shape shape;
  std::vector<float> values;  // row-major, of float16, float32, float64, booleans or integers (wide_numbers.h)
};

// Reads the arrays by member name without ".npy"; members of text or Python objects are left out. Errors: kNoInput;
// kBadData naming the member and what is wrong (Fortran order, a type that is no number, a whole number that no float
// holds, a size that does not fit its bytes).
std::map<std::string, NumpyArray> ReadNpz(const std::filesystem::path& path);
// The content of one .npy; `what` names it in errors.
NumpyArray ParseNpy(std::string_view bytes, const std::string& what);

}  // namespace moka
