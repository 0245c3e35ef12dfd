// One pass over the lines, each split at its tabs; a set for each side sees names that stand twice.
#include "tools/exchange/torch_names.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "proto/text/text_format.h"
#include "proto/weights/blob_name.h"

namespace moka {
namespace {

constexpr std::string_view kExpected = "a table of names (names.torch.tsv)";

class TableReader {
 public:
  TableReader(std::string_view text, const std::string& file) : text_(text) { names_.file = file; }

  TorchNames Run() {
    for (const std::string& line : Split(text_, '\n')) {
      ++line_;
      ReadLine(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
    }
    CheckWhole();
    return std::move(names_);
  }

 private:
  // `column` counts from 0 in the present line.
  [[noreturn]] void Fail(size_t column, std::string text, std::string hint = {}) const {
    int place = 1;
    int length = 1;
    for (size_t i = 0; i <= column && i < columns_.size(); ++i) {
      length = std::max(1, static_cast<int>(columns_[i].size()));
      if (i == column) break;
      place += static_cast<int>(columns_[i].size());
      place += 8 - (place - 1) % 8;  // a tab
    }
    throw Error(ErrorKind::kConfig, {names_.file, line_, place, length}, std::move(text), std::move(hint));
  }
  [[noreturn]] void FailWhole(std::string text) const {
    throw Error(ErrorKind::kConfig, {.file = names_.file}, std::move(text));
  }

  void ReadLine(const std::string& line) {
    columns_ = Split(line, '\t');
    if (Trim(line).empty() || line.starts_with('#')) return;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].empty() || Trim(columns_[i]) != columns_[i])
        Fail(i, "a column is empty or has a blank at an end; a tab stands between two columns");
    }
    line.starts_with('@') ? ReadWord() : ReadRow();
  }

  void ReadWord() {
    const std::string& word = columns_[0];
    if (!words_.insert(word).second) Fail(0, StrCat(word, " stands twice"));
    if (word == "@mean" || word == "@std") {
      std::vector<double>& numbers = word == "@mean" ? names_.means : names_.deviations;
      for (size_t i = 1; i < columns_.size(); ++i) numbers.push_back(NumberAt(i));
      if (numbers.size() != 3) Fail(0, StrCat(word, " wants 3 numbers: of R, G and B"));
    } else if (word == "@leaves_out") {
      if (columns_.size() < 2) Fail(0, "@leaves_out wants beginnings of names");
      names_.left_out.assign(columns_.begin() + 1, columns_.end());
    } else if (word == "@module" || word == "@differs") {
      if (columns_.size() != 2) Fail(0, StrCat(word, " wants one column more"));
      (word == "@module" ? names_.module : names_.difference) = columns_[1];
    } else {
      Fail(0, StrCat("unknown word ", Printable(word)),
           DidYouMean(word, {"@module", "@mean", "@std", "@differs", "@leaves_out"}));
    }
  }

  double NumberAt(size_t i) const {
    const std::string& text = columns_[i];
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = code == std::errc() && end == text.data() + text.size() && std::isfinite(value);
    if (!is_number || (columns_[0] == "@std" && value <= 0))
      Fail(i, StrCat("expected a ", columns_[0] == "@std" ? "positive " : "", "number, found ", Printable(text)));
    return value;
  }

  void ReadRow() {
    if (columns_.size() != 2 && columns_.size() != 3)
      Fail(0, StrCat("a row has 2 or 3 columns, the name in PyTorch, LAYER/INDEX and a word, but this has ",
                     columns_.size()));
    TorchNames::Row row{.tensor = columns_[0], .layer = {}, .line = line_};
    NamedBlob blob{.layer = {}, .index = -1, .shape = {}, .values = {}};
    SplitBlobName(columns_[1], blob);
    if (blob.index < 0) Fail(1, StrCat("expected LAYER/INDEX, found ", Printable(columns_[1])));
    row.layer = blob.layer;
    row.index = blob.index;
    if (columns_.size() == 3) {
      row.is_rgb = columns_[2] == "rgb";
      row.is_of_classes = columns_[2] == "classes";
      if (!row.is_rgb && !row.is_of_classes)
        Fail(2, StrCat("unknown word ", Printable(columns_[2])), DidYouMean(columns_[2], {"rgb", "classes"}));
    }
    if (!tensors_.insert(row.tensor).second) Fail(0, StrCat("\"", Printable(row.tensor), "\" stands twice"));
    if (!blobs_.insert(columns_[1]).second) Fail(1, StrCat("blob \"", Printable(columns_[1]), "\" stands twice"));
    names_.rows.push_back(std::move(row));
  }

  void CheckWhole() const {
    if (names_.module.empty()) FailWhole("the table has no @module, which names what is called so in PyTorch");
    if (!names_.difference.empty() && !names_.rows.empty()) FailWhole("a table with @differs has no rows");
    if (names_.difference.empty() && names_.rows.empty()) FailWhole("the table has no rows");
    const bool has_rgb = std::ranges::any_of(names_.rows, &TorchNames::Row::is_rgb);
    if (has_rgb != !names_.means.empty() || has_rgb != !names_.deviations.empty())
      FailWhole("@mean, @std and the word rgb in a row belong together");
  }

  std::string_view text_;
  TorchNames names_;
  int line_ = 0;
  std::vector<std::string> columns_;
  std::set<std::string> words_;
  std::set<std::string> tensors_;
  std::set<std::string> blobs_;
};

}  // namespace

TorchNames TorchNamesFromText(std::string_view text, const std::string& file) { return TableReader(text, file).Run(); }

TorchNames ReadTorchNames(const std::filesystem::path& file) {
  return TorchNamesFromText(ReadTextFile(file, kExpected), file.string());
}

}  // namespace moka
