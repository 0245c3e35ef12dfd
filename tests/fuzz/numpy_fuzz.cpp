// NumPy's arrays: one (.npy), or a zip of them (.npz).
#include "proto/weights/npz.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_file.h"

namespace moka {
namespace {

void CheckArray(const NumpyArray& array) {
  Require(array.shape.Count() == static_cast<int64_t>(array.values.size()), "values fill their shape");
}

}  // namespace

FuzzTarget NumpyFuzz() {
  return {"numpy", [](std::string_view bytes) {
            if (!bytes.starts_with("PK")) return CheckArray(ParseNpy(bytes, "x.npy"));
            static InputFile file("x.npz");
            for (const auto& [name, array] : ReadNpz(file.Write(bytes))) CheckArray(array);
          }};
}

}  // namespace moka
