// A card is prototxt, read as strictly as a net. A folder without one gives the default card, so that callers need no
// second case.
#include "proto/nets/model_card.h"

#include "proto/text/text_format.h"

namespace moka {

ModelCard ReadModelCard(const std::filesystem::path& file) {
  ModelCard card;
  ParseText(ReadTextFile(file, "a model's card"), file.string(), card);
  return card;
}

ModelCard ModelCardOf(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path file = folder / kModelCardFile;
  return std::filesystem::exists(std::filesystem::symlink_status(file, ignored)) ? ReadModelCard(file) : ModelCard{};
}

}  // namespace moka
