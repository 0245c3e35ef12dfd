// Shapes of a data layer's tops when its source is not there: from the layer's own fields, so that a net can be looked
// at, drawn and timed without its data.
#pragma once

#include <string>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

struct GuessedTypes {
  std::vector<TensorType> types;  // one a top; none: the layer says too little
  // Names what no field says and was taken from the source's name or from habit; empty: all stands in the fields.
  std::string assumed;
};

// As the layer's row guesses it, or its input_param says it.
GuessedTypes GuessTypes(const LayerParameter& layer);

// The values that data layers of many types say, each in fields of its own.
struct DataFields {
  int64_t batch = 0;
  std::string source;
  int64_t crop_h = 0;
  int64_t crop_w = 0;
  int64_t new_h = 0;
  int64_t new_w = 0;
  int64_t frames = 0;
  bool is_color = true;
  bool is_clip = false;            // frames have an axis of their own, even a single one
  bool is_cut_to_strides = false;  // to whole strides of transform_param, and no more than its upper size
};

// The picture that the first top holds, from which other tops take their sizes.
struct GuessedPicture {
  int64_t batch;
  int64_t h;
  int64_t w;
  Shape image;  // with the batch
};

// How the tops of a type differ from those of others that give pictures.
struct PictureRules {
  // Fields that are the type's own.
  void (*read)(const LayerParameter& layer, DataFields& fields) = nullptr;
  Shape picture = {};  // [C,H,W] where no field says a size; rank 0: that of a data set that the source's name tells
  bool keeps_own_size = false;  // files say the size, whatever the fields crop
  // All tops at once; fewer than the layer has: as other layers. `assumed` says what no field tells.
  std::vector<Shape> (*tops)(const LayerParameter& layer, const DataFields& fields, const GuessedPicture& picture,
                             std::string& assumed) = nullptr;
  // A top after the first; rank 0: as other layers.
  Shape (*top)(const LayerParameter& layer, int top, const GuessedPicture& picture) = nullptr;
  bool says_tops = false;  // `top` goes before what a top's name tells
};
GuessedTypes GuessPictures(const LayerParameter& layer, const PictureRules& rules);

// Tops of these shapes, if there is one for each and all their fields are given; else none.
GuessedTypes GuessedTexts(const LayerParameter& layer, const std::vector<Shape>& shapes);

}  // namespace moka
