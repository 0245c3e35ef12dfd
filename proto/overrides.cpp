#include "proto/overrides.h"

#include <google/protobuf/message.h>

#include <cctype>
#include <utility>

#include "core/text.h"
#include "proto/field_path.h"

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
                       .place = PlaceNow(ref)});
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

}  // namespace moka
