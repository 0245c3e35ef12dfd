// The shape of what goes into a net that is inferred from: a data layer's where its data are not there any more.
#pragma once

#include "core/types.h"
#include "proto/moka.pb.h"
#include "tools/infer/source.h"

namespace moka {

// Returns the shape that the net's first input or data layer gives a batch, in the test phase. If a layer's data are
// missing, its fields say it, else what the run kept of its records (tools/train/record_sizes.h), else --resize or the
// model's card. Errors: kNoInput at a data layer whose size nothing says, kConfig for a net without an input.
Shape InputShapeOf(const InferSource& source, const NetParameter& net, int64_t batch);

}  // namespace moka
