// Questions to a primitive's descriptor, which both majors of oneDNN are asked alike.
#include "layers/kernels/cpu/onednn/primitives.h"

#include <utility>

#include "core/text.h"

namespace moka::onednn {

PrimitiveDesc::PrimitiveDesc(dnnl_status_t status, dnnl_primitive_desc_t desc, std::vector<Constant> constants)
    : desc_(status == dnnl_success ? desc : nullptr), status_(status), constants_(std::move(constants)) {}

std::string PrimitiveDesc::Refusal() const {
  return ok() ? std::string() : StrCat("oneDNN has no primitive: ", StatusText(status_));
}

MemoryDesc PrimitiveDesc::md(dnnl_query_t what, int index) const {
  return MemoryDesc::CopyOf(dnnl_primitive_desc_query_md(get(), what, index));
}

std::string_view PrimitiveDesc::implementation() const {
  const char* text = nullptr;
  Check(dnnl_primitive_desc_query(get(), dnnl_query_impl_info_str, 0, static_cast<void*>(&text)),
        "dnnl_primitive_desc_query");
  return text;
}

}  // namespace moka::onednn
