// A batch has slots that pictures are written to in any order; a run looks at the used ones only.
#include "tools/infer/picture_net.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "proto/content.h"
#include "proto/text/places.h"
#include "tools/nets/deploy_net.h"

namespace moka {

namespace fs = std::filesystem;

PictureNet::PictureNet(const InferSource& source, int64_t batch, const std::string& blob, SharedWeights weights)
    : DeployedNet(source, batch, Fills::kFirst, blob, std::move(weights)) {
  const std::string& input = inputs().front();
  input_ = program().input(input);
  if (input_.shape().rank() != 4) {
    throw Error(ErrorKind::kConfig,
                StrCat("input \"", input, "\" is ", input_.shape().ToString(), ", not pictures [N,C,H,W]"));
  }
  shown_.resize(static_cast<size_t>(batch));
  const Shape sample = input_.shape().Erased(0);
  preparer_ = std::make_unique<PicturePreparer>(source, deploy(), sample);
  try {
    reader_ = preparer_->MakeReader();
  } catch (Error& error) {
    const SourcePlace place = PlaceOf(ImageInput(deploy()));
    if (place.ToString() != PlaceOf(preparer_->layer()).ToString())
      error.AddNote(StrCat("for input \"", input, "\" of ", place.ToString()));
    throw;
  }
}

std::span<float> PictureNet::SlotOf(int64_t slot) const {
  const int64_t count = input_.shape().Count(1, 4);
  return input_.as<float>().subspan(static_cast<size_t>(slot * count), static_cast<size_t>(count));
}

Image PictureNet::Load(const fs::path& file, int64_t slot) {
  std::string bytes;
  try {
    bytes = ReadFile(file);
    return LoadBytes(bytes, file.string(), slot);
  } catch (const Error& error) {
    if (error.text().find(file.string()) != std::string::npos) throw;
    const bool is_text = RecognizeContent(std::string_view(bytes).substr(0, 4096)) == Content::kText;
    const bool is_list = error.kind() == ErrorKind::kBadData && is_text && !IsImageName(file.filename().string());
    const std::string hint =
        is_list ? "a list of pictures, a path a line, goes in on the standard input: - < LIST" : "";
    throw Error(error.kind(), error.place(), StrCat(Printable(file.string()), ": ", error.text()),
                hint.empty() ? error.hint() : hint);
  }
}

Image PictureNet::LoadBytes(std::string_view bytes, const std::string& name, int64_t slot) {
  Image image = reader_->Load(bytes, SlotOf(slot));
  TellLosses(reader_->TakeLosses(), Printable(name));
  shown_[static_cast<size_t>(slot)] = reader_->shown();
  return image;
}

void PictureNet::Put(Image image, int64_t slot) {
  reader_->Put(std::move(image), SlotOf(slot));
  shown_[static_cast<size_t>(slot)] = reader_->shown();
}

void PictureNet::PutPrepared(const PreparedPicture& prepared, int64_t slot) {
  std::ranges::copy(prepared.values, SlotOf(slot).begin());
  shown_[static_cast<size_t>(slot)] = prepared.shown;
}

void PictureNet::PutAsIs(Image image, int64_t slot) {
  reader_->PutAsIs(std::move(image), SlotOf(slot));
  shown_[static_cast<size_t>(slot)] = {0, 0, 1, 1};
}

}  // namespace moka
