// Files are written into a folder beside the one that is asked for, which takes its name once all are there.
#include "tools/exchange/import/imported_files.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/nets/net_file.h"
#include "proto/text/text_format.h"
#include "proto/weights/weights.h"
#include "proto/zoo.pb.h"
#include "tools/measure/calibration.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Metadata = std::map<std::string, std::string>;

constexpr const char* kWeightsName = "weights.safetensors";

void WarnLeftOut(const std::string& name, const std::string& why) {
  LogWarning(StrCat("the file's metadata: \"", name, "\" ", why, ": left out"));
}

// The beginning of a value as messages have it.
std::string PartOf(const nlohmann::json& value) {
  constexpr size_t kMostShown = 60;
  const std::string text = Printable(value.dump());
  return text.size() <= kMostShown ? text : StrCat(text.substr(0, kMostShown), " ..");
}

// The value of a name as JSON; nothing where there is none, or, with a warning, where it is none of the kind.
std::optional<nlohmann::json> JsonAt(const Metadata& metadata, const std::string& name, nlohmann::json::value_t kind) {
  const auto found = metadata.find(name);
  if (found == metadata.end()) return std::nullopt;
  nlohmann::json json = nlohmann::json::parse(found->second, nullptr, false);
  if (json.type() == kind) return json;
  WarnLeftOut(name, StrCat("is no ", kind == nlohmann::json::value_t::array ? "list" : "object", " in JSON"));
  return std::nullopt;
}

// One name a line; empty where the file says none.
std::string LabelsOf(const Metadata& metadata) {
  const std::optional<nlohmann::json> labels = JsonAt(metadata, "labels", nlohmann::json::value_t::array);
  std::string text;
  for (const nlohmann::json& label : labels.value_or(nlohmann::json::array())) {
    if (!label.is_string() || label.get<std::string>().find_first_of("\r\n") != std::string::npos) {
      WarnLeftOut("labels", StrCat("has ", PartOf(label), ", which is no text of one line"));
      return {};
    }
    text += label.get<std::string>() + "\n";
  }
  return text;
}

// Reads fields of `preprocessing`; each is taken whole or, with a warning, left out.
class PreprocessingReader {
 public:
  PreprocessingReader(const nlohmann::json& json, PictureInput& input) : json_(json), input_(input) {}

  void Read() {
    ReadChannels();
    if (IsNumbers("mean")) AddTo(*input_.mutable_mean(), "mean");
    if (IsNumbers("std") && AreDeviations()) AddTo(*input_.mutable_std(), "std");
    // Pictures go in as such here, and a card has no field that says otherwise.
    if (json_.contains("pixels") && json_["pixels"] != "0..255") Warn("pixels", "and not \"0..255\"");
    if (json_.contains("scale")) ReadScale();
    if (json_.contains("resize_short")) ReadShort();
    if (json_.contains("resize")) ReadSize();
  }

 private:
  // A number that float32 holds, as far as it holds numbers.
  static bool IsFloat(const nlohmann::json& value) {
    return value.is_number() && std::isfinite(value.get<float>()) &&
           (value.get<float>() != 0 || value.get<double>() == 0);
  }
  static bool IsDeviation(const nlohmann::json& value) { return IsFloat(value) && value.get<float>() > 0; }
  // 0 for what is no side of a picture.
  static uint32_t SideOf(const nlohmann::json& value) {
    constexpr uint64_t kMostSide = 1 << 20;
    const bool is_side = value.is_number_unsigned() && value.get<uint64_t>() <= kMostSide;
    return is_side ? value.get<uint32_t>() : 0;
  }
  void Warn(const char* field, const std::string& why) const {
    WarnLeftOut(StrCat("preprocessing.", field), StrCat("is ", PartOf(json_[field]), ", ", why));
  }

  void ReadChannels() {
    if (!json_.contains("channels")) return;
    const nlohmann::json& channels = json_["channels"];
    if (channels == "RGB") return input_.set_channels(PictureInput::RGB);
    if (channels == "BGR") return input_.set_channels(PictureInput::BGR);
    if (channels == "grey") return input_.set_channels(PictureInput::GREY);
    Warn("channels", "and not RGB, BGR or grey");
  }
  bool IsNumbers(const char* field) const {
    if (!json_.contains(field)) return false;
    const nlohmann::json& list = json_[field];
    if (list.is_array() && std::ranges::all_of(list, IsFloat)) return true;
    Warn(field, "and no list of numbers; model.prototxt, or --mean, says it");
    return false;
  }
  bool AreDeviations() const {
    if (std::ranges::all_of(json_["std"], IsDeviation)) return true;
    Warn("std", "and no list of numbers above 0");
    return false;
  }
  void AddTo(google::protobuf::RepeatedField<float>& numbers, const char* field) const {
    for (const nlohmann::json& value : json_[field]) numbers.Add(value.get<float>());
  }
  void ReadScale() {
    if (!IsFloat(json_["scale"])) return Warn("scale", "and no number");
    input_.set_scale(json_["scale"].get<float>());
  }
  void ReadShort() {
    if (SideOf(json_["resize_short"]) == 0) return Warn("resize_short", "and no side of a picture");
    input_.set_resize_short(SideOf(json_["resize_short"]));
  }
  void ReadSize() {
    const nlohmann::json& size = json_["resize"];
    if (!size.is_array() || size.size() != 2 || SideOf(size[0]) == 0 || SideOf(size[1]) == 0)
      return Warn("resize", "and no [height, width]");
    input_.set_resize_height(SideOf(size[0]));
    input_.set_resize_width(SideOf(size[1]));
  }

  const nlohmann::json& json_;
  PictureInput& input_;
};

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
  const bool is_task = ModelCard::Task_Parse(text("task"), &task);
  if (is_task) card.set_task(task);
  if (!is_task && !text("task").empty()) WarnLeftOut("task", StrCat("is \"", text("task"), "\", which is none"));
  const std::optional<nlohmann::json> preprocessing =
      JsonAt(metadata, "preprocessing", nlohmann::json::value_t::object);
  if (preprocessing) PreprocessingReader(*preprocessing, *card.mutable_input()).Read();
  return card;
}

// Verbs that take the folder look into its card for the weights.
void AddWeights(const fs::path& folder, const std::string& source, ModelCard& card) {
  std::error_code code;
  ZooWeights& row = *card.add_weights();
  row.set_file(kWeightsName);
  row.set_sha256(Sha256OfFile(folder / kWeightsName));
  row.set_bytes(static_cast<int64_t>(fs::file_size(folder / kWeightsName, code)));
  row.set_format("safetensors");
  row.set_source(StrCat("imported from ", Printable(source)));
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
  WriteSafetensors(beside.path() / kWeightsName, imported.weights);
  files.push_back(folder / kWeightsName);
  if (!imported.ranges.convolutions.empty()) {
    WriteQuantization(imported.ranges, beside.path() / kRangesName);
    files.push_back(folder / kRangesName);
  }
  const std::string name = folder.lexically_normal().filename().string();
  ModelCard card = CardOf(metadata, name.empty() ? imported.net.name() : Printable(name));
  if (!imported.weights.empty()) AddWeights(beside.path(), source, card);
  write("model.prototxt", ToText(card));
  if (const std::string labels = LabelsOf(metadata); !labels.empty()) write("labels.txt", labels);
  beside.Move();
  return files;
}

}  // namespace moka
