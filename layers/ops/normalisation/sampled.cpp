// Positions are counted from 0 in steps of the stride, on each spatial axis by itself.
#include "layers/ops/normalisation/sampled.h"

#include <algorithm>

#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"

namespace moka {

Shape SampledShape(std::string_view op, const Shape& x, const Ints& stride) {
  if (stride.empty()) return x;
  if (x.rank() != 4 || stride.size() != 2 || std::ranges::min(stride) < 1) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": stride ", ToText(AttributeValue(stride)),
                                           " wants two values of at least 1 and x [N,C,H,W], found ", x.ToString()));
  }
  return x.With(2, CeilDiv(x[2], stride[0]).value()).With(3, CeilDiv(x[3], stride[1]).value());
}

int64_t SampledPlace(const Shape& sampled, const Index& index, const Ints& stride) {
  Index place = index;
  for (size_t i = 0; i < stride.size(); ++i) {
    if (index[i + 2] % stride[i] != 0) return -1;
    place[i + 2] = index[i + 2] / stride[i];
  }
  return RowMajor(sampled, place);
}

}  // namespace moka
