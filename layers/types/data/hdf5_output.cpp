// HDF5Output: the rows of two blobs go to an HDF5 file. Whoever runs the net writes them (data/records/hdf5_sink.h);
// the layer itself only checks that they can be written.
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildHdf5Output(LayerBuilder& l) {
  l.Check(!l.param().hdf5_output_param().file_name().empty(), "hdf5_output_param.file_name",
          "hdf5_output_param.file_name is not set");
  for (int i = 0; i < 2; ++i) {
    l.Check(l.shape(i).rank() >= 1 && l.shape(i).rank() <= 4, "bottom",
            StrCat("bottom \"", l.param().bottom(i), "\" has the shape ", l.shape(i).ToString(), "; 1 to 4 axes fit"));
  }
  l.Check(l.shape(0)[0] == l.shape(1)[0], "bottom",
          StrCat("the bottoms have ", l.shape(0)[0], " and ", l.shape(1)[0], " rows; both need the same number"));
}

}  // namespace

LayerDef Hdf5OutputLayer() {
  return {.type = "HDF5Output",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .min_tops = 0,
          .max_tops = 0,
          .build = BuildHdf5Output,
          .traits = {.writes_file = true},
          .params = {"hdf5_output_param"}};
}

}  // namespace moka
