// Two steps: Tokens drops comments, preprocessor lines and what literals hold; Scanner walks the tokens with a stack of
// scopes and judges each statement of a namespace or type by the tokens before its ";" or "{".
#include "tests/tools/source_scan.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <span>
#include <string_view>

namespace moka::testing {
namespace {

struct Token {
  std::string text;
  int line = 0;
};

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Tokenizer {
 public:
  explicit Tokenizer(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) text_ += line + "\n";
  }

  std::vector<Token> All() {
    while (at_ < text_.size()) Next();
    return std::move(tokens_);
  }

 private:
  bool StartsWith(std::string_view start) const { return std::string_view(text_).substr(at_).starts_with(start); }

  void SkipTo(size_t end) {
    for (end = std::min(end, text_.size()); at_ < end; ++at_) line_ += text_[at_] == '\n' ? 1 : 0;
  }

  void SkipPast(std::string_view end) {
    const size_t found = text_.find(end, at_);
    SkipTo(found == std::string::npos ? found : found + end.size());
  }

  // A directive goes on behind a backslash.
  void SkipDirective() {
    do SkipPast("\n");
    while (at_ >= 2 && at_ < text_.size() && text_[at_ - 2] == '\\');
  }

  void SkipLiteral(char quote) {
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
    ++at_;
  }

  void SkipRawLiteral() {
    const size_t open = text_.find('(', at_);
    const std::string end = ")" + text_.substr(at_ + 2, open - at_ - 2) + "\"";
    at_ += 2;
    SkipPast(end);
  }

  void Next() {
    const char c = text_[at_];
    const int line = line_;
    if (c == '#' && (tokens_.empty() || tokens_.back().line < line_)) {
      SkipDirective();
    } else if (StartsWith("//")) {
      SkipPast("\n");
    } else if (StartsWith("/*")) {
      SkipPast("*/");
    } else if (StartsWith("R\"")) {
      SkipRawLiteral();
      tokens_.push_back({"\"\"", line});
    } else if (c == '"' || c == '\'') {
      SkipLiteral(c);
      tokens_.push_back({"\"\"", line});
    } else if (IsWord(c)) {
      const size_t start = at_;
      const bool is_number = std::isdigit(static_cast<unsigned char>(c)) != 0;
      while (at_ < text_.size() && (IsWord(text_[at_]) || (is_number && text_[at_] == '\''))) ++at_;
      tokens_.push_back({text_.substr(start, at_ - start), line});
    } else if (StartsWith("::") || StartsWith("->") || StartsWith("==") || StartsWith("<=") || StartsWith(">=")) {
      tokens_.push_back({text_.substr(at_, 2), line});
      at_ += 2;
    } else {
      if (std::isspace(static_cast<unsigned char>(c)) == 0) tokens_.push_back({std::string(1, c), line});
      SkipTo(at_ + 1);
    }
  }

  std::string text_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

// The place behind the bracket that closes the one at `open`.
size_t PastClosing(std::span<const Token> tokens, size_t open, const std::string& opens, const std::string& closes) {
  int depth = 0;
  for (size_t i = open; i < tokens.size(); ++i) {
    depth += tokens[i].text == opens ? 1 : tokens[i].text == closes ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return tokens.size();
}

// Returns a statement without template parameters and attributes, neither of which names anything.
std::vector<Token> BareStatement(std::span<const Token> tokens) {
  std::vector<Token> bare;
  for (size_t i = 0; i < tokens.size();) {
    const bool has_next = i + 1 < tokens.size();
    if (tokens[i].text == "template" && has_next && tokens[i + 1].text == "<") {
      i = PastClosing(tokens, i + 1, "<", ">");
    } else if (tokens[i].text == "[" && has_next && tokens[i + 1].text == "[") {
      i = PastClosing(tokens, i, "[", "]");
    } else if (tokens[i].text == "alignas" || tokens[i].text == "__attribute__" ||
               tokens[i].text == "__launch_bounds__" || tokens[i].text == "requires") {
      i = has_next && tokens[i + 1].text == "(" ? PastClosing(tokens, i + 1, "(", ")") : i + 1;
    } else {
      bare.push_back(tokens[i++]);
    }
  }
  return bare;
}

// Where a function's parameters begin: the first parenthesis that is in no template argument and behind no "="; the
// statement's size if it declares no function.
size_t Parameters(std::span<const Token> statement) {
  static const std::set<std::string> no_names = {"decltype", "noexcept", "explicit", "static_assert", "if", "while"};
  int angles = 0;
  for (size_t i = 0; i < statement.size(); ++i) {
    const std::string& text = statement[i].text;
    if (text == "operator") {  // its name may be "()", "<" or "="
      size_t open = i + 1;
      while (open < statement.size() && statement[open].text != "(") ++open;
      const bool is_call = open + 1 < statement.size() && statement[open + 1].text == ")";
      return is_call && open == i + 1 ? std::min(open + 2, statement.size()) : open;
    }
    angles += text == "<" ? 1 : text == ">" ? -1 : 0;
    if (angles > 0) continue;
    if (text == "=") break;
    if (text != "(") continue;
    const bool is_named = i > 0 && (IsWord(statement[i - 1].text.back()) || statement[i - 1].text == ">");
    if (is_named && !no_names.contains(statement[i - 1].text)) return i;
    i = PastClosing(statement, i, "(", ")") - 1;
  }
  return statement.size();
}

// The words before its parameters that make a function's name: "Net", "::", "Forward".
std::string NameBefore(std::span<const Token> statement, size_t parameters) {
  for (size_t i = 0; i < parameters; ++i) {
    if (statement[i].text == "operator") return "operator";
  }
  std::string name;
  int angles = 0;
  for (size_t i = parameters; i-- > 0;) {
    const std::string& text = statement[i].text;
    const bool closes_arguments = text == ">" && (angles > 0 || name.starts_with("::"));
    angles += closes_arguments ? 1 : text == "<" ? -1 : 0;
    if (angles < 0) break;
    const bool joins = name.empty() || name.starts_with("::") || name.starts_with("<") || name.starts_with("~");
    const bool is_part = angles > 0 || text == "<" || text == "::" || text == "~" ||
                         (IsWord(text[0]) && joins && !name.starts_with("~"));
    if (!is_part) break;
    name = text + name;
  }
  return name;
}

enum class Scope { kNamespace, kType, kFunction, kOther };

struct OpenScope {
  Scope kind = Scope::kOther;
  size_t index = 0;  // of its function or type in the result
  bool is_public = false;
};

class Scanner {
 public:
  explicit Scanner(std::vector<Token> tokens) : tokens_(std::move(tokens)) { scopes_.push_back({Scope::kNamespace}); }

  ScannedSource Scan() {
    FindCalls();
    for (size_t i = 0; i < tokens_.size(); ++i) i = Step(i);
    return std::move(result_);
  }

 private:
  void FindCalls() {
    static const std::set<std::string> owners = {".", "->", "::"};
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
      const bool is_called = IsWord(tokens_[i].text[0]) && tokens_[i + 1].text == "(";
      if (is_called && (i == 0 || !owners.contains(tokens_[i - 1].text)))
        result_.calls.push_back({tokens_[i].text, tokens_[i].line});
    }
  }

  bool IsDeclarations() const {
    return scopes_.back().kind == Scope::kNamespace || scopes_.back().kind == Scope::kType;
  }

  // Takes the token and returns the last one taken with it.
  size_t Step(size_t i) {
    const std::string& text = tokens_[i].text;
    if (text == "}") {
      Close(tokens_[i].line);
    } else if (!IsDeclarations()) {
      if (text == "{") scopes_.push_back({Scope::kOther});
    } else if (text == "{") {
      return Open(i);
    } else if (text == ";") {
      AddFunction(BareStatement(statement_));
      statement_.clear();
    } else if (text == "(") {
      const size_t past = PastClosing(tokens_, i, "(", ")");
      statement_.insert(statement_.end(), tokens_.begin() + i, tokens_.begin() + past);
      return past - 1;
    } else if (text == ":" && IsAccess()) {
      scopes_.back().is_public = statement_.back().text == "public";
      statement_.clear();
    } else {
      statement_.push_back(tokens_[i]);
    }
    return i;
  }

  bool IsAccess() const {
    static const std::set<std::string> words = {"public", "protected", "private"};
    return scopes_.back().kind == Scope::kType && statement_.size() == 1 && words.contains(statement_[0].text);
  }

  size_t Open(size_t brace) {
    const std::vector<Token> statement = BareStatement(statement_);
    const std::string first = statement.empty() ? "" : statement[0].text;
    const size_t parameters = Parameters(statement);
    if (first == "namespace" || first == "extern" || (first == "inline" && statement[1].text == "namespace")) {
      scopes_.push_back({Scope::kNamespace});
    } else if ((first == "class" || first == "struct" || first == "union") && parameters == statement.size()) {
      OpenType(statement);
    } else if (parameters < statement.size()) {
      if (IsMemberInitializer(statement, parameters)) return TakeBraces(brace);
      OpenFunction(statement, parameters);
    } else {
      return TakeBraces(brace);  // an initialiser or an enum: goes on to its semicolon
    }
    statement_.clear();
    return brace;
  }

  size_t TakeBraces(size_t brace) {
    statement_.push_back({"{}", tokens_[brace].line});
    return PastClosing(tokens_, brace, "{", "}") - 1;
  }

  // Whether the brace is that of `a_{1}` between a constructor's parameters and its body.
  static bool IsMemberInitializer(std::span<const Token> statement, size_t parameters) {
    const size_t past = PastClosing(statement, parameters, "(", ")");
    bool has_members = false;
    for (size_t i = past; i < statement.size(); ++i) has_members |= statement[i].text == ":";
    const std::string& last = statement.back().text;
    return has_members && (IsWord(last[0]) || last == ">");
  }

  void OpenType(std::span<const Token> statement) {
    ScannedType type{{}, statement[0].line, {}};
    for (const OpenScope& scope : scopes_) {
      if (scope.kind == Scope::kType) type.name = result_.types[scope.index].name + "::";
    }
    for (size_t i = 1; i < statement.size() && statement[i].text != ":" && statement[i].text != "final"; ++i) {
      type.name += statement[i].text;
    }
    scopes_.push_back({Scope::kType, result_.types.size(), statement[0].text != "class"});
    result_.types.push_back(std::move(type));
  }

  void OpenFunction(const std::vector<Token>& statement, size_t parameters) {
    AddFunction(statement);
    std::string name = NameBefore(statement, parameters);
    if (scopes_.back().kind == Scope::kType) name = result_.types[scopes_.back().index].name + "::" + name;
    scopes_.push_back({Scope::kFunction, result_.functions.size()});
    result_.functions.push_back({std::move(name), statement[0].line, 0});
  }

  void AddFunction(const std::vector<Token>& statement) {
    static const std::set<std::string> no_methods = {"using", "typedef", "static_assert", "enum"};
    const OpenScope& scope = scopes_.back();
    if (!IsDeclarations() || statement.empty() || no_methods.contains(statement[0].text)) return;
    const size_t parameters = Parameters(statement);
    if (parameters == statement.size()) return;
    const std::string name = NameBefore(statement, parameters);
    (scope.kind == Scope::kType ? result_.members : result_.declared).push_back(name);
    if (scope.kind != Scope::kType || !scope.is_public || statement[0].text == "friend") return;
    ScannedType& type = result_.types[scope.index];
    const bool is_constructor = name == type.name || type.name.ends_with("::" + name);
    if (name.empty() || name == "operator" || name[0] == '~' || is_constructor) return;
    type.public_methods.push_back(name);
  }

  void Close(int line) {
    if (scopes_.size() == 1) return;
    const OpenScope scope = scopes_.back();
    scopes_.pop_back();
    if (scope.kind == Scope::kFunction) {
      ScannedFunction& function = result_.functions[scope.index];
      function.lines = line - function.first_line + 1;
    }
    statement_.clear();
  }

  std::vector<Token> tokens_;
  std::vector<Token> statement_;  // since the last ";", "{" or "}" of the scope
  std::vector<OpenScope> scopes_;
  ScannedSource result_;
};

}  // namespace

ScannedSource ScanSource(const std::vector<std::string>& lines) { return Scanner(Tokenizer(lines).All()).Scan(); }

}  // namespace moka::testing
