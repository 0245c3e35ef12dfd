// Names stand one a line. "12 cat" has a number only where all lines have one and these are the numbers of all classes;
// else the digits belong to the name.
#include "data/records/class_names.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "core/utf8.h"
#include "data/files/list_text.h"
#include "data/records/sample_record.h"

namespace moka {
namespace {

using NameList = google::protobuf::RepeatedPtrField<std::string>;

std::vector<std::string> NamesIn(const SampleSchema& schema, const RecordDataParameter& param) {
  const auto takes = [&](RecordDataParameter::Output output) {
    return std::ranges::find(param.output(), static_cast<int>(output)) != param.output().end();
  };
  const auto list = [](const NameList& names) { return std::vector<std::string>(names.begin(), names.end()); };
  if (takes(RecordDataParameter::BOXES)) return list(schema.box_class());
  if (takes(RecordDataParameter::MASK)) return list(schema.mask_class());
  if (takes(RecordDataParameter::LABELS) && schema.label_size() > 0) return list(schema.label(0).class_name());
  if (takes(RecordDataParameter::TARGETS)) return list(schema.target());
  return {};
}

// The number before a name, "12 cat"; -1 without one.
int64_t NumberBefore(std::string_view name) {
  int64_t number = -1;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool has_name = code == std::errc() && end != name.data() + name.size() && (*end == ' ' || *end == '\t');
  return has_name ? number : -1;
}

// Whether the numbers before the names are those of all classes, in whatever order; others belong to the names ("5
// cents").
bool AreNumbered(const std::vector<std::string>& names) {
  std::set<int64_t> numbers;
  for (const std::string& name : names) numbers.insert(NumberBefore(name));
  return numbers.size() == names.size() && *numbers.begin() == 0 && *numbers.rbegin() + 1 == std::ssize(names);
}

// Calls repeated(place, name, line) for each name that an earlier line has. Errors: kBadData at a blank line.
template <class Repeated>
void VisitNameLines(const std::vector<std::string>& names, const std::filesystem::path& file, Repeated&& repeated) {
  std::map<std::string_view, size_t> lines;
  for (size_t i = 0; i < names.size(); ++i) {
    const SourcePlace place{.file = file.string(), .line = static_cast<int>(i) + 1, .column = 1};
    if (names[i].empty()) {
      throw Error(ErrorKind::kBadData, place, StrCat("a blank line where the name of class ", i, " stands"),
                  "names stand one a line, that of class 0 first");
    }
    const auto [known, is_new] = lines.emplace(names[i], i + 1);
    if (!is_new) repeated(place, Printable(names[i]), known->second);
  }
}

}  // namespace

std::vector<std::string> ClassNamesOf(const LayerParameter& layer, const std::filesystem::path& base_folder) {
  if (layer.data_param().source().empty()) return {};
  const std::filesystem::path database = base_folder / layer.data_param().source();
  if (HasSampleSchema(database)) return NamesIn(ReadSampleSchema(database), layer.record_data_param());
  return LabelNamesIn(database);
}

std::vector<std::string> LabelNamesIn(const std::filesystem::path& database) {
  std::error_code ignored;
  const std::filesystem::path labels = database / "labels.txt";
  return std::filesystem::exists(std::filesystem::symlink_status(labels, ignored)) ? ReadNameLines(labels)
                                                                                   : std::vector<std::string>{};
}

std::vector<std::string> ReadClassList(const std::filesystem::path& file_or_database) {
  std::error_code ignored;
  const bool is_database = std::filesystem::is_directory(file_or_database, ignored);
  const std::filesystem::path file = is_database ? file_or_database / "labels.txt" : file_or_database;
  if (is_database && !std::filesystem::exists(file, ignored)) {
    throw Error(ErrorKind::kBadData, {}, StrCat(Printable(file_or_database.string()), " has no labels.txt"),
                "expected a file with a name of a class a line, or a database whose import made one");
  }
  std::vector<std::string> names = ReadNameLines(file);
  if (names.empty()) throw Error(ErrorKind::kBadData, StrCat(Printable(file.string()), " has no names of classes"));
  CheckClassNames(names, file);
  return names;
}

bool HasControl(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string ClassNameFault(std::string_view name) {
  if (name.empty()) return "is empty";
  if (HasControl(name)) return "has a control character, such as a line's break";
  if (Trim(name).size() != name.size()) return "has a blank at an end";
  if (!IsUtf8(name)) return "is no UTF-8";
  return {};
}

void CheckClassName(std::string_view name) {
  const std::string fault = ClassNameFault(name);
  if (fault.empty()) return;
  throw Error(ErrorKind::kBadData, {}, StrCat("the class's name \"", Printable(name), "\" ", fault),
              IsUtf8(name) ? "names of classes stand one a line (labels.txt), where it would be another"
                           : "JSON and ONNX hold no other text, so it would be another name there");
}

void CheckClassNames(const std::vector<std::string>& names, const std::filesystem::path& file) {
  VisitNameLines(names, file, [](const SourcePlace& place, const std::string& name, size_t line) {
    throw Error(ErrorKind::kBadData, place, StrCat("the class \"", name, "\" is named in line ", line, " already"));
  });
}

std::vector<std::string> ReadNameLines(const std::filesystem::path& file) {
  constexpr int64_t kLimit = int64_t{16} << 20U;
  const std::string ending = AsciiLower(file.extension().string());
  for (const std::string_view other : {".yaml", ".yml", ".json", ".xml", ".prototxt"}) {
    if (ending != other) continue;
    throw Error(ErrorKind::kBadData, {}, StrCat(Printable(file.string()), " is no list of names by its ending"),
                "expected a text with a name of a class a line, that of class 0 first");
  }
  std::vector<std::string> names;
  const std::string text = ListText(ReadFile(file, kLimit), file.string());
  for (const std::string& line : Split(text, '\n')) names.emplace_back(Trim(line));
  while (!names.empty() && names.back().empty()) names.pop_back();
  return names;
}

std::vector<std::string> ReadGivenNames(const std::filesystem::path& file) {
  std::vector<std::string> names = ReadNameLines(file);
  if (names.empty()) throw Error(ErrorKind::kBadData, StrCat(Printable(file.string()), " has no names of classes"));
  const bool are_numbered = AreNumbered(names);
  for (size_t i = 0; are_numbered && i < names.size(); ++i) {
    if (NumberBefore(names[i]) == static_cast<int64_t>(i)) continue;
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file.string(), .line = static_cast<int>(i) + 1, .column = 1},
                StrCat("\"", Printable(names[i]), "\" stands where the name of class ", i, " does"),
                "names stand by their classes' numbers: sort the lines, from 0 on");
  }
  VisitNameLines(names, file, [](const SourcePlace& place, const std::string& name, size_t line) {
    LogWarning(StrCat(place.ToString(), ": \"", name, "\" is also the name in line ", line));
  });
  return names;
}

}  // namespace moka
