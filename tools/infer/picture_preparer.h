// Pictures made ready for a net away from it, so that one is decoded while the net looks at another.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "data/image/image.h"
#include "data/inspect/picture_reader.h"
#include "proto/moka.pb.h"
#include "tools/infer/picture_way.h"
#include "tools/infer/source.h"

namespace moka {

struct PreparedPicture {
  Image picture;              // as it was, upright
  ImageBox shown;             // the part of it that the input shows (PictureReader::shown)
  std::vector<float> values;  // of the input: [C,H,W]
};

// Any thread.
class PicturePreparer {
 public:
  // For the first input of `deploy`, whose sample is [C,H,W]. Errors: kConfig where it is no sample of the data layer.
  PicturePreparer(const InferSource& source, const NetParameter& deploy, const Shape& sample);

  // Decodes a file's bytes and makes of them a sample as the net's data layer would. Errors: kBadData.
  PreparedPicture Prepare(std::string_view bytes, const std::string& name);
  // The data layer, or the input with the fields of one.
  const LayerParameter& layer() const { return way_.layer; }
  // A reader of one's own.
  std::unique_ptr<PictureReader> MakeReader() const;

 private:
  // One that is free, or a new one.
  std::unique_ptr<PictureReader> TakeReader();

  Shape sample_;
  PictureWay way_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PictureReader>> free_;  // those that no thread uses now
  size_t readers_ = 0;                                // and the others
};

}  // namespace moka
