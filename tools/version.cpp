#include "tools/version.h"

#include <dnnl.h>
#include <google/protobuf/stubs/common.h>
#include <lmdb.h>

#include <opencv2/core/version.hpp>

#include "core/device.h"
#include "core/text.h"

namespace moka {

std::string_view Version() { return MOKA_VERSION; }

std::string VersionText() {
  const dnnl_version_t* dnnl = dnnl_version();
  const std::string cuda = CudaRuntime();
  return StrCat("moka ", Version(), "\ncompiler ", __VERSION__, "\noneDNN ", dnnl->major, ".", dnnl->minor, ".",
                dnnl->patch, "\nprotobuf ", GOOGLE_PROTOBUF_VERSION / 1000000, ".",
                GOOGLE_PROTOBUF_VERSION / 1000 % 1000, ".", GOOGLE_PROTOBUF_VERSION % 1000, "\nlmdb ",
                MDB_VERSION_MAJOR, ".", MDB_VERSION_MINOR, ".", MDB_VERSION_PATCH, "\nopencv ", CV_VERSION, "\ncuda ",
                cuda.empty() ? "not built in" : cuda, "\n");
}

}  // namespace moka
