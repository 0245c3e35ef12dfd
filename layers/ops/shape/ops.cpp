#include "layers/ops/shape/ops.h"

namespace moka {

std::vector<OpDef> ShapeOps() {
  return {Col2imOp(), FilterIndexOp(), FlipOp(), Im2colOp(), ReindexBackwardOp(), ReindexOp()};
}

}  // namespace moka
