// Reads a page of Markdown line by line and refuses it at the line where it departs from its form.
#include "layers/net/manual_page.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr std::string_view kFence = "```";

// Goes through a page line by line.
class PageReader {
 public:
  explicit PageReader(const ManualFile& file) : file_(file), lines_(Split(file.text, '\n')) {}

  // Returns what follows the mark in the next line that is not empty ("# ReLU" after "# ").
  std::string Title(std::string_view mark) {
    SkipEmpty();
    if (!Has() || !Line().starts_with(mark)) Fail(StrCat("\"", mark, "TYPE\""));
    return lines_[at_++].substr(mark.size());
  }

  void Heading(std::string_view name) {
    SkipEmpty();
    if (!Has() || Line() != StrCat("## ", name)) Fail(StrCat("\"## ", name, "\""));
    ++at_;
  }

  // The text up to the next heading, its paragraphs in one line each; rows of tables and items of lists stay lines.
  std::string Prose() {
    SkipEmpty();
    std::string text;
    for (; Has() && !Line().starts_with("## "); ++at_) {
      const std::string_view line = Trim(Line());
      const bool begins = line.empty() || line.starts_with("|") || line.starts_with("- ") || text.ends_with("\n");
      if (!text.empty()) text += begins ? "\n" : " ";
      text += line;
    }
    text = Trim(text);
    if (text.empty()) Fail("text");
    return text;
  }

  // The lines of a fenced block.
  std::string Fenced() {
    SkipEmpty();
    if (!Has() || Line() != kFence) Fail(StrCat("\"", kFence, "\""));
    std::string text;
    for (++at_; Has() && Line() != kFence; ++at_) text += lines_[at_] + "\n";
    if (!Has()) Fail(StrCat("\"", kFence, "\""));
    ++at_;
    return std::string(Trim(text));
  }

  void End() {
    SkipEmpty();
    if (Has()) Fail("the end");
  }

 private:
  bool Has() const { return at_ < lines_.size(); }
  std::string_view Line() const { return lines_[at_]; }
  void SkipEmpty() {
    while (Has() && Line().empty()) ++at_;
  }
  [[noreturn]] void Fail(const std::string& expected) const {
    const std::string found = Has() ? StrCat("\"", Printable(Line()), "\"") : "the end";
    throw Error(ErrorKind::kBadData, {.file = std::string(file_.path), .line = static_cast<int>(at_) + 1},
                StrCat("expected ", expected, ", found ", found));
  }

  ManualFile file_;
  std::vector<std::string> lines_;
  size_t at_ = 0;
};

}  // namespace

ManualPage ReadManualPage(const ManualFile& file) {
  PageReader reader(file);
  ManualPage page;
  page.type = reader.Title("# ");
  page.doc = reader.Prose();
  reader.Heading("Formula");
  page.formula = reader.Prose();
  reader.Heading("Gradient");
  page.gradient = reader.Prose();
  reader.Heading("Example");
  page.example = reader.Fenced();
  reader.Heading("Source");
  page.source = reader.Prose();
  reader.End();
  return page;
}

const ManualPage& ManualPageOf(std::string_view type) {
  static const std::vector<ManualPage> pages = [] {
    std::vector<ManualPage> all;
    for (const ManualFile& file : ManualFiles()) all.push_back(ReadManualPage(file));
    return all;
  }();
  const auto page = std::ranges::find(pages, type, &ManualPage::type);
  Require(page != pages.end(), StrCat("layer type ", type, " has a page"));
  return *page;
}

std::string FirstSentence(const ManualPage& page) { return page.doc.substr(0, page.doc.find(". ")); }

}  // namespace moka
