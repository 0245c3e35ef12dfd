// The challenge's numbers go through the synsets' names to alphabetical ones, so that all sources number alike.
#include "data/labels/imagenet_classes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/list_text.h"
#include "data/files/mat_file.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKit = "ILSVRC2012_devkit_t12";
constexpr const char* kMeta = "data/meta.mat";
constexpr const char* kTruth = "data/ILSVRC2012_validation_ground_truth.txt";
constexpr int64_t kMostClasses = 100'000;

std::optional<int64_t> WholeOf(std::string_view text) {
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) return {};
  return value;
}

[[noreturn]] void FailAt(const std::string& file, int line, const std::string& why) {
  throw Error(ErrorKind::kBadData, StrCat(Printable(file), line > 0 ? StrCat(":", line) : "", ": ", why));
}

// Numbers the synsets, whose words stand beside them, in alphabetical order.
void TakeSynsets(std::map<std::string, std::string> words, ImagenetClasses& classes) {
  for (auto& [synset, text] : words) {
    classes.synsets.push_back(synset);
    classes.words.push_back(std::move(text));
  }
  if (std::ranges::all_of(classes.words, [](const std::string& text) { return text.empty(); })) classes.words.clear();
}

std::optional<int32_t> NumberOf(const std::vector<std::string>& synsets, std::string_view synset) {
  const auto found = std::ranges::lower_bound(synsets, synset);
  if (found == synsets.end() || *found != synset) return {};
  return static_cast<int32_t>(found - synsets.begin());
}

// The synsets of meta.mat that pictures are of, by the challenge's numbers: those without children, which come first.
std::map<int64_t, std::string> ReadMeta(const std::string& bytes, const std::string& file, ImagenetClasses& classes) {
  std::map<int64_t, std::string> by_number;
  std::map<std::string, std::string> words;
  const std::vector<MatValue> variables = ReadMatFile(bytes, file);
  const auto found = std::ranges::find(variables, "synsets", &MatValue::name);
  if (found == variables.end()) FailAt(file, 0, "has no variable synsets");
  for (int64_t i = 0; i < found->elements(); ++i) {
    const std::vector<double>& number = found->At(i, "ILSVRC2012_ID").numbers;
    const std::vector<double>& children = found->At(i, "num_children").numbers;
    const std::string& synset = found->At(i, "WNID").text;
    if (number.size() != 1 || children.size() != 1 || !IsSynset(synset))
      FailAt(file, 0, StrCat("element ", i + 1, " of synsets has no number, children or synset"));
    if (children[0] != 0) continue;
    if (number[0] != std::floor(number[0]) || number[0] < 1 || number[0] > kMostClasses) {
      FailAt(
          file, 0,
          StrCat("synset ", synset, " has the number ", number[0], ", expected a whole one from 1 to ", kMostClasses));
    }
    const bool is_new = by_number.emplace(static_cast<int64_t>(number[0]), synset).second;
    if (!is_new || !words.emplace(synset, found->At(i, "words").text).second)
      FailAt(file, 0, StrCat("synset ", synset, " or its number stands twice"));
  }
  if (by_number.empty()) FailAt(file, 0, "has no synsets that pictures are of");
  TakeSynsets(std::move(words), classes);
  return by_number;
}

ImagenetClasses ReadKit(const fs::path& path, const std::function<void()>& step) {
  const FileTree tree(path, step);
  ImagenetClasses classes;
  classes.from = path.string();
  const std::string meta = tree.PathOf(kMeta);
  const std::map<int64_t, std::string> by_number = ReadMeta(tree.Read(kMeta), meta, classes);
  const std::string file = tree.PathOf(kTruth);
  for (const ListTextLine& line : ListTextLines(ListText(tree.Read(kTruth), file))) {
    const std::optional<int64_t> number = WholeOf(line.text);
    const auto found = by_number.find(number.value_or(0));
    if (found == by_number.end()) {
      FailAt(file, line.number, StrCat("\"", Printable(line.text), "\" is no number of a synset that ", meta, " has"));
    }
    classes.validation.push_back(*NumberOf(classes.synsets, found->second));
  }
  return classes;
}

// Lines "SYNSET words" or "SYNSET".
void ReadSynsetList(const fs::path& file, ImagenetClasses& classes) {
  std::map<std::string, std::string> words;
  for (const ListTextLine& line : ListTextLines(ReadListText(file))) {
    const size_t blank = line.text.find_first_of(" \t");
    const std::string synset = line.text.substr(0, blank);
    if (!IsSynset(synset))
      FailAt(file.string(), line.number,
             StrCat("\"", Printable(synset), "\" is no synset, expected n and eight digits"));
    const std::string text(blank == std::string::npos ? std::string_view()
                                                      : Trim(std::string_view(line.text).substr(blank)));
    if (!words.emplace(synset, text).second) FailAt(file.string(), line.number, StrCat(synset, " stands twice"));
  }
  if (words.empty()) FailAt(file.string(), 0, "has no synsets");
  TakeSynsets(std::move(words), classes);
}

// Lines "ILSVRC2012_val_00000001.JPEG 65" in any order.
void ReadValidationList(const fs::path& file, ImagenetClasses& classes) {
  std::map<int64_t, int32_t> labels;
  for (const ListTextLine& line : ListTextLines(ReadListText(file))) {
    const size_t blank = line.text.find_last_of(" \t");
    const std::string name = blank == std::string::npos ? line.text : std::string(Trim(line.text.substr(0, blank)));
    const int64_t number = ValidationNumber(fs::path(name).filename().string());
    const std::optional<int64_t> label =
        blank == std::string::npos ? std::nullopt : WholeOf(line.text.substr(blank + 1));
    if (number == 0 || !label || *label < 0 || *label >= std::ssize(classes.synsets)) {
      FailAt(file.string(), line.number,
             StrCat("\"", Printable(line.text), "\" is no picture ILSVRC2012_val_00000001.JPEG with a class below ",
                    classes.synsets.size()));
    }
    if (!labels.emplace(number, static_cast<int32_t>(*label)).second)
      FailAt(file.string(), line.number, StrCat("picture ", number, " stands twice"));
  }
  for (const auto& [number, label] : labels) {
    if (number != std::ssize(classes.validation) + 1)
      FailAt(file.string(), 0, StrCat("picture ", std::ssize(classes.validation) + 1, " is missing"));
    classes.validation.push_back(label);
  }
}

void ReadValidationSynsets(const fs::path& file, ImagenetClasses& classes) {
  for (const ListTextLine& line : ListTextLines(ReadListText(file))) {
    const std::optional<int32_t> number = NumberOf(classes.synsets, line.text);
    if (!number) FailAt(file.string(), line.number, StrCat("\"", Printable(line.text), "\" is none of the synsets"));
    classes.validation.push_back(*number);
  }
}

}  // namespace

std::vector<std::string> ImagenetClasses::Names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < synsets.size(); ++i) {
    const std::string text = i < words.size() ? std::string(Trim(words[i])) : std::string();
    names.push_back(text.empty() ? synsets[i] : StrCat(synsets[i], " ", text));
  }
  return names;
}

bool IsSynset(std::string_view text) {
  return text.size() == 9 && text[0] == 'n' && text.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

int64_t ValidationNumber(std::string_view name) {
  constexpr std::string_view kBegin = "ILSVRC2012_val_";
  if (!name.starts_with(kBegin)) return 0;
  name.remove_prefix(kBegin.size());
  const std::string_view digits = name.substr(0, name.find('.'));
  return digits.size() == 8 ? WholeOf(digits).value_or(0) : 0;
}

ImagenetClasses ReadImagenetClasses(const fs::path& folder, const std::function<void()>& step) {
  std::error_code code;
  for (const fs::path& kit : {folder / StrCat(kKit, ".tar.gz"), folder / StrCat(kKit, ".tar"), folder / kKit}) {
    if (fs::exists(kit, code)) return ReadKit(kit, step);
  }
  ImagenetClasses classes;
  for (const char* name : {"synset_words.txt", "synsets.txt"}) {
    if (!classes.from.empty() || !fs::exists(folder / name, code)) continue;
    ReadSynsetList(folder / name, classes);
    classes.from = (folder / name).string();
  }
  if (classes.from.empty()) return classes;
  if (std::ssize(classes.synsets) > kMostClasses)
    FailAt(classes.from, 0, StrCat("has more than ", kMostClasses, " synsets"));
  const fs::path list = folder / "val.txt";
  const fs::path synsets = folder / "imagenet_2012_validation_synset_labels.txt";
  if (fs::exists(list, code)) {
    ReadValidationList(list, classes);
  } else if (fs::exists(synsets, code)) {
    ReadValidationSynsets(synsets, classes);
  }
  return classes;
}

}  // namespace moka
