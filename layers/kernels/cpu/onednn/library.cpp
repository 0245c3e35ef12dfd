// Both majors of oneDNN have this alike: statuses, the engine and its stream, sizes and comparisons.
#include "layers/kernels/cpu/onednn/library.h"

#include <dnnl_debug.h>

#include "core/error.h"
#include "core/text.h"

namespace moka::onednn {

// The library's own word for what is rare.
std::string_view StatusText(dnnl_status_t status) {
  switch (status) {
    case dnnl_success: return "success";
    case dnnl_out_of_memory: return "out of memory";
    case dnnl_invalid_arguments: return "invalid arguments";
    case dnnl_unimplemented: return "not implemented for these types";
    case dnnl_runtime_error: return "runtime error";
    case dnnl_not_required: return "not required";
    default: return dnnl_status2str(status);
  }
}

void Check(dnnl_status_t status, std::string_view function) {
  if (status == dnnl_success) return;
  throw Error(ErrorKind::kUnavailable, StrCat("oneDNN: ", function, " failed: ", StatusText(status)));
}

// One engine and one stream for the process, never destroyed.
dnnl_engine_t Engine() {
  static dnnl_engine* const engine = [] {
    dnnl_engine_t made = nullptr;
    Check(dnnl_engine_create(&made, dnnl_cpu, 0), "dnnl_engine_create");
    return made;
  }();
  return engine;
}

dnnl_stream_t Stream() {
  static dnnl_stream* const stream = [] {
    dnnl_stream_t made = nullptr;
    Check(dnnl_stream_create(&made, Engine(), dnnl_stream_default_flags), "dnnl_stream_create");
    return made;
  }();
  return stream;
}

int64_t MemoryDesc::bytes() const { return is_empty() ? 0 : static_cast<int64_t>(dnnl_memory_desc_get_size(get())); }

bool operator==(const MemoryDesc& a, const MemoryDesc& b) {
  if (a.is_empty() || b.is_empty()) return a.is_empty() && b.is_empty();
  return dnnl_memory_desc_equal(a.get(), b.get()) != 0;
}

}  // namespace moka::onednn
