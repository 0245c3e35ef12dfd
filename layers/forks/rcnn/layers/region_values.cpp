// Small graph helpers: columns of rows of regions, and the shift of boxes by deltas (Girshick et al. 2014, appendix C).
#include "layers/forks/rcnn/layers/region_values.h"

#include <string>

namespace moka {

std::vector<ValueId> Columns(const GraphBuilder& b, ValueId x, Ints sizes) {
  return b.Add("slice", {x}, {{"axis", int64_t{1}}, {"sizes", std::move(sizes)}});
}

std::vector<ValueId> Columns(const GraphBuilder& b, ValueId x) {
  const Shape shape = b.shape(x);
  return Columns(b, x, Ints(static_cast<size_t>(shape[1]), 1));
}

ValueId Beside(const GraphBuilder& b, const std::vector<ValueId>& parts) {
  return b.Add1("concat", parts, {{"axis", int64_t{1}}});
}

std::vector<ValueId> Moved(const GraphBuilder& b, ValueId boxes, ValueId deltas) {
  const std::vector<ValueId> box = Columns(b, boxes);
  const std::vector<ValueId> delta = Columns(b, deltas);
  const std::string parts = "t0=x1-x0+1;t1=x0+0.5*t0+x2*t0;t2=0.5*exp(x3)*t0;";
  const Strings ends = {parts + "t1-t2", parts + "t1+t2"};
  const std::vector<ValueId> x = b.Pointwise(ends, {box[0], box[2], delta[0], delta[2]});
  const std::vector<ValueId> y = b.Pointwise(ends, {box[1], box[3], delta[1], delta[3]});
  return {x[0], y[0], x[1], y[1]};
}

ValueId AsRois(const GraphBuilder& b, const std::vector<ValueId>& columns) {
  const Shape shape = b.shape(columns[0]);
  std::vector<ValueId> parts = {b.Full(shape, 0)};
  parts.insert(parts.end(), columns.begin(), columns.end());
  return Beside(b, parts);
}

}  // namespace moka
