// A path is parsed into steps and walked by reflection, branching where a selector matches several elements.
#include "proto/text/field_path.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/strutil.h>
#include <google/protobuf/text_format.h>

#include <charconv>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "proto/text/lost_numbers.h"
#include "proto/text/origins.h"
#include "proto/text/schema_names.h"
#include "proto/text/text_format.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

constexpr size_t kPathLimit = 64;  // steps

// "name", "name[selector]" or name["selector"], which is a name to the letter.
struct Step {
  std::string name;
  std::optional<std::string> selector;
  bool is_literal = false;
};

[[noreturn]] void ThrowUsage(std::string text, std::string hint = {}) {
  throw Error(ErrorKind::kUsage, SourcePlace{}, std::move(text), std::move(hint));
}

void TakeSelector(std::string_view text, Step& step) {
  if (text.empty() || (text[0] != '"' && text[0] != '\'')) {
    step.selector = std::string(text);
    return;
  }
  step.is_literal = true;
  step.selector = google::protobuf::UnescapeCEscapeString(std::string(text.substr(1, text.size() - 2)));
}

std::vector<Step> ParseSteps(std::string_view path) {
  std::vector<Step> steps;
  size_t i = 0;
  while (i <= path.size()) {
    if (steps.size() == kPathLimit) ThrowUsage(StrCat("the path has more than ", kPathLimit, " steps"));
    const size_t end = std::min(path.find_first_of(".[", i), path.size());
    Step step{.name = std::string(Trim(path.substr(i, end - i))), .selector = std::nullopt, .is_literal = false};
    if (step.name.empty()) ThrowUsage(StrCat("path \"", Printable(path), "\" has an empty step"));
    i = end;
    if (i < path.size() && path[i] == '[') {
      const size_t close = SelectorEnd(path, i);
      if (close == std::string_view::npos) ThrowUsage(StrCat("path \"", Printable(path), "\" has \"[\" without \"]\""));
      TakeSelector(path.substr(i + 1, close - i - 1), step);
      i = close + 1;
      if (i < path.size() && path[i] != '.')
        ThrowUsage(StrCat("expected \".\" after \"]\" in path \"", Printable(path), "\""));
    }
    steps.push_back(std::move(step));
    ++i;
  }
  return steps;
}

bool IsPattern(std::string_view selector) { return selector.find_first_of("*?") != std::string_view::npos; }

std::optional<int> AsIndex(std::string_view selector) {
  int index = 0;
  const auto [end, error] = std::from_chars(selector.data(), selector.data() + selector.size(), index);
  if (selector.empty() || error != std::errc{} || end != selector.data() + selector.size() || index < 0)
    return std::nullopt;
  return index;
}

// The `name` of an element; null for elements without one.
std::optional<std::string> NameOf(const Message& parent, const FieldDescriptor& list, int index) {
  if (list.message_type() == nullptr) return std::nullopt;
  const Message& element = parent.GetReflection()->GetRepeatedMessage(parent, &list, index);
  const FieldDescriptor* name = element.GetDescriptor()->FindFieldByName("name");
  if (name == nullptr || name->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return std::nullopt;
  return element.GetReflection()->GetString(element, name);
}

struct Elements {
  std::vector<int> indices;
  bool by_pattern = false;
};

Elements SelectElements(const Message& parent, const FieldDescriptor& list, const Step& step) {
  const std::string& selector = *step.selector;
  Elements found{.indices = {}, .by_pattern = !step.is_literal && IsPattern(selector)};
  const int count = parent.GetReflection()->FieldSize(parent, &list);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    const std::optional<std::string> name = NameOf(parent, list, i);
    if (name) names.push_back(*name);
    const bool matches = found.by_pattern ? MatchesPattern(name.value_or(""), selector) : name == selector;
    if (matches) found.indices.push_back(i);
  }
  if (!found.indices.empty()) return found;
  const std::optional<int> index = step.is_literal ? std::nullopt : AsIndex(selector);
  if (index && *index < count) return {.indices = {*index}, .by_pattern = false};
  if (index)
    ThrowUsage(StrCat(list.name(), "[", *index, "] does not exist: there are ", count),
               StrCat("append one with \"+...", list.name(), "=...\""));
  if (names.empty() && count > 0)
    ThrowUsage(StrCat("elements of \"", list.name(), "\" have no names"), "select by index from 0");
  ThrowUsage(StrCat("no ", list.name(), " is named \"", Printable(selector), "\""), DidYouMean(selector, names));
}

// A name as a path selects it.
std::string AsSelector(const std::string& name) {
  const bool is_plain =
      name.find_first_of("*?\"'") == std::string::npos && SelectorEnd("[" + name + "]", 0) == name.size() + 1;
  return is_plain && !AsIndex(name) ? name : "\"" + google::protobuf::CEscape(name) + "\"";
}

class Finder {
 public:
  Finder(const std::vector<Step>& steps, PathUse use) : steps_(steps), use_(use) {}

  void Walk(Message& message, size_t at, bool by_pattern, const FieldRef& here) {
    const Step& step = steps_[at];
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(step.name);
    if (field == nullptr || field->name() == "origin") {
      ThrowUsage(StrCat(ShortName(*message.GetDescriptor()), " has no field \"", Printable(step.name), "\""),
                 FieldHint(*message.GetDescriptor(), step.name));
    }
    if (step.selector && !field->is_repeated())
      ThrowUsage(StrCat("\"", field->name(), "\" is no list: remove \"[", Printable(*step.selector), "]\""));
    FieldRef next{.parent = &message,
                  .field = field,
                  .index = -1,
                  .path = Joined(here.path, field->name()),
                  .key = Joined(here.key, field->name()),
                  .scope = here.scope,
                  .scope_path = Joined(here.scope_path, field->name())};
    const bool is_last = at + 1 == steps_.size();
    if (!is_last && field->message_type() == nullptr) {
      ThrowUsage(StrCat("\"", field->name(), "\" is ", TakenBy(*field), ", it has no field \"",
                        Printable(steps_[at + 1].name), "\""));
    }
    if (!field->is_repeated()) return is_last ? Take(next) : IntoMessage(next, at, by_pattern);
    if (is_last && !step.selector) return Take(next);
    if (is_last && use_ == PathUse::kAppend)
      ThrowUsage(StrCat("append takes a list, not its element: remove \"[", Printable(*step.selector), "]\""));
    IntoList(next, at, by_pattern);
  }

  std::vector<FieldRef> found;

 private:
  static std::string Joined(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }

  void Take(const FieldRef& ref) {
    if (use_ == PathUse::kDelete) {
      const Reflection& reflection = *ref.parent->GetReflection();
      const bool is_set = ref.field->is_repeated() ? reflection.FieldSize(*ref.parent, ref.field) > 0
                                                   : reflection.HasField(*ref.parent, ref.field);
      if (!is_set) return;
    }
    found.push_back(ref);
  }

  void IntoMessage(FieldRef ref, size_t at, bool by_pattern) {
    const Reflection& reflection = *ref.parent->GetReflection();
    const bool may_make = use_ == PathUse::kAppend || (use_ == PathUse::kSet && !by_pattern);
    if (!reflection.HasField(*ref.parent, ref.field) && !may_make) {
      CheckRest(*ref.field->message_type(), at + 1);
      return;
    }
    Message& inner = *reflection.MutableMessage(ref.parent, ref.field);
    Descend(inner, at, by_pattern, std::move(ref));
  }

  void IntoList(const FieldRef& list, size_t at, bool by_pattern) {
    const Reflection& reflection = *list.parent->GetReflection();
    const int count = reflection.FieldSize(*list.parent, list.field);
    const std::optional<std::string>& selector = steps_[at].selector;
    Elements elements;
    if (selector && by_pattern && AsIndex(*selector).value_or(0) >= count) {
      return;  // a pattern further out passes over what lacks this element
    }
    if (selector) {
      elements = SelectElements(*list.parent, *list.field, steps_[at]);
    } else if (count == 1) {
      elements.indices = {0};
    } else if (count == 0) {
      ThrowUsage(StrCat("there is no \"", list.field->name(), "\" yet to set a field of"),
                 at + 2 == steps_.size() ? StrCat("\"+", list.path, "={", steps_[at + 1].name, ": VALUE}\" makes one")
                                         : StrCat("\"+", list.path, "={...}\" makes one"));
    } else {
      ThrowUsage(StrCat("\"", list.field->name(), "\" is a list of ", count),
                 StrCat("select with ", list.field->name(), "[NAME or index]"));
    }
    for (const int i : elements.indices) {
      FieldRef ref = list;
      ref.index = i;
      const std::optional<std::string> name = NameOf(*list.parent, *list.field, i);
      ref.key += StrCat("[", name.value_or(""), " ", i, "]");
      ref.path += "[" + (name && !name->empty() ? AsSelector(*name) : std::to_string(i)) + "]";
      ref.scope_path += "[" + std::to_string(i) + "]";
      if (at + 1 == steps_.size()) {
        found.push_back(std::move(ref));
      } else {
        Descend(*reflection.MutableRepeatedMessage(list.parent, list.field, i), at, by_pattern || elements.by_pattern,
                std::move(ref));
      }
    }
  }

  void Descend(Message& message, size_t at, bool by_pattern, FieldRef ref) {
    if (Origin* own = MutableOriginIfSet(message)) {
      ref.scope = own;
      ref.scope_path.clear();
    }
    Walk(message, at + 1, by_pattern, ref);
  }

  static Origin* MutableOriginIfSet(Message& message) {
    return OriginOf(message) == nullptr ? nullptr : MutableOrigin(message);
  }

  // A wrong name is an error even where nothing is set.
  void CheckRest(const google::protobuf::Descriptor& type, size_t at) const {
    const google::protobuf::Descriptor* here = &type;
    for (; at < steps_.size() && here != nullptr; ++at) {
      const FieldDescriptor* field = here->FindFieldByName(steps_[at].name);
      if (field == nullptr)
        ThrowUsage(StrCat(ShortName(*here), " has no field \"", Printable(steps_[at].name), "\""),
                   FieldHint(*here, steps_[at].name));
      here = field->message_type();
    }
  }

  const std::vector<Step>& steps_;
  const PathUse use_;
};

// Swallows the parser's own messages, which name neither the field nor what it takes.
class Quiet : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int /*line*/, google::protobuf::io::ColumnNumber /*column*/, const std::string& message) override {
    if (text.empty()) text = message;
  }
  std::string text;
};

std::string Quoted(std::string_view value) { return "\"" + google::protobuf::CEscape(std::string(value)) + "\""; }

bool IsQuoted(std::string_view value) {
  return value.size() >= 2 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0];
}

// A comment would end the value where it begins: 1#000 is not 1.
bool HasComment(std::string_view value) {
  char quote = '\0';
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (quote == '\0' && c == '#') return true;
    if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else if (quote != '\0') {
      if (c == '\\') ++i;
      if (c == quote) quote = '\0';
    }
  }
  return false;
}

// One value, set or added to the list.
void ParseValue(Message& message, const FieldDescriptor& field, std::string_view value) {
  std::string text(Trim(value));
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && !IsQuoted(text)) text = Quoted(text);
  if (field.message_type() != nullptr && !text.starts_with("{") && !text.starts_with("<")) text = "{" + text + "}";
  Quiet quiet;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&quiet);
  parser.SetRecursionLimit(kTextDepthLimit);
  const bool has_comment = HasComment(text);
  if (!has_comment && parser.ParseFieldValueFromString(text, &field, &message)) {
    const std::string whole = StrCat(field.name(), field.message_type() == nullptr ? ": " : " ", text);
    for (const LostNumber& lost : LostNumbers(whole, message.GetDescriptor()))
      ThrowUsage(LostNumberText(lost.word), LostNumberHint());
    return;
  }
  std::string hint;
  if (field.enum_type() != nullptr) hint = DidYouMean(value, ValueNames(*field.enum_type()));
  if (field.message_type() != nullptr) hint = quiet.text;
  if (has_comment) hint = "a value ends at no \"#\"; texts that have one stand in quotes";
  ThrowUsage(StrCat("\"", field.name(), "\" takes ", TakenBy(field), ", found \"", Printable(value), "\""), hint);
}

// Values of "[a, b]" or "a, b" for scalars; a message is one value.
std::vector<std::string> ListValues(const FieldDescriptor& field, std::string_view value) {
  value = Trim(value);
  if (field.message_type() != nullptr || IsQuoted(value)) return {std::string(value)};
  if (value.starts_with("[") && value.ends_with("]")) value = Trim(value.substr(1, value.size() - 2));
  if (value.empty()) return {};
  return Split(value, ',');
}

void NotePlace(const FieldRef& ref, const std::string& source) {
  if (ref.scope == nullptr || source.empty()) return;
  ForgetField(*ref.scope, ref.scope_path);
  FieldPlace& place = *ref.scope->add_field();
  place.set_path(ref.scope_path);
  place.set_file(source);
}

}  // namespace

bool MatchesPattern(std::string_view text, std::string_view pattern) {
  size_t t = 0;
  size_t p = 0;
  size_t star = std::string_view::npos;
  size_t retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

size_t SelectorEnd(std::string_view text, size_t open) {
  const char quote = open + 1 < text.size() ? text[open + 1] : '\0';
  if (quote == '"' || quote == '\'') {
    for (size_t i = open + 2; i < text.size(); ++i) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == quote)
        return i + 1 < text.size() && text[i + 1] == ']' ? i + 1 : std::string_view::npos;
    }
    return std::string_view::npos;
  }
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

std::vector<FieldRef> FindFields(Message& root, std::string_view path, PathUse use) {
  const std::vector<Step> steps = ParseSteps(path);
  Finder finder(steps, use);
  FieldRef here;
  here.scope = OriginOf(root) == nullptr ? nullptr : MutableOrigin(root);
  finder.Walk(root, 0, false, here);
  if (finder.found.empty()) {
    ThrowUsage(StrCat("path \"", Printable(path), "\" matches nothing that is set"),
               use == PathUse::kSet ? StrCat("\"+", Printable(path), "=...\" makes it") : std::string{});
  }
  return std::move(finder.found);
}

void SetField(const FieldRef& ref, std::string_view value, bool append, const std::string& source) {
  const Reflection& reflection = *ref.parent->GetReflection();
  NotePlace(ref, source);
  if (!ref.field->is_repeated()) {
    reflection.ClearField(ref.parent, ref.field);
    return ParseValue(*ref.parent, *ref.field, value);
  }
  if (ref.index >= 0) {
    ParseValue(*ref.parent, *ref.field, value);
    reflection.SwapElements(ref.parent, ref.field, ref.index, reflection.FieldSize(*ref.parent, ref.field) - 1);
    reflection.RemoveLast(ref.parent, ref.field);
    return;
  }
  if (!append) reflection.ClearField(ref.parent, ref.field);
  for (const std::string& one : ListValues(*ref.field, value)) {
    ParseValue(*ref.parent, *ref.field, one);
    if (ref.field->message_type() == nullptr || source.empty()) continue;
    const int last = reflection.FieldSize(*ref.parent, ref.field) - 1;
    if (Origin* own = MutableOrigin(*reflection.MutableRepeatedMessage(ref.parent, ref.field, last))) {
      own->Clear();
      own->set_file(source);
    }
  }
}

void DeleteField(const FieldRef& ref) {
  const Reflection& reflection = *ref.parent->GetReflection();
  if (ref.scope != nullptr) {
    const size_t cut = ref.index < 0 ? std::string::npos : ref.scope_path.rfind('[');
    ForgetField(*ref.scope, std::string_view(ref.scope_path).substr(0, cut));
  }
  if (ref.index < 0) return reflection.ClearField(ref.parent, ref.field);
  const int count = reflection.FieldSize(*ref.parent, ref.field);
  for (int i = ref.index; i + 1 < count; ++i) reflection.SwapElements(ref.parent, ref.field, i, i + 1);
  reflection.RemoveLast(ref.parent, ref.field);
}

std::string ValueText(const FieldRef& ref) {
  const Reflection& reflection = *ref.parent->GetReflection();
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  const auto print = [&](int index) {
    std::string text;
    if (ref.field->message_type() == nullptr) {
      printer.PrintFieldValueToString(*ref.parent, ref.field, index, &text);
      return text;
    }
    const Message& value = index < 0 ? reflection.GetMessage(*ref.parent, ref.field)
                                     : reflection.GetRepeatedMessage(*ref.parent, ref.field, index);
    const std::unique_ptr<Message> clean(value.New());
    clean->CopyFrom(value);
    ClearOrigins(*clean);
    printer.PrintToString(*clean, &text);
    return "{ " + text + "}";
  };
  if (!ref.field->is_repeated()) return reflection.HasField(*ref.parent, ref.field) ? print(-1) : std::string{};
  if (ref.index >= 0) return print(ref.index);
  std::vector<std::string> values;
  const int count = reflection.FieldSize(*ref.parent, ref.field);
  values.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values.push_back(print(i));
  return values.empty() ? std::string{} : "[" + Join(values, ", ") + "]";
}

}  // namespace moka
