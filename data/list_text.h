// The text of a list or a table that people and their programs wrote: lines end with "\n", "\r\n" or "\r", a byte order
// mark may stand before them, and the last one may lack its end.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// Errors: kBadData at the first line for UTF-16 and UTF-32, which the beginning of the text tells.
void RefuseWideText(std::string_view bytes, const std::string& name);
// The text with "\n" alone at the lines' ends and without the mark. `name` is the file's in errors. Errors: kBadData at
// "file:line" for UTF-16, UTF-32 and other bytes that are no text.
std::string ListText(std::string bytes, const std::string& name);
// The same of a file. Errors: those of ReadLinesFile, too.
std::string ReadListText(const std::filesystem::path& path);

// A line that is not empty, without blanks before and after it.
struct ListTextLine {
  std::string text;
  int number = 0;  // from 1
};
std::vector<ListTextLine> ListTextLines(const std::string& text);

// A finite number as a float, none for any other text. A whole number that would become another one is none, too.
std::optional<float> FloatOfText(std::string_view text);

}  // namespace moka
