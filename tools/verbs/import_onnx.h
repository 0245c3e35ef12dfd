// moka import of an ONNX file.
#pragma once

#include "tools/cli/command_line.h"

namespace moka {

// Reads the flags, writes the folder and tells what is in it. Errors: kUsage, those of ReadOnnxFile, ImportOnnx and
// WriteImported.
int ImportOnnxFile(const Arguments& arguments);

}  // namespace moka
