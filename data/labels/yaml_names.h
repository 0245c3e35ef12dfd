// The names of classes in the YAML that goes with YOLO's data sets.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moka {

// Whether a file is called so: ".yaml" or ".yml".
bool IsYamlName(const std::filesystem::path& file);
// The classes of YOLO's data.yaml: "names: [a, b]", or a line each below "names:", "- a" or "0: a". Empty where there
// is no list of names. Errors: those of ReadListText; kBadData for numbers that do not count from 0, and quotes that do
// not end.
std::vector<std::string> NamesInYaml(const std::filesystem::path& file);

}  // namespace moka
