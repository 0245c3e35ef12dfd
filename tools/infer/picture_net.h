// A trained net whose first input is pictures: decode, transform, run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/image.h"
#include "data/inspect/picture_reader.h"
#include "tools/infer/deployed_net.h"
#include "tools/infer/picture_preparer.h"
#include "tools/infer/source.h"

namespace moka {

// One thread.
class PictureNet : public DeployedNet {
 public:
  // Errors: those of DeployedNet; kConfig when the first input is no picture [N,C,H,W] or is no sample of the data
  // layer.
  PictureNet(const InferSource& source, int64_t batch, const std::string& blob = {}, SharedWeights weights = {});

  // Returns the input's shape: [N,C,H,W].
  const Shape& input_shape() const { return input_.shape(); }

  // Decodes a file and writes it to a slot of the batch, as the net's data layer would. Returns the picture as it was,
  // upright. Errors: kNoInput, kBadData naming the file. Requires: slot < batch.
  Image Load(const std::filesystem::path& file, int64_t slot);
  // The same of a file's bytes. Errors: kBadData.
  Image LoadBytes(std::string_view bytes, const std::string& name, int64_t slot);
  // The same for a picture that is decoded already; its channels become the input's.
  void Put(Image image, int64_t slot);
  // A part of a picture that has the input's size: as it is.
  void PutAsIs(Image image, int64_t slot);
  // A picture that was prepared elsewhere.
  void PutPrepared(const PreparedPicture& prepared, int64_t slot);
  // Prepares pictures for this net, by any thread.
  PicturePreparer& preparer() { return *preparer_; }
  // Returns the part of the picture in a slot that the input shows (PictureReader::shown).
  const ImageBox& shown(int64_t slot) const { return shown_.at(static_cast<size_t>(slot)); }

 private:
  std::span<float> SlotOf(int64_t slot) const;

  std::vector<ImageBox> shown_;  // of each slot
  std::unique_ptr<PicturePreparer> preparer_;
  std::unique_ptr<PictureReader> reader_;
  Tensor input_;
};

}  // namespace moka
