// Fields are found by reflection: a new layer type needs no line here. A text file counts as a list if one of its first
// lines begins with a file's name.
#include "data/files/layer_files.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

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
constexpr size_t kLooked = 64;  // lines in which a list names its first file

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
    if (fs::is_directory(path, code)) {
      for (const fs::directory_entry& entry : fs::directory_iterator(path, code)) {
        if (entry.is_regular_file(code)) files_.insert(entry.path());
      }
      return;
    }
    if (!fs::is_regular_file(path, code) || !files_.insert(path).second) return;
    try {
      TakeNamed(ReadLinesFile(path), root);
    } catch (const Error&) {
      return;  // it is no text, so it is no list
    }
  }

  // A line is a name, or a name and labels; a name may have blanks.
  void TakeNamed(const std::string& text, const std::string& root) {
    const std::vector<std::string> lines = Split(text, '\n');
    bool is_list = false;
    for (size_t i = 0; i < lines.size() && (is_list || i < kLooked); ++i) {
      const std::string line(Trim(lines[i]));
      for (const std::string& name : {line, line.substr(0, line.rfind(' ')), line.substr(0, line.find(' '))}) {
        const fs::path file = base_ / (root + name);
        std::error_code code;
        if (name.empty() || !fs::is_regular_file(file, code)) continue;
        files_.insert(file);
        is_list = true;
        break;
      }
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
