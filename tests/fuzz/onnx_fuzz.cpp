// ONNX models: read, checked, turned into layers. Files beside them are looked for in a folder that is empty.
#include <filesystem>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_file.h"
#include "tools/exchange/import/onnx_import.h"

namespace moka {

FuzzTarget OnnxFuzz() {
  return {"onnx", [](std::string_view bytes) {
            static InputFile file("model.onnx");
            const ImportedNet imported = ImportOnnx(OnnxFileFromBytes(bytes, "model.onnx", file.folder()), {});
            for (const NamedBlob& blob : imported.weights) {
              Require(blob.shape.Count() == static_cast<int64_t>(blob.values.size()), "values fill their shape");
            }
          }};
}

}  // namespace moka
