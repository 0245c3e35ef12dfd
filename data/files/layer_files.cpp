// Fields are found by reflection: a new layer type needs no line here. Of a text file each line is looked at for names
// of files, and of folders of files.
#include "data/files/layer_files.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::string_view kRoot = "root_folder";
// Words that are never a file's, even where a file has that name, and folders that files of a list begin in.
constexpr std::array<std::string_view, 7> kWords = {"name", "type", "top", "bottom", "stage", "not_stage", kRoot};

class Finder {
 public:
  explicit Finder(const fs::path& base) : base_(base) {}

  void Look(const Message& message) {
    const auto& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->message_type() == Origin::descriptor() ||
          std::ranges::find(kWords, std::string_view(field->name())) != kWords.end())
        continue;
      const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) LookAt(message, *field, i);
    }
  }

  std::vector<fs::path> files() const { return {files_.begin(), files_.end()}; }

 private:
  void LookAt(const Message& message, const FieldDescriptor& field, int i) {
    const auto& reflection = *message.GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Look(field.is_repeated() ? reflection.GetRepeatedMessage(message, &field, i)
                               : reflection.GetMessage(message, &field));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      const std::string text = field.is_repeated() ? reflection.GetRepeatedString(message, &field, i)
                                                   : reflection.GetString(message, &field);
      if (!text.empty()) Take(base_ / text, RootBeside(message));
    }
  }

  static std::string RootBeside(const Message& message) {
    const FieldDescriptor* root = message.GetDescriptor()->FindFieldByName(std::string(kRoot));
    const bool is_text = root != nullptr && !root->is_repeated() && root->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    return is_text ? message.GetReflection()->GetString(message, root) : std::string();
  }

  void Take(const fs::path& path, const std::string& root) {
    std::error_code code;
    if (fs::is_directory(path, code)) return TakeFound(path);
    if (!fs::is_regular_file(path, code) || !files_.insert(path).second) return;
    try {
      TakeNamed(ReadLinesFile(path), root);
    } catch (const Error&) {
      return;  // it is no text, so it is no list
    }
  }

  // A line is a name, or names and labels; a name may have blanks.
  void TakeNamed(const std::string& text, const std::string& root) {
    for (const std::string& whole : Split(text, '\n')) {
      const std::string line(Trim(whole));
      std::set<std::string> names = {line, line.substr(0, line.rfind(' '))};
      std::string word;
      for (const char c : line + " ") {
        if (c != ' ' && c != '\t') {
          word += c;
        } else if (!word.empty()) {
          names.insert(std::exchange(word, {}));
        }
      }
      for (const std::string& name : names) {
        if (!name.empty()) TakeFound(base_ / (root + name));
      }
    }
  }

  // A file, or those in a folder, as of a clip.
  void TakeFound(const fs::path& path) {
    std::error_code code;
    if (fs::is_regular_file(path, code)) {
      files_.insert(path);
      return;
    }
    if (!fs::is_directory(path, code)) return;
    fs::directory_iterator at(path, code);
    for (const fs::directory_iterator end; !code && at != end; at.increment(code)) {
      std::error_code of_entry;
      if (at->is_regular_file(of_entry)) files_.insert(at->path());
    }
  }

  const fs::path& base_;
  std::set<fs::path> files_;
};

}  // namespace

std::vector<fs::path> FilesOfLayer(const LayerParameter& layer, const fs::path& base_folder) {
  Finder finder(base_folder);
  finder.Look(layer);
  return finder.files();
}

}  // namespace moka
