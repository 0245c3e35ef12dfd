// NumPy's arrays: one (.npy), or a zip of them (.npz).
#include "proto/weights/npz.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/one_input.h"

namespace moka {
namespace {

void CheckArray(const NumpyArray& array) {
  Require(array.shape.Count() == static_cast<int64_t>(array.values.size()), "values fill their shape");
}

}  // namespace
}  // namespace moka

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view bytes) {
    if (!bytes.starts_with("PK")) return moka::CheckArray(moka::ParseNpy(bytes, "x.npy"));
    static moka::InputFile file("x.npz");
    for (const auto& [name, array] : moka::ReadNpz(file.Write(bytes))) moka::CheckArray(array);
  });
}
