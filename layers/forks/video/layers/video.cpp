// Video to video (C3D's v2v nets: Tran et al., arXiv 1511.06681): clips with a truth for every voxel, the loss over
// them, and pooling of volumes under one more name.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

LayerDef DataRow(const std::string& type, const std::string& truth, const std::string& channels) {
  return {
      .type = type,
      .doc = StrCat("Clips [N,C,frames,H,W] and for each voxel ", truth,
                    " from a list of files of volumes. Nets with the layer build, but no reader of its files "
                    "exists: training or testing with it is an error."),
      .min_bottoms = 0,
      .max_bottoms = 0,
      .min_tops = 2,
      .max_tops = 2,
      .build = BuildData,
      .page = {.params = {"image_data_param", "transform_param"},
               .formula = StrCat("top 0: clips `[batch_size,3,new_length,H,W]`, H and W crop_size; top 1: the truth "
                                 "`[batch_size,",
                                 channels,
                                 ",new_length,H,W]`. The sizes are those of the files, so a net that is built "
                                 "without them takes 16 frames unless new_length says otherwise."),
               .gradient = "None: the tops are inputs of the net.",
               .source = "Tran et al., \"Deep End2End Voxel2Voxel Prediction\", 2015, arXiv 1511.06681; C3D's "
                         "Caffe, without its reader.",
               .example = StrCat(R"(layer {
  name: "data"
  type: ")",
                                 type, R"("
  top: "data"
  top: "truth"
  image_data_param { source: "clips.txt" batch_size: 1 crop_size: 8 new_length: 4 }
})")}};
}

void BuildLoss(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 3 && x.Count() >= 1, "bottom[0]",
          StrCat("the scores must be [N,classes,..], found ", x.ToString()));
  l.Check(l.shape(1) == x.With(1, 1), "bottom[1]",
          StrCat("the truth must be ", x.With(1, 1).ToString(), ", found ", l.shape(1).ToString()));
  const int64_t voxels = x.Count() / x[1];
  // A class past the last counts nothing but is counted.
  const ValueId truth =
      b.Pointwise(StrCat("select(lt(x0,", x[1], "),x0,", x[1], ")"), {b.Add1("stop_gradient", {l.bottom(1)})});
  const std::vector<ValueId> loss =
      b.Add("softmax_loss", {l.bottom(0), truth}, {{"axis", int64_t{1}}, {"has_ignore", true}, {"ignore_label", x[1]}});
  l.SetTop(0, b.Pointwise(StrCat("x0*", Number(1 / static_cast<double>(voxels))), {loss[0]}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef VideoSegmentationDataLayer() { return DataRow("VideoSegmentationData", "its class [N,1,frames,H,W]", "1"); }

LayerDef VideoWithVoxelTruthDataLayer() {
  return DataRow("VideoWithVoxelTruthData", "num_truth_channels values [N,K,frames,H,W]", "num_truth_channels");
}

LayerDef VoxelSoftmaxLossLayer() {
  return {
      .type = "VoxelSoftmaxLoss",
      .doc =
          "Softmax over the classes of scores [N,C,..] and the cross entropy with the class of each voxel [N,1,..]; "
          "the sum over all voxels divided by their number. Classes from C on count as loss 0.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .min_tops = 0,
      .auto_tops = true,
      .build = BuildLoss,
      .page = {
          .params = {},
          .formula = "`loss = -(1/V) sum over v with t_v < C of log max(softmax(x)[t_v, v], FLT_MIN)`, V the "
                     "number of voxels of the batch, those with other classes too.",
          .gradient = "x: `(softmax(x)[c,v] - [c = t_v]) / V`, 0 at voxels that count nothing. The truth gets "
                      "none.",
          .source = "C3D's Caffe, voxel_wise_softmax_loss_layer, whose gradient at a voxel of no class is "
                    "softmax(x)/V, though its loss does not depend on x there; here it is 0.",
          .example =
              R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 2 dim: 4 dim: 4 } } }
layer { name: "t" type: "Input" top: "t" input_param { shape { dim: 1 dim: 1 dim: 2 dim: 4 dim: 4 } } }
layer { name: "loss" type: "VoxelSoftmaxLoss" bottom: "x" bottom: "t" top: "loss" })"}};
}

}  // namespace moka
