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
          .doc =
              "Writes the rows of its two bottoms, [N,..] each of at most four axes, to the datasets \"data\" and "
              "\"label\" of the HDF5 file hdf5_output_param.file_name, when the net is tested or runs layer by "
              "layer (Python); no tops. A training program does not write.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .min_tops = 0,
          .max_tops = 0,
          .build = BuildHdf5Output,
          .page = {.params = {"hdf5_output_param"},
                   .formula = "No tops. Each run appends N rows to both datasets, whose shapes are `[rows,C,H,W]` with "
                              "axes of 1 at the end where a bottom has fewer than four. The file gets its name when "
                              "the test, or the net that runs layer by layer, is over; a file of that name is "
                              "replaced. It lies below the working folder, that of a training's tests in the "
                              "run's folder `outputs/`: a name that is absolute or has `..` is refused unless the "
                              "command line gives it, or `--allow-outputs=DIR` with a DIR that holds it. With several "
                              "ranks each writes a file of its own, `.rank0` and so on after the name.",
                   .gradient = "None: the bottoms get no gradient from this layer.",
                   .source = "BVLC Caffe's hdf5_output_layer. Caffe can write one batch only: its second forward pass "
                             "ends the process, since the dataset is there already. In a training program, where Caffe "
                             "would write too, nothing is written.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" top: "label"
  input_param { shape { dim: 2 dim: 4 } shape { dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 3 } }
layer {
  name: "out"
  type: "HDF5Output"
  bottom: "ip"
  bottom: "label"
  hdf5_output_param { file_name: "features.h5" }
}
layer { name: "sigmoid" type: "Sigmoid" bottom: "x" top: "sigmoid" })"}};
}

}  // namespace moka
