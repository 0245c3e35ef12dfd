// MatWrite (DeepLab): writes its bottoms to MATLAB files there. Moka writes no such files; a net with the layer runs,
// and the values are read as those of any blob.
#include "core/log.h"
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMatWrite(LayerBuilder& l) {
  LogWarning(StrCat("layer \"", Printable(l.param().name()), "\": MatWrite writes no files here"));
}

}  // namespace

LayerDef MatWriteLayer() {
  return {.type = "MatWrite",
          .max_bottoms = -1,
          .min_tops = 0,
          .max_tops = 0,
          .build = BuildMatWrite,
          .params = {"mat_write_param"}};
}

}  // namespace moka
