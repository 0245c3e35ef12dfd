// oneDNN and CUDA are asked for their versions as they are loaded; the checksum is of the running file, so that equal
// builds on two hosts are equal here.
#include "tools/cli/version.h"

#include <dnnl.h>
#include <google/protobuf/stubs/common.h>
#include <lmdb.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <opencv2/core/version.hpp>
#include <utility>
#include <vector>

#include "core/checksum.h"
#include "core/device/device.h"
#include "core/file.h"
#include "core/text.h"

namespace moka {

std::vector<std::pair<std::string, std::string>> VersionParts() {
  const dnnl_version_t* dnnl = dnnl_version();
  const std::string cuda = CudaRuntime();
  return {{"moka", std::string(Version())},
          {"compiler", __VERSION__},
          {"oneDNN", StrCat(dnnl->major, ".", dnnl->minor, ".", dnnl->patch)},
          {"protobuf", StrCat(GOOGLE_PROTOBUF_VERSION / 1000000, ".", GOOGLE_PROTOBUF_VERSION / 1000 % 1000, ".",
                              GOOGLE_PROTOBUF_VERSION % 1000)},
          {"lmdb", StrCat(MDB_VERSION_MAJOR, ".", MDB_VERSION_MINOR, ".", MDB_VERSION_PATCH)},
          {"opencv", CV_VERSION},
          {"cuda", cuda.empty() ? "not built in" : cuda}};
}

std::string_view Version() { return MOKA_VERSION; }

std::string VersionText() {
  std::string text;
  for (const auto& [name, version] : VersionParts()) text += StrCat(name, " ", version, "\n");
  return text;
}

std::string BuildChecksum() {
  std::array<char, 24> text{};
  const auto hash = static_cast<unsigned long long>(Hash64(ReadFile("/proc/self/exe", INT64_MAX)));
  std::snprintf(text.data(), text.size(), "%016llx", hash);
  return text.data();
}

std::string VersionJson() {
  nlohmann::ordered_json json;
  for (const auto& [name, version] : VersionParts()) json[name] = version;
  json["build"] = BuildChecksum();
  return json.dump();
}

}  // namespace moka
