// Arrays in NumPy's files: .npz (a zip of .npy members) and single .npy.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "proto/weights/named_blob.h"

namespace moka {

struct NumpyArray {
  Shape shape;
  std::vector<float> values;  // row-major, of float16, float32, float64, booleans or integers (wide_numbers.h)
};

// Reads the arrays by member name without ".npy"; members of text or Python objects and counters of
// PyTorch (IsTorchCounter in blob_name.h) are left out. Errors: kNoInput;
// kBadData naming the member and what is wrong (Fortran order, a type that is no number, a whole number that no float
// holds, a size that does not fit its bytes, a checksum that is another, a name that stands twice).
std::map<std::string, NumpyArray> ReadNpz(const std::filesystem::path& path);
std::map<std::string, NumpyArray> NpzFromBytes(std::string_view bytes, const std::string& file);
// The content of one .npy; `what` names it in errors.
NumpyArray ParseNpy(std::string_view bytes, const std::string& what);

// Writes a blob as the array "LAYER/INDEX" of float32, row-major, members one after another without compression: the
// file's bytes follow from the blobs alone. Errors: kCantCreate, kIo; kBadData for two blobs of one name, or none.
void WriteNpz(const std::filesystem::path& path, std::span<const NamedBlob> blobs);

}  // namespace moka
