// Video to video (C3D's v2v nets: Tran et al., arXiv 1511.06681): clips with a truth for every voxel, and the loss over
// them.
#include <algorithm>

#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"

namespace moka {
namespace {

void BuildData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

// C3D's clips have 16 frames.
void ReadVolumes(const LayerParameter& /*layer*/, DataFields& fields) {
  constexpr int64_t kUsualFrames = 16;
  fields.is_clip = true;
  if (fields.frames <= 0) fields.frames = kUsualFrames;
}

GuessedTypes GuessVideoSegmentation(const LayerParameter& layer) {
  const auto top = [](const LayerParameter& /*layer*/, int /*top*/, const GuessedPicture& picture) -> Shape {
    return picture.image.With(1, 1);
  };
  return GuessPictures(layer, {.read = ReadVolumes, .top = top});
}

GuessedTypes GuessVoxelTruth(const LayerParameter& layer) {
  const auto top = [](const LayerParameter& data, int /*top*/, const GuessedPicture& picture) -> Shape {
    return picture.image.With(1, std::max<int64_t>(data.image_data_param().num_truth_channels(), 1));
  };
  return GuessPictures(layer, {.read = ReadVolumes, .top = top});
}

LayerDef DataRow(const std::string& type, GuessedTypes (*guess)(const LayerParameter&)) {
  return {.type = type,
          .min_bottoms = 0,
          .max_bottoms = 0,
          .min_tops = 2,
          .max_tops = 2,
          .build = BuildData,
          .traits = {.drawn_as = DrawnAs::kData},
          .guess = guess,
          .params = {"image_data_param", "transform_param"}};
}

void BuildLoss(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 3 && x.Count() >= 1, "bottom[0]",
          StrCat("the scores must be [N,classes,..], found ", x.ToString()));
  l.Check(l.shape(1) == x.With(1, 1), "bottom[1]",
          StrCat("the truth must be ", x.With(1, 1).ToString(), ", found ", l.shape(1).ToString()));
  const int64_t voxels = x.Count() / x[1];
  // A voxel of a class past the last adds no loss, but the mean is over it too.
  const Term label = Term::Of(b.Add1("stop_gradient", {l.bottom(1)}));
  const ValueId truth = Computed(b, Select(label < x[1], label, x[1]));
  const std::vector<ValueId> loss =
      b.Add("softmax_loss", {l.bottom(0), truth}, {{"axis", int64_t{1}}, {"has_ignore", true}, {"ignore_label", x[1]}});
  l.SetTop(0, Term::Of(loss[0]) * Decimal(1 / static_cast<double>(voxels)));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef VideoSegmentationDataLayer() { return DataRow("VideoSegmentationData", GuessVideoSegmentation); }

LayerDef VideoWithVoxelTruthDataLayer() { return DataRow("VideoWithVoxelTruthData", GuessVoxelTruth); }

LayerDef VoxelSoftmaxLossLayer() {
  return {.type = "VoxelSoftmaxLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .min_tops = 0,
          .auto_tops = true,
          .build = BuildLoss,
          .traits = {.is_loss = true}};
}

}  // namespace moka
