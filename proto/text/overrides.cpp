// Tells an override from a path of a file by its form, splits it at the first "=" outside brackets, and sets the field
// through proto/text/field_path.h. Each remembers its place, so that an error about the value names the word of the
// command line.
#include "proto/text/overrides.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/text.h"
#include "proto/text/field_path.h"
#include "proto/text/schema_names.h"

namespace moka {
namespace {

// The first such character outside brackets, in which anything may stand; npos also where a bracket is not closed.
size_t FindOutsideSelectors(std::string_view text, char wanted) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == wanted) return i;
    if (text[i] != '[') continue;
    i = SelectorEnd(text, i);
    if (i == std::string_view::npos) break;
  }
  return std::string_view::npos;
}

size_t FindEquals(std::string_view text) { return FindOutsideSelectors(text, '='); }

// Whether a path begins here as paths of files seldom do: a field's name, then its selector, a dot or nothing.
bool BeginsWithField(std::string_view path) {
  size_t end = 0;
  while (end < path.size() && (std::isalnum(static_cast<unsigned char>(path[end])) != 0 || path[end] == '_')) ++end;
  return end > 0 && std::isdigit(static_cast<unsigned char>(path[0])) == 0 &&
         (end == path.size() || path[end] == '[' || path[end] == '.' || path[end] == ' ');
}

bool HasSlash(std::string_view path) { return FindOutsideSelectors(path, '/') != std::string_view::npos; }

SourcePlace PlaceNow(const FieldRef& ref) {
  if (ref.scope == nullptr) return {};
  for (const FieldPlace& field : ref.scope->field()) {
    if (field.path() != ref.scope_path) continue;
    return {.file = ref.scope->file(), .line = field.line(), .column = field.column(), .length = field.length()};
  }
  return {};
}

std::vector<AppliedOverride> Delete(std::string_view text, std::string_view path, google::protobuf::Message& root) {
  std::vector<AppliedOverride> applied;
  const std::vector<FieldRef> refs = FindFields(root, path, PathUse::kDelete);
  applied.reserve(refs.size());
  for (const FieldRef& ref : refs) {
    applied.push_back({.override_text = std::string(text),
                       .path = ref.path,
                       .old_value = ValueText(ref),
                       .new_value = {},
                       .place = PlaceNow(ref),
                       .key = ref.key});
  }
  // From the last, so that the earlier ones keep their index.
  for (auto ref = refs.rbegin(); ref != refs.rend(); ++ref) DeleteField(*ref);
  return applied;
}

std::vector<AppliedOverride> Apply(std::string_view text, google::protobuf::Message& root) {
  if (text.starts_with("~")) {
    if (FindEquals(text) != std::string_view::npos) throw Error(ErrorKind::kUsage, "deleting takes no value");
    return Delete(text, text.substr(1), root);
  }
  const bool append = text.starts_with("+");
  const size_t equals = FindEquals(text);
  if (equals == std::string_view::npos) throw Error(ErrorKind::kUsage, "expected path=value, +path=value or ~path");
  const std::string_view path = text.substr(append ? 1 : 0, equals - (append ? 1 : 0));
  const std::string_view value = text.substr(equals + 1);
  std::vector<AppliedOverride> applied;
  for (const FieldRef& ref : FindFields(root, path, append ? PathUse::kAppend : PathUse::kSet)) {
    AppliedOverride one{.override_text = std::string(text),
                        .path = ref.path,
                        .old_value = ValueText(ref),
                        .new_value = {},
                        .place = PlaceNow(ref)};
    one.key = ref.key;
    one.is_added = append && ref.field->is_repeated();
    SetField(ref, value, append, StrCat("override ", Printable(text)));
    one.new_value = ValueText(ref);
    applied.push_back(std::move(one));
  }
  return applied;
}

std::vector<AppliedOverride> ApplyNamed(std::string_view text, google::protobuf::Message& root) {
  try {
    return Apply(text, root);
  } catch (const Error& error) {
    throw Error(error.kind(), SourcePlace{}, StrCat("override \"", Printable(text), "\": ", error.text()),
                error.hint());
  }
}

}  // namespace

bool IsOverride(std::string_view word) {
  if (word.starts_with("~")) return BeginsWithField(word.substr(1)) && !HasSlash(word.substr(1));
  const std::string_view rest = word.substr(word.starts_with("+") ? 1 : 0);
  const size_t equals = FindEquals(rest);
  // One whose bracket is not closed is told so when it is applied.
  if (equals == std::string_view::npos) return rest.find('=') != std::string_view::npos && BeginsWithField(rest);
  return BeginsWithField(rest.substr(0, equals)) && !HasSlash(rest.substr(0, equals));
}

std::optional<std::string> HintForMeantOverride(std::string_view word) {
  const std::string_view rest = word.substr(word.starts_with("+") || word.starts_with("~") ? 1 : 0);
  const size_t end = rest.find_first_of("=[:");
  if (end == std::string_view::npos || rest.substr(0, end).find('/') != std::string_view::npos) return std::nullopt;
  std::string field(Trim(rest.substr(0, end)));
  std::ranges::replace(field, '-', '_');
  std::vector<std::string> fields = FieldNames(*SolverParameter::descriptor());
  for (std::string& name : FieldNames(*NetParameter::descriptor())) fields.push_back(std::move(name));
  const bool is_known = std::ranges::find(fields, field) != fields.end();
  const std::string value(Trim(rest.substr(end + 1)));
  if (rest[end] == '[') {
    if (!is_known) return std::nullopt;
    return StrCat("give the value it is to have: ", Printable(word), "=VALUE");
  }
  if (is_known) return StrCat("write ", field, "=", Printable(value));
  const std::string nearest = DidYouMean(field, fields);
  if (rest[end] == ':') return nearest.empty() ? std::nullopt : std::optional(nearest);
  return nearest.empty() ? "name a field before the =, such as base_lr=0.02" : nearest;
}

std::string_view PathOfOverride(std::string_view text) {
  text.remove_prefix(text.starts_with("+") || text.starts_with("~") ? 1 : 0);
  std::string_view path = Trim(text.substr(0, FindEquals(text)));
  for (const std::string_view target : {"solver.", "net."}) {
    if (path.starts_with(target)) path.remove_prefix(target.size());
  }
  return path;
}

std::string_view ValueOfOverride(std::string_view text) {
  const size_t equals = FindEquals(text);
  if (equals == std::string_view::npos) return {};
  const std::string_view value = Trim(text.substr(equals + 1));
  const bool is_quoted =
      value.size() > 1 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front();
  return is_quoted ? value.substr(1, value.size() - 2) : value;
}

bool SpeaksOfNet(std::string_view text) {
  const std::string_view path = text.substr(text.starts_with("+") || text.starts_with("~") ? 1 : 0);
  const std::string step(path.substr(0, path.find_first_of(".[= ")));
  return NetParameter::descriptor()->FindFieldByName(step) != nullptr &&
         SolverParameter::descriptor()->FindFieldByName(step) == nullptr;
}

std::vector<AppliedOverride> ApplyOverride(std::string_view text, NetParameter& net) { return ApplyNamed(text, net); }
std::vector<AppliedOverride> ApplyOverride(std::string_view text, SolverParameter& solver) {
  return ApplyNamed(text, solver);
}

std::vector<std::string> Layered(const std::vector<std::string>& under, const std::vector<std::string>& over) {
  std::vector<std::string> joined;
  for (const std::string& text : under) {
    const auto is_set_anew = [&](const std::string& later) { return PathOfOverride(later) == PathOfOverride(text); };
    if (std::ranges::none_of(over, is_set_anew)) joined.push_back(text);
  }
  joined.insert(joined.end(), over.begin(), over.end());
  return joined;
}

std::vector<AppliedOverride> ApplyOverrides(const std::vector<std::string>& texts, SolverParameter& solver) {
  OverridesSoFar so_far;
  std::vector<AppliedOverride> all;
  for (const std::string& text : texts) {
    const std::vector<AppliedOverride> applied = ApplyOverride(text, solver);
    so_far.Add(applied);
    all.insert(all.end(), applied.begin(), applied.end());
  }
  return all;
}

void OverridesSoFar::Add(const std::vector<AppliedOverride>& applied) {
  // Whether what stands at `key` is set anew, or deleted, with what the override speaks of.
  const auto is_undone = [](const AppliedOverride& now, const std::string& key, const std::string& value) {
    if (now.is_added || !key.starts_with(now.key)) return false;
    if (key.size() == now.key.size()) return value != now.new_value;
    return key[now.key.size()] == '.' || key[now.key.size()] == '[';
  };
  Earlier own;
  for (const AppliedOverride& now : applied) {
    for (Earlier& earlier : earlier_) {
      const size_t undone =
          std::erase_if(earlier.values, [&](const auto& one) { return is_undone(now, one.first, one.second); });
      if (undone == 0 || !earlier.values.empty()) continue;
      throw Error(ErrorKind::kUsage, {},
                  StrCat("override \"", Printable(earlier.text), "\" comes to nothing: \"",
                         Printable(now.override_text), "\" stands behind it"),
                  "leave one of them out");
    }
    own.text = now.override_text;
    if (!now.new_value.empty()) own.values[now.key] = now.new_value;
  }
  earlier_.push_back(std::move(own));
}

}  // namespace moka
