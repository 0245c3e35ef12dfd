// An imported net as a folder that the verbs take: deploy.prototxt, weights.safetensors, model.prototxt, labels.txt
// where the file names its classes, and int8.json where it says ranges of 8-bit integers.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tools/exchange/import/onnx_import.h"

namespace moka {

// Ranges for --int8.
inline constexpr const char* kRangesName = "int8.json";

// Refuses a folder that holds something already. Errors: kCantCreate.
void CheckImportFolder(const std::filesystem::path& folder);

// Writes the folder whole or not at all; returns its files. `metadata` is the file's, of which what `moka export`
// writes is read: labels, preprocessing, title, task, paper, licence. A field that is not as it should be is left out
// whole, with a warning: others write metadata of these names too. Errors: kCantCreate, kIo.
std::vector<std::filesystem::path> WriteImported(const std::filesystem::path& folder, const ImportedNet& imported,
                                                 const std::map<std::string, std::string>& metadata,
                                                 const std::string& source);

}  // namespace moka
