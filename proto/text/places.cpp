// Looks places up in `origin`, from the field outwards: a field without a place has its message's.
#include "proto/text/places.h"

#include <string>
#include <utility>

#include "core/text.h"

namespace moka {

SourcePlace PlaceOf(const Origin& origin, std::string_view field_path) {
  std::string_view path = field_path;
  SourcePlace whole{.file = origin.file(), .line = origin.line(), .column = origin.column(), .length = origin.length()};
  while (!path.empty()) {
    const std::string first_of_list = std::string(path) + "[0]";
    for (const FieldPlace& field : origin.field()) {
      if (field.path() != path && field.path() != first_of_list) continue;
      return {.file = field.has_file() ? field.file() : origin.file(),
              .line = field.line(),
              .column = field.column(),
              .length = field.length()};
    }
    // "a.b[0]" is a part of "a.b", and that of "a".
    const size_t cut = path.find_last_of(".[");
    path = cut == std::string_view::npos ? std::string_view{} : path.substr(0, cut);
  }
  return whole;
}

SourcePlace PlaceOf(const LayerParameter& layer, std::string_view field_path) {
  return PlaceOf(layer.origin(), field_path);
}
SourcePlace PlaceOf(const NetParameter& net, std::string_view field_path) { return PlaceOf(net.origin(), field_path); }
SourcePlace PlaceOf(const SolverParameter& solver, std::string_view field_path) {
  return PlaceOf(solver.origin(), field_path);
}
SourcePlace PlaceOf(const BlockParameter& block, std::string_view field_path) {
  return PlaceOf(block.origin(), field_path);
}

std::optional<SourcePlace> PlaceNamedIn(const LayerParameter& layer, std::string_view sentence) {
  constexpr std::string_view kPathChars = "abcdefghijklmnopqrstuvwxyz0123456789_.[]";
  const SourcePlace whole = PlaceOf(layer);
  for (size_t at = sentence.find("_param."); at != std::string_view::npos; at = sentence.find("_param.", at + 1)) {
    const size_t before = sentence.find_last_not_of(kPathChars, at);
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    std::string_view path = sentence.substr(begin, sentence.find_first_not_of(kPathChars, at) - begin);
    while (path.ends_with('.')) path.remove_suffix(1);  // of the sentence
    const SourcePlace place = PlaceOf(layer, path);
    if (place.line != whole.line || place.column != whole.column || place.file != whole.file) return place;
  }
  return std::nullopt;
}

std::string Located(const LayerParameter& layer) {
  const SourcePlace place = PlaceOf(layer);
  return StrCat("layer \"", layer.name(), "\"", place.line == 0 ? std::string() : StrCat(" at ", place.ToString()));
}

bool IsOverridden(const SourcePlace& place) { return place.file.starts_with("override "); }

Error ErrorAt(const LayerParameter& layer, std::string_view field_path, std::string text, std::string hint) {
  Error error(ErrorKind::kConfig, PlaceOf(layer, field_path), std::move(text), std::move(hint));
  for (const std::string& note : layer.origin().note()) error.AddNote(note);
  return error;
}

std::vector<Error> UnknownFieldsOf(const Origin& origin) {
  std::vector<Error> errors;
  for (const UnknownField& field : origin.unknown()) {
    errors.emplace_back(
        ErrorKind::kConfig,
        SourcePlace{.file = origin.file(), .line = field.line(), .column = field.column(), .length = field.length()},
        field.text(), field.hint());
    for (const std::string& note : origin.note()) errors.back().AddNote(note);
  }
  return errors;
}

}  // namespace moka
