// Axes and shape of the operand follow Caffe's rules for num_axes -1 and for a scalar blob.
#include "layers/types/maths/broadcast_operand.h"

#include "core/text.h"
#include "layers/net/fields.h"

namespace moka {

BroadcastOperand ReadOperand(const LayerBuilder& l, const BroadcastFields& fields) {
  const Shape x = l.shape(0);
  const std::string axis_field = fields.prefix + ".axis";
  BroadcastOperand operand;
  if (l.bottom_count() == 2) {
    operand.shape = l.shape(1);
    operand.value = l.bottom(1);
    if (operand.shape.rank() == 0) return operand;
    operand.axis = AxisOf(l, axis_field, fields.axis, x);
    const int end = operand.axis + operand.shape.rank();
    l.Check(
        end <= x.rank() && Part(x, operand.axis, end) == operand.shape, "bottom[1]",
        StrCat("bottom \"", l.param().bottom(1), "\" ", operand.shape.ToString(), " must equal the dimensions of \"",
               l.param().bottom(0), "\" ", x.ToString(), " from axis ", operand.axis, " on"));
    return operand;
  }
  const std::string count_field = fields.prefix + ".num_axes";
  l.Check(fields.num_axes >= -1, count_field,
          StrCat(count_field, " must be -1 or at least 0, found ", fields.num_axes));
  if (fields.num_axes == 0) return operand;
  operand.axis = AxisOf(l, axis_field, fields.axis, x);
  const int64_t end = fields.num_axes < 0 ? x.rank() : operand.axis + fields.num_axes;
  l.Check(end <= x.rank(), count_field,
          StrCat(count_field, " ", fields.num_axes, " from axis ", operand.axis, " on is more than the bottom ",
                 x.ToString(), " has"));
  operand.shape = Part(x, operand.axis, static_cast<int>(end));
  return operand;
}

}  // namespace moka
