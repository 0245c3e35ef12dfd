// A reader has buffers of its own, so each thread takes one that is free.
#include "tools/infer/picture_preparer.h"

#include <filesystem>
#include <utility>

#include "core/text.h"
#include "tools/nets/deploy_net.h"

namespace moka {

PicturePreparer::PicturePreparer(const InferSource& source, const NetParameter& deploy, const Shape& sample)
    : sample_(sample), way_(PictureWayOf(source, InferNet(source), deploy, sample)) {}

std::unique_ptr<PictureReader> PicturePreparer::MakeReader() const {
  return std::make_unique<PictureReader>(way_.layer, sample_, std::filesystem::path{}, way_.order, way_.stored);
}

std::unique_ptr<PictureReader> PicturePreparer::TakeReader() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<PictureReader> reader = std::move(free_.back());
      free_.pop_back();
      return reader;
    }
  }
  std::unique_ptr<PictureReader> reader = MakeReader();
  const std::lock_guard lock(mutex_);
  free_.reserve(++readers_);  // so that to give one back cannot fail
  return reader;
}

PreparedPicture PicturePreparer::Prepare(std::string_view bytes, const std::string& name) {
  // A reader is given back also where the picture was broken: to make one may read a mean file.
  const auto give_back = [this](PictureReader* reader) {
    const std::lock_guard lock(mutex_);
    free_.emplace_back(reader);
  };
  const std::unique_ptr<PictureReader, decltype(give_back)> reader(TakeReader().release(), give_back);
  PreparedPicture prepared;
  prepared.values.resize(static_cast<size_t>(sample_.Count()));
  prepared.picture = reader->Load(bytes, prepared.values);
  prepared.shown = reader->shown();
  TellLosses(reader->TakeLosses(), Printable(name));
  return prepared;
}

}  // namespace moka
