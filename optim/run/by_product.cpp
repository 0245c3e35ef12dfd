// The warning is given once a by-product, whatever goes wrong afterwards.
#include "optim/run/by_product.h"

#include "core/log.h"
#include "core/text.h"

namespace moka {

void ByProduct::Warn(const std::exception& error) {
  if (std::exchange(is_told_, true)) return;
  LogWarning(StrCat("the training goes on without ", what_, ": ", error.what()));
}

}  // namespace moka
