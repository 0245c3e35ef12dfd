// A part of YAML, as the tools that write such files spell it: one list, in one line or a line each.
#include "data/labels/yaml_names.h"

#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "data/files/list_text.h"

namespace moka {
namespace {

// A word of YAML without its quotes. Errors: kBadData for a quote that does not end, as where a comma parts a name.
std::string Unquoted(std::string_view word, const std::string& place) {
  word = Trim(word);
  if (word.empty() || (word.front() != '"' && word.front() != '\'')) return std::string(word);
  if (word.size() > 1 && word.front() == word.back()) return std::string(word.substr(1, word.size() - 2));
  throw Error(ErrorKind::kBadData, StrCat(place, ": the quote in ", Printable(word), " does not end"));
}

// A "#" begins a comment at the line's begin and behind a blank: "c#" is a name.
std::string_view WithoutComment(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) return line.substr(0, i);
  }
  return line;
}

}  // namespace

bool IsYamlName(const std::filesystem::path& file) {
  const std::string ending = AsciiLower(file.extension().string());
  return ending == ".yaml" || ending == ".yml";
}

std::vector<std::string> NamesInYaml(const std::filesystem::path& file) {
  std::vector<std::string> names;
  bool is_in = false;
  int64_t number = 0;
  for (const std::string& text : Split(ReadListText(file), '\n')) {
    ++number;
    const std::string_view line = Trim(WithoutComment(text));
    const std::string place = StrCat(Printable(file.string()), ":", number);
    if (line.empty()) continue;
    if (line.starts_with("names:")) {
      const std::string_view list = Trim(line.substr(6));
      is_in = list.empty();
      if (!list.starts_with("[") || !list.ends_with("]")) continue;
      for (const std::string& word : Split(list.substr(1, list.size() - 2), ','))
        names.push_back(Unquoted(word, place));
    } else if (is_in && line.starts_with("- ")) {
      names.push_back(Unquoted(line.substr(2), place));
    } else if (is_in && text.starts_with(" ") && line.find(':') != std::string_view::npos) {
      const size_t colon = line.find(':');
      if (line.substr(0, colon) != StrCat(names.size())) {
        throw Error(ErrorKind::kBadData,
                    StrCat(place, ": \"", Printable(line), "\" has not the number ", names.size(), ", which is next"));
      }
      names.push_back(Unquoted(line.substr(colon + 1), place));
    } else {
      is_in = false;
    }
  }
  return names;
}

}  // namespace moka
