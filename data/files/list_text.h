// The text of a list or a table that people and their programs wrote: lines end with "\n", "\r\n" or "\r", a byte order
// mark may stand before them, and the last one may lack its end.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// Errors: kBadData at the first line for UTF-16 and UTF-32, which the beginning of the text tells.
void RefuseWideText(std::string_view bytes, const std::string& name);
// The text with "\n" alone at the lines' ends and without the mark. `name` is the file's in errors. Errors: kBadData at
// "file:line" for UTF-16, UTF-32 and other bytes that are no UTF-8.
std::string ListText(std::string bytes, const std::string& name);
// The same of a file. Errors: those of ReadLinesFile, too.
std::string ReadListText(const std::filesystem::path& path);

// A line that has more than blanks.
struct ListTextLine {
  std::string text;
  int number = 0;  // from 1
};
// Blanks before and after a line are left out, or kept where a tab may stand beside an empty cell.
enum class ListBlanks { kTrimmed, kKept };
std::vector<ListTextLine> ListTextLines(const std::string& text, ListBlanks blanks = ListBlanks::kTrimmed);

// A name and the line that gives it; the text lives elsewhere.
struct NamedLine {
  std::string_view name;
  int line = 0;
};
// A sentence for a warning on what a list names again: how many lines do, and the first two lines of one.
// Where lines say something of what they name, `value` is the text of entry i ("label 3") and `kind` what it is
// ("label"): lines of one name that differ in it are counted apart. Empty where no name comes twice.
std::string RepeatedNames(const std::string& list, std::span<const NamedLine> names, std::string_view kind = {},
                          const std::function<std::string(size_t)>& value = {}, std::string_view what = "picture");

// Returns a hint where a list's path leads to no file: the source KIND:LIST,ROOT whose root has it, if the list's own
// folder does, and else where paths start.
std::string RootHint(std::string_view kind, const std::filesystem::path& list, const std::filesystem::path& root,
                     const std::filesystem::path& path);

// A finite number as a float, none for any other text. Nor are a whole number that would become
// another one, and one so near to 0 that it would become 0.
std::optional<float> FloatOfText(std::string_view text);

}  // namespace moka
