// Asks in order: the layer's fields, the sizes that the run kept, the flags or the card; the first that knows is taken.
#include "tools/infer/input_shape.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/layer_fields.h"
#include "data/pipeline/open_pipeline.h"
#include "data/transform/transform.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "proto/text/places.h"
#include "tools/nets/net_source.h"
#include "tools/train/record_sizes.h"

namespace moka {
namespace {

// Returns the shape that the layer makes of records of a size.
Shape SampleOfRecords(const LayerParameter& layer, const ImageSize& records) {
  TransformationParameter fields = PictureFieldsOf(layer);
  fields.clear_mean_file();  // which changes no shape
  fields.clear_mean_value();
  constexpr uint64_t kSeed = 1;  // of a transform that draws nothing
  return Transform(fields, TEST, kSeed, {}).OutputShape(records);
}

[[noreturn]] void RefuseUnknownSize(const LayerParameter& layer, const Error& gone) {
  const std::string_view param = layer.has_image_data_param()  ? "image_data_param"
                                 : layer.has_hdf5_data_param() ? "hdf5_data_param"
                                 : layer.has_data_param()      ? "data_param"
                                                               : "";
  throw Error(ErrorKind::kNoInput, PlaceOf(layer),
              StrCat("layer \"", layer.name(), "\": ", gone.text(),
                     ", and nothing else says how large the pictures are that the net takes"),
              StrCat("--resize HxW says it", param.empty() ? ""
                                                           : StrCat(", or where the data lie now: 'layer[",
                                                                    layer.name(), "].", param, ".source=\"PATH\"'")));
}

// Where the layer's fields leave the size of its pictures open; the batch is the caller's to set.
Shape SizedByOthers(const InferSource& source, const LayerParameter& layer, Shape guess, const Error& gone) {
  const int rank = guess.rank();
  for (const PictureInput& input : {source.flags, source.card.input()}) {
    if (input.resize_height() == 0 || input.resize_width() == 0 || rank < 3) continue;
    return guess.With(rank - 2, input.resize_height()).With(rank - 1, input.resize_width());
  }
  const std::map<std::string, Shape> known = ShapesOfCard(layer, 1);
  const auto top = known.find(layer.top(0));
  if (top == known.end() || top->second.rank() < 2) RefuseUnknownSize(layer, gone);
  LogWarning(StrCat("layer \"", layer.name(), "\": ", gone.text(),
                    "; going on without it, taking the shapes that the model's card gives"));
  return top->second;
}

// The shape of a data layer's first top when its data are not there.
Shape ShapeWithoutData(const InferSource& source, const LayerParameter& layer, const Error& gone) {
  const GuessedTypes guess = GuessTypes(layer);
  if (guess.types.empty()) throw gone;
  Shape shape = guess.types[0].shape;
  const std::optional<StoredPictures> kept = KeptRecordSize(source.folder, layer.name());
  if (kept && kept->height > 0 && kept->channels > 0 && shape.rank() == 4 && !guess.assumed.empty()) {
    const Shape sample = SampleOfRecords(layer, *kept);
    shape = shape.With(1, sample[0]).With(2, sample[1]).With(3, sample[2]);
  } else if (!guess.assumed.empty()) {
    return SizedByOthers(source, layer, shape, gone);
  } else if (kept && kept->channels > 0 && shape.rank() == 4) {
    const TransformationParameter fields = PictureFieldsOf(layer);
    shape = shape.With(1, fields.force_color() ? 3 : fields.force_gray() ? 1 : kept->channels);
  }
  // A model that was trained elsewhere is not expected to have its data here: the sizes that it kept say as much.
  if (!kept) LogWarning(StrCat("layer \"", layer.name(), "\": ", gone.text(), "; going on without it"));
  return shape;
}

}  // namespace

Shape InputShapeOf(const InferSource& source, const NetParameter& net, int64_t batch) {
  for (const LayerParameter& layer : net.layer()) {
    if (TraitsOf(layer).data == DataKind::kInput) {
      if (layer.input_param().shape_size() == 0)
        throw Error(ErrorKind::kConfig, StrCat("layer \"", layer.name(), "\" has no shape"));
      const BlobShape& shape = layer.input_param().shape(0);
      return Shape(std::vector<int64_t>(shape.dim().begin(), shape.dim().end())).With(0, batch);
    }
    if (layer.top_size() == 0 || layer.bottom_size() > 0) continue;
    if (!IsPipelineLayer(layer.type())) return ProbeDataTypes(TEST, {})(layer)[0].shape.With(0, batch);
    try {
      return OpenPipeline(layer, {.phase = TEST})->types()[0].shape.With(0, batch);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNoInput) throw;
      return ShapeWithoutData(source, layer, error).With(0, batch);
    }
  }
  throw Error(ErrorKind::kConfig, StrCat("net \"", net.name(), "\" has no input"));
}

}  // namespace moka
