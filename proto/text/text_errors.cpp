// Protobuf's messages are matched by their wording, each pattern with its own sentence; a message that is not known
// passes through. Errors that only follow from an earlier one are dropped.
#include "proto/text/text_errors.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <optional>

#include "core/text.h"
#include "proto/text/other_words.h"
#include "proto/text/schema_names.h"
#include "proto/text/text_slips.h"

namespace moka {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kNone = std::string_view::npos;
constexpr std::string_view kNumberTail = "Need space between number and identifier";

// The text between the n-th pair of double quotes of a parser's message.
std::string Quoted(std::string_view message, int n) {
  size_t begin = 0;
  for (int i = 0;; ++i) {
    begin = message.find('"', begin);
    if (begin == kNone) return {};
    const size_t end = message.find('"', begin + 1);
    if (end == kNone) return {};
    if (i == n) return std::string(message.substr(begin + 1, end - begin - 1));
    begin = end + 1;
  }
}

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != kNone; }

// Whether a block around the innermost one has a field of this name.
bool IsFieldFurtherOut(const Descriptor* root, const std::vector<OpenBlock>& open, const std::string& name) {
  const Descriptor* type = root;
  for (const OpenBlock& block : open) {
    if (type == nullptr) return false;
    if (type->FindFieldByName(name) != nullptr) return true;
    const FieldDescriptor* field = type->FindFieldByName(std::string(block.field));
    type = field == nullptr ? nullptr : field->message_type();
  }
  return false;
}

// Returns the text between a token's quotes; the token if it has none.
std::string Unquoted(const std::string& token) {
  const bool is_text = token.size() > 1 && (token[0] == '"' || token[0] == '\'') && token.back() == token[0];
  return is_text ? token.substr(1, token.size() - 2) : token;
}

// Whether the field takes this word where it stands without quotes.
bool FitsWithoutQuotes(const FieldDescriptor& field, const std::string& word) {
  if (field.enum_type() != nullptr) return field.enum_type()->FindValueByName(word) != nullptr;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return word == "true" || word == "false";
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING || field.message_type() != nullptr) return false;
  return IsNumber(word);
}

// An error and whether those after it are likely its consequences.
struct Translated {
  Error error;
  bool is_missing_brace = false;
};

class Translator {
 public:
  explicit Translator(const ParsedText& parsed) : parsed_(parsed) {}

  Translated Unknown(const ParserComplaint& complaint) const;
  Translated Last(const ParserComplaint& complaint) const;
  Error Bracketed(const ParserComplaint& complaint) const;
  bool IsConsequence(const ParserComplaint& unknown, const ParserComplaint& last) const;
  bool IsTailOfNumber(const ParserComplaint& unknown, const ParserComplaint& last) const;

 private:
  Error At(size_t offset, size_t length, std::string text, std::string hint = {}) const {
    return {ErrorKind::kConfig, parsed_.lines.PlaceOf(parsed_.file, offset, length), std::move(text), std::move(hint)};
  }
  // At the last place of a word before the complaint's place, which is one token too far.
  Error AtWord(const std::string& word, size_t offset, std::string text, std::string hint = {}) const;
  Error MissingBrace(size_t offset, size_t length, const OpenBlock& block) const;
  std::string TokenAt(size_t offset) const;
  Error BadValue(const std::string& word, size_t offset) const;

  const ParsedText& parsed_;
};

Error Translator::AtWord(const std::string& word, size_t offset, std::string text, std::string hint) const {
  const size_t at = FindWordBefore(parsed_.text, word, offset);
  if (at == kNone) return At(offset, 1, std::move(text), std::move(hint));
  return At(at, word.size(), std::move(text), std::move(hint));
}

Error Translator::MissingBrace(size_t offset, size_t length, const OpenBlock& block) const {
  const SourcePlace opened = parsed_.lines.PlaceOf(parsed_.file, block.offset, block.field.size());
  return At(offset, length,
            StrCat("missing \"}\" for the block \"", block.field, "\" opened at ", opened.line, ":", opened.column));
}

std::string Translator::TokenAt(size_t offset) const {
  constexpr size_t kShown = 40;
  const std::string_view rest = parsed_.text.substr(std::min(offset, parsed_.text.size()));
  size_t end = rest.empty() ? 0 : 1;
  if (!rest.empty() && (rest[0] == '"' || rest[0] == '\'')) {
    end = rest.find_first_of(std::string{rest[0], '\n'}, 1);
    end = end == kNone ? rest.size() : end + 1;
  } else if (!rest.empty() && std::string_view("{}<>[]:;,").find(rest[0]) == kNone) {
    end = std::min(rest.find_first_of(" \t\r\n{}<>[]:;,#\"'"), rest.size());
  }
  return Printable(rest.substr(0, std::min(std::max<size_t>(end, rest.empty() ? 0 : 1), kShown)));
}

Translated Translator::Unknown(const ParserComplaint& complaint) const {
  const std::string type_name = Quoted(complaint.message, 0);
  const std::string name = Quoted(complaint.message, 1);
  const size_t after = parsed_.lines.OffsetOf(complaint.line, complaint.column);
  if (name.starts_with('[')) return {Bracketed(complaint)};
  const size_t found = FindWordBefore(parsed_.text, name, after);
  const size_t at = found == kNone ? after : found;
  if (std::optional<Error> further = FurtherValue(parsed_, at)) return {*further};
  const Descriptor* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(type_name);
  if (type == nullptr) return {At(at, name.size(), Printable(complaint.message))};
  const std::string text = StrCat(ShortName(*type), " has no field \"", Printable(name), "\"");
  const TextScan scan = ScanText(parsed_.text, at);
  if (!scan.open.empty() && IsFieldFurtherOut(parsed_.root, scan.open, name)) {
    const OpenBlock& block = scan.open.back();
    if (!scan.balanced) return {MissingBrace(at, name.size(), block), true};
    const SourcePlace opened = parsed_.lines.PlaceOf(parsed_.file, block.offset, block.field.size());
    return {At(at, name.size(), text,
               StrCat("it belongs to an enclosing block: close \"", block.field, "\" (", opened.line, ":",
                      opened.column, ") before it"))};
  }
  std::string hint = FieldHint(*type, name);
  const bool follows_quote = at > 0 && (parsed_.text[at - 1] == '"' || parsed_.text[at - 1] == '\'');
  if (follows_quote) hint = "a text ends right before it: is a quote missing?";
  return {At(at, name.size(), text, std::move(hint))};
}

// A name in brackets is of an extension, and Moka's messages have none.
Error Translator::Bracketed(const ParserComplaint& complaint) const {
  const std::string name = Quoted(complaint.message, 1);
  const size_t after = parsed_.lines.OffsetOf(complaint.line, complaint.column);
  const size_t close = after == 0 ? kNone : parsed_.text.rfind(']', after - 1);
  const size_t open = close == kNone ? kNone : parsed_.text.rfind('[', close);
  const size_t at = open == kNone ? after : open;
  const std::string type_name = Quoted(complaint.message, 0);
  const Descriptor* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(type_name);
  const std::string bare = name.substr(1, name.size() - 2);
  const std::string last = bare.substr(bare.rfind('.') + 1);  // npos + 1 is 0
  const bool is_field = type != nullptr && type->FindFieldByName(last) != nullptr;
  return At(at, open == kNone ? 1 : close + 1 - open,
            StrCat(type == nullptr ? type_name : ShortName(*type), " has no field \"", Printable(name), "\""),
            is_field ? StrCat("write the name without brackets: ", last)
                     : "a name in brackets is an extension, and there are none");
}

// Whether `last` is only what an unknown field's name, or the letter in a number, led to.
bool Translator::IsConsequence(const ParserComplaint& unknown, const ParserComplaint& last) const {
  const size_t offset = parsed_.lines.OffsetOf(last.line, last.column);
  const std::string name = Quoted(unknown.message, 1);
  const size_t before = parsed_.text.find_last_not_of(" \t\r\n", offset == 0 ? 0 : offset - 1);
  if (before == kNone || before + 1 < name.size()) return false;
  return parsed_.text.substr(before + 1 - name.size(), name.size()) == name;
}

bool Translator::IsTailOfNumber(const ParserComplaint& unknown, const ParserComplaint& last) const {
  const size_t offset = parsed_.lines.OffsetOf(last.line, last.column);
  return last.message.starts_with(kNumberTail) &&
         parsed_.text.substr(std::min(offset, parsed_.text.size())).starts_with(Quoted(unknown.message, 1));
}

// A value the field does not take; the parser stands after it or on it.
Error Translator::BadValue(const std::string& word, size_t offset) const {
  const size_t found = word.empty() ? kNone : FindWordBefore(parsed_.text, word, offset);
  const size_t at = found == kNone ? offset : found;
  const std::string token = TokenAt(at);
  // The field's name stands before the value's ":" (or before "[", in a list).
  const size_t colon = parsed_.text.rfind(':', at);
  const FieldDescriptor* field = nullptr;
  const Descriptor* type = BlockTypeAt(parsed_.text, at, parsed_.root);
  if (type != nullptr && colon != kNone) {
    field = type->FindFieldByName(std::string(NameBefore(parsed_.text, colon)));
  }
  if (field == nullptr) return At(at, token.size(), StrCat("the value ", token, " does not fit its field"));
  std::string hint;
  const std::string bare = Unquoted(token);
  if (field->enum_type() != nullptr) hint = DidYouMean(bare, ValueNames(*field->enum_type()));
  const bool is_text = bare != token;
  if (is_text && FitsWithoutQuotes(*field, bare)) hint = StrCat("write it without quotes: ", bare);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) hint = StrCat("write it in quotes: \"", token, "\"");
  return At(at, token.size(), StrCat("field \"", field->name(), "\" takes ", TakenBy(*field), ", found ", token), hint);
}

Translated Translator::Last(const ParserComplaint& complaint) const {
  const std::string_view message = complaint.message;
  const size_t offset = parsed_.lines.OffsetOf(complaint.line, complaint.column);
  if (Contains(message, "has no field named")) return Unknown(complaint);
  if (std::optional<Error> slip = SlipAt(parsed_, complaint)) return {*slip};
  if (Contains(message, "Unknown enumeration value")) return {BadValue(Quoted(message, 0), offset)};
  if (Contains(message, "Invalid value for boolean field")) return {BadValue(Quoted(message, 1), offset)};
  if (Contains(message, "specified multiple times")) {
    const std::string name = Quoted(message, 0);
    return {AtWord(name, offset, StrCat("field \"", name, "\" is given more than once but takes one value"))};
  }
  if (Contains(message, "recursion limit")) return {At(offset, 1, "blocks are nested more than 64 deep")};
  if (parsed_.text.find_first_not_of(" \t\r\n", offset) == kNone) {
    const TextScan scan = ScanText(parsed_.text, parsed_.text.size());
    if (!scan.open.empty()) return {MissingBrace(offset, 1, scan.open.back()), true};
    return {At(offset, 1, "the text ends in the middle of a field")};
  }
  const std::string token = TokenAt(offset);
  if (token == "}" && ScanText(parsed_.text, offset).open.empty()) {
    return {At(offset, 1, "unexpected \"}\": no block is open here")};
  }
  if (Contains(message, "Integer out of range")) return {BadValue({}, offset)};
  if (message.starts_with(kNumberTail)) {
    const size_t blank = offset == 0 ? kNone : parsed_.text.find_last_of(" \t\r\n:[,", offset - 1);
    return {BadValue({}, blank == kNone ? 0 : blank + 1)};
  }
  for (const std::string_view expected : {"Expected integer", "Expected double", "Expected string",
                                          "Expected identifier, got: \"", "Expected identifier, got: '"}) {
    if (message.starts_with(expected)) return {BadValue({}, offset)};
  }
  if (Contains(message, "String literals cannot cross line boundaries")) {
    return {At(offset, 1, "a text ends without its closing quote before the end of the line")};
  }
  if (message.starts_with("Expected \":\"")) {
    return {At(offset, token.size(), StrCat("expected \":\" or \"{\" after the field's name, found ", token))};
  }
  const std::string_view rest = parsed_.text.substr(offset);
  if (rest.starts_with("/*") || rest.starts_with("//")) {
    return {At(offset, 2, StrCat("\"", rest.substr(0, 2), "\" begins no comment here"),
               "comments begin with # and go to the end of the line")};
  }
  std::string text = Printable(message);
  for (size_t at = text.find("moka."); at != kNone; at = text.find("moka.")) text.erase(at, 5);
  return {At(offset, token.size(), std::move(text))};
}

// Whether the unknown field was seen after what the parser could not read as a token: it reads on there, and what it
// finds means little.
bool FollowsBadToken(const ParserComplaint& unknown, const ParserComplaint& last) {
  if (unknown.line != last.line) return last.line < unknown.line;
  if (unknown.column != last.column) return last.column < unknown.column;
  return last.message.starts_with("Interpreting non ascii") || last.message.starts_with("Invalid control");
}

// A solver given as a net or the reverse, told by the names outside all blocks.
std::optional<Error> WrongKind(const ParsedText& parsed) {
  const Descriptor* net = NetParameter::descriptor();
  const Descriptor* solver = SolverParameter::descriptor();
  if (parsed.root != net && parsed.root != solver) return std::nullopt;
  const Descriptor* other = parsed.root == net ? solver : net;
  int own = 0;
  int others = 0;
  const OpenBlock* first = nullptr;
  const TextScan scan = ScanText(parsed.text, 0);
  for (const OpenBlock& field : scan.top_fields) {
    const std::string name(field.field);
    const bool is_own = parsed.root->FindFieldByName(name) != nullptr;
    const bool is_other = other->FindFieldByName(name) != nullptr;
    own += is_own && !is_other ? 1 : 0;
    others += is_other && !is_own ? 1 : 0;
    if (is_other && !is_own && first == nullptr) first = &field;
  }
  if (others == 0 || own >= others) return std::nullopt;
  const SourcePlace place = parsed.lines.PlaceOf(parsed.file, first->offset, first->field.size());
  if (parsed.root == net) {
    return Error(ErrorKind::kConfig, place,
                 StrCat("this is a solver, not a net (\"", first->field, "\" is a solver's field)"),
                 "give the net file, or use the solver where a solver is expected");
  }
  return Error(ErrorKind::kConfig, place,
               StrCat("this is a net, not a solver (\"", first->field, "\" is a net's field)"),
               "give the solver file, whose field \"net\" names this one");
}

}  // namespace

void ThrowTextErrors(const ParsedText& parsed, const std::vector<ParserComplaint>& unknown,
                     const std::vector<ParserComplaint>& last) {
  if (std::optional<Error> wrong = WrongKind(parsed)) throw ErrorList({*wrong});
  const Translator translator(parsed);
  std::vector<Error> errors;
  bool go_on = true;
  for (const ParserComplaint& complaint : unknown) {
    if (!go_on || errors.size() >= ErrorList::kMaxErrors) break;
    if (!last.empty() && FollowsBadToken(complaint, last.front())) break;
    if (!last.empty() && translator.IsTailOfNumber(complaint, last.front())) continue;
    const Translated translated = translator.Unknown(complaint);
    errors.push_back(translated.error);
    go_on = !translated.is_missing_brace;
  }
  const bool is_new = !last.empty() && (errors.empty() || !translator.IsConsequence(unknown.back(), last.front()));
  if (go_on && is_new) errors.push_back(translator.Last(last.front()).error);
  throw ErrorList(std::move(errors));
}

std::optional<std::vector<Error>> ToleratedFields(const ParsedText& parsed,
                                                  const std::vector<ParserComplaint>& unknown) {
  if (WrongKind(parsed)) return std::nullopt;
  const Translator translator(parsed);
  std::vector<Error> errors;
  errors.reserve(unknown.size());
  for (const ParserComplaint& complaint : unknown) {
    const Translated translated = translator.Unknown(complaint);
    if (translated.is_missing_brace) return std::nullopt;
    errors.push_back(translated.error);
  }
  return errors;
}

}  // namespace moka
