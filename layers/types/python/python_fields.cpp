// A recursive-descent parser. It evaluates literals only: nothing in a net's param_str is run.
#include "layers/types/python/python_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/text.h"

namespace moka {
namespace {

constexpr int kMaxDepth = 16;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  PythonValue Document() {
    SkipBlanks();
    PythonValue map{.kind = PythonValue::Kind::kMap};
    if (Peek() == '{') {
      map = Value(0, "");
      SkipBlanks();
      if (!AtEnd()) Expect("nothing after the closing brace");
      return map;
    }
    for (; !AtEnd(); SkipBlanks()) {
      map.entries.push_back(Entry(0, ",\n"));
      SkipLine();
      if (Peek() == ',') ++at_;
    }
    return map;
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  [[noreturn]] void Expect(std::string_view expected) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, at_), '\n');
    const std::string_view rest = text_.substr(std::min(at_, text_.size()));
    const std::string found = rest.empty() ? std::string("the end") : StrCat("\"", rest.substr(0, 20), "\"");
    throw Error(ErrorKind::kConfig, StrCat("line ", line, ": expected ", expected, ", found ", found));
  }

  void SkipComment() {
    while (!AtEnd() && Peek() != '\n') ++at_;
  }
  // Blanks of this line, and a comment.
  void SkipLine() {
    while (Peek() == ' ' || Peek() == '\t' || Peek() == '\r') ++at_;
    if (Peek() == '#') SkipComment();
  }
  void SkipBlanks() {
    for (;;) {
      SkipLine();
      if (Peek() != '\n') return;
      ++at_;
    }
  }

  std::string Quoted() {
    const char quote = text_[at_++];
    std::string text;
    while (Peek() != quote) {
      if (AtEnd()) Expect(StrCat("a closing ", quote));
      if (Peek() == '\\' && at_ + 1 < text_.size()) ++at_;
      text += text_[at_++];
    }
    ++at_;
    return text;
  }

  bool IsQuote() const { return Peek() == '\'' || Peek() == '"'; }

  // Text up to one of `stops` or the line's end.
  std::string Bare(std::string_view stops) {
    const size_t begin = at_;
    while (!AtEnd() && Peek() != '\n' && Peek() != '#' && stops.find(Peek()) == std::string_view::npos) ++at_;
    return std::string(Trim(text_.substr(begin, at_ - begin)));
  }

  std::pair<std::string, PythonValue> Entry(int depth, std::string_view stops) {
    std::string key = IsQuote() ? Quoted() : Bare(":,{}[]()");
    if (key.empty()) Expect("a key");
    SkipLine();
    if (Peek() != ':') Expect(StrCat("\":\" after the key \"", key, "\""));
    ++at_;
    SkipLine();
    if (Peek() == '\n' && depth == 0) return {std::move(key), Below()};
    return {std::move(key), Value(depth + 1, stops)};
  }

  // A YAML list of lines "- item" after a key.
  PythonValue Below() {
    PythonValue list{.kind = PythonValue::Kind::kList};
    SkipBlanks();
    while (Peek() == '-' && (Peek(1) == ' ' || Peek(1) == '\t')) {
      ++at_;
      SkipLine();
      list.items.push_back(Value(1, "\n"));
      SkipBlanks();
    }
    return list.items.empty() ? PythonValue{} : list;
  }

  PythonValue Value(int depth, std::string_view stops) {
    if (depth > kMaxDepth) Expect(StrCat("at most ", kMaxDepth, " levels"));
    if (Peek() == '!') {  // a tag: !!python/tuple
      while (!AtEnd() && Peek() != ' ' && Peek() != '\n' && Peek() != '[') ++at_;
      SkipLine();
    }
    if (Peek() == '[' || Peek() == '(') return List(depth);
    if (Peek() == '{') return Map(depth);
    if (IsQuote()) return {.kind = PythonValue::Kind::kText, .text = Quoted()};
    return Scalar(Bare(stops));
  }

  static PythonValue Scalar(std::string text) {
    if (text.empty() || text == "None" || text == "null" || text == "~") return {};
    for (const auto& [word, number] : {std::pair("True", 1.0), {"true", 1.0}, {"False", 0.0}, {"false", 0.0}}) {
      if (text == word) return {.kind = PythonValue::Kind::kNumber, .number = number, .text = std::move(text)};
    }
    double number = 0;
    const char* first = text.data() + (text[0] == '+' ? 1 : 0);
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, number);
    if (error == std::errc() && end == last) {
      return {.kind = PythonValue::Kind::kNumber, .number = number, .text = std::move(text)};
    }
    return {.kind = PythonValue::Kind::kText, .text = std::move(text)};
  }

  PythonValue List(int depth) {
    const char close = text_[at_++] == '[' ? ']' : ')';
    PythonValue list{.kind = PythonValue::Kind::kList};
    for (SkipBlanks(); Peek() != close; SkipBlanks()) {
      list.items.push_back(Value(depth + 1, ",]})"));
      EndItem(close);
    }
    ++at_;
    return list;
  }

  PythonValue Map(int depth) {
    ++at_;
    PythonValue map{.kind = PythonValue::Kind::kMap};
    for (SkipBlanks(); Peek() != '}'; SkipBlanks()) {
      map.entries.push_back(Entry(depth + 1, ",]})"));
      EndItem('}');
    }
    ++at_;
    return map;
  }

  void EndItem(char close) {
    SkipBlanks();
    if (Peek() == ',') {
      ++at_;
    } else if (Peek() != close) {
      Expect(StrCat("\",\" or \"", close, "\""));
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

PythonValue ParsePython(std::string_view text) { return Parser(text).Document(); }

PythonFields::PythonFields(const LayerBuilder& l) : l_(l) {
  try {
    map_ = ParsePython(l.param().python_param().param_str());
  } catch (const Error& error) {
    l.Fail("python_param.param_str", StrCat("python_param.param_str, ", error.text()));
  }
}

const PythonValue* PythonFields::Find(std::string_view key) const {
  const auto found = std::ranges::find_if(map_.entries, [&](const auto& entry) { return entry.first == key; });
  return found == map_.entries.end() || found->second.kind == PythonValue::Kind::kNone ? nullptr : &found->second;
}

void PythonFields::Fail(std::string_view key, std::string_view expected) const {
  l_.Fail("python_param.param_str", StrCat("python_param.param_str: '", key, "' must be ", expected));
}

double PythonFields::Number(std::string_view key, double fallback) const {
  const PythonValue* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->kind != PythonValue::Kind::kNumber || !std::isfinite(value->number)) Fail(key, "a number");
  return value->number;
}

int64_t PythonFields::Count(std::string_view key, int64_t fallback, int64_t least) const {
  const double number = Number(key, static_cast<double>(fallback));
  if (!(number >= static_cast<double>(least) && number <= INT32_MAX && number == std::floor(number))) {
    Fail(key, StrCat("a whole number of at least ", least, ", found ", number));
  }
  return static_cast<int64_t>(number);
}

int64_t PythonFields::Count(std::string_view key, int64_t least) const {
  if (!Has(key)) Fail(key, "given");
  return Count(key, least, least);
}

std::vector<double> PythonFields::Numbers(std::string_view key, const std::vector<double>& fallback) const {
  const PythonValue* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->kind == PythonValue::Kind::kNumber) return {Number(key, 0)};
  if (value->kind != PythonValue::Kind::kList || value->items.empty()) Fail(key, "a list of numbers");
  std::vector<double> numbers;
  for (const PythonValue& item : value->items) {
    if (item.kind != PythonValue::Kind::kNumber || !std::isfinite(item.number)) Fail(key, "a list of numbers");
    numbers.push_back(item.number);
  }
  return numbers;
}

std::string PythonFields::Text(std::string_view key, const std::string& fallback) const {
  const PythonValue* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->kind != PythonValue::Kind::kText) Fail(key, "a name");
  return value->text;
}

std::vector<std::string> PythonFields::Texts(std::string_view key, const std::vector<std::string>& fallback) const {
  const PythonValue* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->kind != PythonValue::Kind::kList) Fail(key, "a list of names");
  std::vector<std::string> texts;
  for (const PythonValue& item : value->items) texts.push_back(item.text);
  return texts;
}

}  // namespace moka
