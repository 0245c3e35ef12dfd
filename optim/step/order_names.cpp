// Fields are compared as bytes, which are the same for the same fields within a program.
#include "optim/step/order_names.h"

#include "data/pipeline/open_pipeline.h"

namespace moka {

const std::string& OrderNames::Of(const LayerParameter& layer) {
  const std::string& own = *names_.insert(layer.name()).first;
  if (!ReadsRecords(layer.type())) return own;
  LayerParameter fields = layer;
  fields.clear_name();
  fields.clear_top();
  fields.clear_origin();   // where it stands
  fields.clear_include();  // when it is there
  fields.clear_exclude();
  if (!fields_.insert(fields.SerializeAsString()).second) again_.insert(own);
  if (first_.empty()) first_ = own;
  return again_.contains(own) ? own : first_;
}

}  // namespace moka
