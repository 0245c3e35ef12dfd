// Each use compares the file with the card's SHA-256: a clone whose large files were cut, or weights of another day,
// are told before they give wrong answers.
#include "tools/nets/zoo_weights.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "proto/content.h"
#include "proto/nets/model_card.h"
#include "tools/nets/models_folder.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMakeAnew = "moka zoo pack RUN NAME writes weights and card; a clone has both as they were";

}  // namespace

std::vector<std::string> ModelsWithWeights(const fs::path& models) {
  std::vector<std::string> names = ModelNames(models);
  std::erase_if(names, [&](const std::string& name) {
    std::error_code code;
    try {
      const ModelCard card = ModelCardOf(models / name);
      const ZooWeights* own = OwnWeightsOf(card);
      return own == nullptr || !fs::is_regular_file(models / name / own->file(), code);
    } catch (const Error&) {
      return true;  // a card that cannot be read offers nothing; whoever takes that model is told why
    }
  });
  return names;
}

Error NoWeightsError(const fs::path& net) {
  if (const Content content = RecognizeFile(net); content == Content::kOnnx)
    return Error(ErrorKind::kBadData, StrCat(Printable(net.string()), ": this is ", Describe(content)));
  return Error(ErrorKind::kUsage, {}, "no weights: this is no run with a checkpoint", kGiveWeights);
}

const ZooWeights* OwnWeightsOf(const ModelCard& card) {
  const auto lies_there = [](const ZooWeights& row) {
    return !row.file().empty() && row.file().find("://") == std::string::npos;
  };
  const auto found = std::ranges::find_if(card.weights(), lies_there);
  return found == card.weights().end() ? nullptr : &*found;
}

void CheckZooFile(const fs::path& folder, const std::string& file, const std::string& sha256, int64_t bytes) {
  const fs::path path = folder / file;
  std::error_code code;
  if (fs::path(file).is_absolute() || fs::path(file).has_parent_path())
    throw Error(ErrorKind::kBadData, StrCat(Printable(path.string()), ": the card names a file of another folder"));
  if (!fs::is_regular_file(path, code)) {
    throw Error(ErrorKind::kNoInput, {}, StrCat(Printable(path.string()), " is not there, and the card names it"),
                kMakeAnew);
  }
  const auto found = static_cast<int64_t>(fs::file_size(path, code));
  if (bytes > 0 && found != bytes) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(Printable(path.string()), " has ", found, " bytes, and the card says ", bytes), kMakeAnew);
  }
  const std::string own = Sha256OfFile(path);
  if (own == sha256) return;
  throw Error(ErrorKind::kBadData, {},
              StrCat(Printable(path.string()), " has the SHA-256 ", own, ", and the card says ",
                     sha256.empty() ? "none" : Printable(sha256)),
              kMakeAnew);
}

std::optional<fs::path> ZooWeightsOf(const fs::path& folder) {
  const ModelCard card = ModelCardOf(folder);
  const ZooWeights* row = OwnWeightsOf(card);
  if (row == nullptr) return std::nullopt;
  CheckZooFile(folder, row->file(), row->sha256(), row->bytes());
  for (const ZooFile& file : row->beside()) CheckZooFile(folder, file.file(), file.sha256());
  return folder / row->file();
}

std::optional<fs::path> ModelFolderOf(const std::string& word) {
  std::error_code code;
  const fs::path path = PathOfWord(word);
  if (!fs::is_regular_file(path / kModelCardFile, code)) return std::nullopt;
  return path;
}

std::optional<fs::path> ZooWeightsOfWord(const std::string& word) {
  const std::optional<fs::path> folder = ModelFolderOf(word);
  return folder ? ZooWeightsOf(*folder) : std::nullopt;
}

fs::path ZooWeightsNamed(const std::string& word) {
  if (const std::optional<fs::path> weights = ZooWeightsOfWord(word)) return *weights;
  const std::optional<fs::path> folder = ModelFolderOf(word);
  const std::vector<std::string> names = folder ? ModelsWithWeights(folder->parent_path()) : std::vector<std::string>{};
  throw Error(ErrorKind::kNoInput, {}, StrCat(Printable(word), " carries no trained weights"),
              names.empty() ? "no model here does" : StrCat("these do: ", Join(names, ", ")));
}

}  // namespace moka
