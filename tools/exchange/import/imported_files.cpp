// Files are written into a folder beside the one that is asked for, which takes its name once all are there.
#include "tools/exchange/import/imported_files.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/nets/net_file.h"
#include "proto/text/text_format.h"
#include "proto/weights/weights.h"
#include "proto/zoo.pb.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Metadata = std::map<std::string, std::string>;

// The value of a name as JSON; nothing where there is none, or, with a warning, where it is no JSON.
std::optional<nlohmann::json> JsonAt(const Metadata& metadata, const std::string& name) {
  const auto found = metadata.find(name);
  if (found == metadata.end()) return std::nullopt;
  nlohmann::json json = nlohmann::json::parse(found->second, nullptr, false);
  if (!json.is_discarded()) return json;
  LogWarning(StrCat("the file's metadata say \"", name, "\" otherwise than moka export does: left out"));
  return std::nullopt;
}

// One name a line; empty where the file says none.
std::string LabelsOf(const Metadata& metadata) {
  const std::optional<nlohmann::json> labels = JsonAt(metadata, "labels");
  if (!labels || !labels->is_array()) return {};
  std::string text;
  for (const nlohmann::json& label : *labels) {
    if (!label.is_string() || label.get<std::string>().find('\n') != std::string::npos) return {};
    text += label.get<std::string>() + "\n";
  }
  return text;
}

// A number or a list of them; nothing that is not finite.
template <class Field>
void SetNumbers(const nlohmann::json& json, const char* name, Field& field) {
  if (!json.contains(name) || !json[name].is_array()) return;
  for (const nlohmann::json& value : json[name]) {
    if (value.is_number() && std::isfinite(value.get<double>())) field.Add(value.get<float>());
  }
}

void SetPictureInput(const nlohmann::json& json, PictureInput& input) {
  constexpr int64_t kMostSide = 1 << 20;
  const auto side = [&](const nlohmann::json& value) {
    const bool is_side = value.is_number_unsigned() && value.get<uint64_t>() >= 1 && value.get<uint64_t>() <= kMostSide;
    return is_side ? value.get<uint32_t>() : 0U;
  };
  const std::string channels = json.value("channels", nlohmann::json()).is_string() ? json["channels"] : "";
  if (channels == "RGB") input.set_channels(PictureInput::RGB);
  if (channels == "BGR") input.set_channels(PictureInput::BGR);
  if (channels == "grey") input.set_channels(PictureInput::GREY);
  SetNumbers(json, "mean", *input.mutable_mean());
  SetNumbers(json, "std", *input.mutable_std());
  if (json.contains("scale") && json["scale"].is_number() && std::isfinite(json["scale"].get<double>()))
    input.set_scale(json["scale"].get<float>());
  if (json.contains("resize_short") && side(json["resize_short"]) > 0)
    input.set_resize_short(side(json["resize_short"]));
  if (!json.contains("resize") || !json["resize"].is_array() || json["resize"].size() != 2) return;
  if (side(json["resize"][0]) == 0 || side(json["resize"][1]) == 0) return;
  input.set_resize_height(side(json["resize"][0]));
  input.set_resize_width(side(json["resize"][1]));
}

// The card of the file by what it says of itself.
ModelCard CardOf(const Metadata& metadata, const std::string& name) {
  ModelCard card;
  card.set_name(name);
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : Printable(found->second);
  };
  if (!text("title").empty()) card.set_title(text("title"));
  if (!text("paper").empty()) card.set_paper(text("paper"));
  if (!text("licence").empty()) card.set_licence(text("licence"));
  ModelCard::Task task{};
  if (ModelCard::Task_Parse(text("task"), &task)) card.set_task(task);
  const std::optional<nlohmann::json> preprocessing = JsonAt(metadata, "preprocessing");
  if (preprocessing && preprocessing->is_object()) SetPictureInput(*preprocessing, *card.mutable_input());
  return card;
}

bool IsEmptyFolder(const fs::path& folder) {
  std::error_code code;
  return fs::is_directory(folder, code) && !fs::is_symlink(folder, code) && fs::is_empty(folder, code);
}

// A folder of another name that goes, with what is in it, unless it has been moved.
class FolderBeside {
 public:
  explicit FolderBeside(const fs::path& folder) : folder_(folder) {
    fs::path name = folder.lexically_normal();
    if (!name.has_filename()) name = name.parent_path();
    beside_ = name.parent_path() / StrCat(".", name.filename().string(), ".", getpid());
    folder_ = name;
    std::error_code code;
    if (!fs::create_directory(beside_, code) || code) {
      throw Error(ErrorKind::kCantCreate,
                  StrCat("cannot make the folder ", Printable(folder.string()),
                         code ? StrCat(": ", code.message()) : std::string(": another import is at it")));
    }
  }
  FolderBeside(const FolderBeside&) = delete;
  FolderBeside& operator=(const FolderBeside&) = delete;
  ~FolderBeside() {
    std::error_code code;
    if (!beside_.empty()) fs::remove_all(beside_, code);
  }

  const fs::path& path() const { return beside_; }
  void Move() {
    std::error_code code;
    SyncFolder(beside_);
    fs::rename(beside_, folder_, code);
    if (code)
      throw Error(ErrorKind::kCantCreate, StrCat("cannot make ", Printable(folder_.string()), ": ", code.message()));
    beside_.clear();
    SyncFolder(folder_.has_parent_path() ? folder_.parent_path() : fs::path("."));
  }

 private:
  fs::path folder_;
  fs::path beside_;
};

}  // namespace

void CheckImportFolder(const fs::path& folder) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(folder, code)) || IsEmptyFolder(folder)) return;
  throw Error(ErrorKind::kCantCreate, {}, StrCat(Printable(folder.string()), " is there already"),
              "--out FOLDER names another");
}

std::vector<fs::path> WriteImported(const fs::path& folder, const ImportedNet& imported, const Metadata& metadata,
                                    const std::string& source) {
  CheckImportFolder(folder);
  FolderBeside beside(folder);
  std::vector<fs::path> files;
  const auto write = [&](const char* name, const std::string& text) {
    WriteFileAtomically(beside.path() / name, text);
    files.push_back(folder / name);
  };
  write("deploy.prototxt", StrCat("# Imported from ", Printable(source), ".\n", NetToText(imported.net)));
  WriteSafetensors(beside.path() / "weights.safetensors", imported.weights);
  files.push_back(folder / "weights.safetensors");
  const std::string name = folder.lexically_normal().filename().string();
  write("model.prototxt", ToText(CardOf(metadata, name.empty() ? imported.net.name() : Printable(name))));
  if (const std::string labels = LabelsOf(metadata); !labels.empty()) write("labels.txt", labels);
  beside.Move();
  return files;
}

}  // namespace moka
