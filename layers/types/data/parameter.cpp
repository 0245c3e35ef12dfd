// A trained blob as a top.
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildParameter(LayerBuilder& l) {
  const BlobShape& shape = l.param().parameter_param().shape();
  l.Check(shape.dim_size() <= Shape::kMaxRank, "parameter_param.shape",
          StrCat("parameter_param.shape must have at most ", Shape::kMaxRank, " dimensions, found ", shape.dim_size()));
  const std::vector<int64_t> dims(shape.dim().begin(), shape.dim().end());
  for (const int64_t dim : dims) {
    l.Check(dim >= 1, "parameter_param.shape",
            StrCat("parameter_param.shape: every dimension must be at least 1, found ", dim));
  }
  l.SetTop(0, l.AddBlob(0, Shape(dims), l.param().parameter_param().blob_filler(), ParameterRole::kWeight,
                        "parameter_param.blob_filler"));
}

}  // namespace

LayerDef ParameterLayer() {
  return {.type = "Parameter",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .build = BuildParameter,
          .traits = {.data = DataKind::kParameter},
          .params = {"parameter_param"}};
}

}  // namespace moka
