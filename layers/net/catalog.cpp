// Made once, on first use, from the rows that the build found; never changed, so any thread may read it.
#include "layers/net/catalog.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace moka {

const Catalog& StandardCatalog() {
  static const Catalog catalog(OpRows(), KernelRows());
  return catalog;
}

const KernelDef& KernelNamed(std::string_view op, std::string_view name) {
  const std::vector<const KernelDef*> rows = StandardCatalog().KernelsOf(op, DeviceKind::kCpu);
  const auto row = std::ranges::find(rows, name, &KernelDef::name);
  Require(row != rows.end(), StrCat("kernel ", name, " of op ", op, " is in the catalogue"));
  return **row;
}

}  // namespace moka
