// Parses strictly first; if that fails, again with unknown fields allowed, to collect all of them. Time is bounded:
// each unknown field costs a reading, so their number times the text's length is limited.
#include "proto/text/text_format.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/open_file.h"
#include "core/text.h"
#include "proto/content.h"
#include "proto/text/foreign_types.h"
#include "proto/text/lost_numbers.h"
#include "proto/text/origins.h"
#include "proto/text/places.h"
#include "proto/text/schema_names.h"
#include "proto/text/text_errors.h"
#include "proto/text/text_scan.h"

namespace moka {
namespace {

using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr int64_t kTextBlockLimit = 70'000;
constexpr int64_t kTextValueLimit = 1'000'000;
constexpr size_t kMaxUnknown = 1000;  // unknown fields that are passed over
// Each of them costs a reading of the text: above this many bytes in all they are errors, of which few are looked at.
constexpr size_t kUnknownBudgetBytes = size_t{1} << 28;

// A name in brackets is of an extension; the parser's text of one that is not there in the form of that of any field.
std::string AsUnknownField(const std::string& message) {
  if (message.find("not defined or is not an extension of") == std::string::npos) return message;
  const std::vector<std::string> words = Split(message, '"');  // "... extension "NAME" which is ... of "TYPE"."
  if (words.size() < 4) return message;
  return StrCat("Message type \"", words[3], "\" has no field named \"[", words[1], "]\".");
}

// Keeps the first complaints; the parser calls unknown fields warnings when they are allowed.
class Collector : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    Keep(errors, line, column, AsUnknownField(message));
  }
  void AddWarning(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    const std::string text = AsUnknownField(message);
    if (text.find("has no field named") != std::string::npos) Keep(unknown, line, column, text);
  }

  std::vector<ParserComplaint> errors;
  std::vector<ParserComplaint> unknown;

 private:
  static void Keep(std::vector<ParserComplaint>& list, int line, int column, const std::string& message) {
    if (list.size() <= kMaxUnknown) list.push_back({.line = line, .column = column, .message = message});
  }
};

bool Parse(std::string_view text, bool allow_unknown, Collector& collector, TextFormat::ParseInfoTree* tree,
           Message& message) {
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&collector);
  parser.SetRecursionLimit(kTextDepthLimit);
  parser.AllowPartialMessage(true);
  parser.AllowUnknownField(allow_unknown);
  if (tree != nullptr) parser.WriteLocationsTo(tree);
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  return parser.Parse(&stream, &message);
}

// Whether the complaint is about a field of a solver, of a net itself or of a block.
bool IsOutsideLayers(const ParserComplaint& complaint) {
  const std::string type = complaint.message.substr(0, complaint.message.find("\" has no field"));
  for (const std::string_view outer : {"NetParameter", "SolverParameter", "NetState", "BlockParameter", "Origin"}) {
    if (type.ends_with(StrCat(".", outer))) return true;
  }
  return false;
}

// Notes an unknown field in the origin of the layer it stands in, or else of the whole message.
void NoteUnknown(const Error& error, bool is_outside_layers, Message& message) {
  const SourcePlace& place = error.place();
  auto* net = google::protobuf::DynamicCastToGenerated<NetParameter>(&message);
  Origin* origin = nullptr;
  if (net != nullptr && !is_outside_layers) {
    origin = net->layer_size() > 0 ? OriginAt(*net->mutable_layer(), place) : OriginAt(*net->mutable_layers(), place);
  }
  UnknownField& field = *(origin != nullptr ? origin : MutableOrigin(message))->add_unknown();
  field.set_line(place.line);
  field.set_column(place.column);
  field.set_length(place.length);
  field.set_text(error.text());
  field.set_hint(error.hint());
}

// The same for all; false if they are the consequence of another mistake, too many, or of a message whose readers do
// not tell them.
bool NoteUnknown(const ParsedText& parsed, const std::vector<ParserComplaint>& unknown, Message& message) {
  if (unknown.size() > kMaxUnknown || unknown.size() * parsed.text.size() > kUnknownBudgetBytes) return false;
  const google::protobuf::Descriptor* type = message.GetDescriptor();
  if (type != NetParameter::descriptor() && type != SolverParameter::descriptor()) return false;
  const std::optional<std::vector<Error>> errors = ToleratedFields(parsed, unknown);
  if (!errors) return false;
  for (size_t i = 0; i < unknown.size(); ++i) NoteUnknown((*errors)[i], IsOutsideLayers(unknown[i]), message);
  return true;
}

// The error for a required field, "layer[3].clip_param.max", at the innermost block around it that stands in the text.
Error MissingField(const Message& root, const std::string& path) {
  const Message* message = &root;
  const Origin* scope = OriginOf(root);
  std::string scope_path;
  const std::vector<std::string> steps = Split(path, '.');
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const size_t bracket = steps[i].find('[');
    const auto* field = message->GetDescriptor()->FindFieldByName(steps[i].substr(0, bracket));
    Require(field != nullptr && field->message_type() != nullptr,
            "FindInitializationErrors names fields of the message");
    const auto& reflection = *message->GetReflection();
    message = bracket == std::string::npos
                  ? &reflection.GetMessage(*message, field)
                  : &reflection.GetRepeatedMessage(*message, field, std::stoi(steps[i].substr(bracket + 1)));
    scope_path += (scope_path.empty() ? "" : ".") + steps[i];
    if (const Origin* own = OriginOf(*message)) {
      scope = own;
      scope_path.clear();
    }
  }
  return {ErrorKind::kConfig, scope == nullptr ? SourcePlace{} : PlaceOf(*scope, scope_path),
          StrCat("required field \"", steps.back(), "\" of ", ShortName(*message->GetDescriptor()), " is missing")};
}

// Fields the schema requires (Clip's min and max).
void CheckRequired(const Message& message) {
  if (message.IsInitialized()) return;
  std::vector<std::string> missing;
  message.FindInitializationErrors(&missing);
  std::vector<Error> errors;
  errors.reserve(missing.size());
  for (const std::string& path : missing) errors.push_back(MissingField(message, path));
  throw ErrorList(std::move(errors));
}

void RefuseUnlessText(std::string_view bytes, const std::string& file, std::string_view expected) {
  const Content content = RecognizeContent(bytes);
  if (content == Content::kText || content == Content::kEmpty) return;
  throw Error(ErrorKind::kBadData, SourcePlace{.file = file},
              StrCat("expected ", expected, " as text (prototxt), but this is ", Describe(content)));
}

// A parsed block takes kilobytes, whatever it is written with ("layer{}").
void RefuseUnlessBounded(std::string_view text, const std::string& file) {
  const auto fail = [&](int64_t limit, std::string_view of_what) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file}, StrCat("more than ", limit, " ", of_what));
  };
  int depth = 0;
  int64_t blocks = 0;
  int64_t values = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"' || c == '\'') {
      for (++i; i < text.size() && text[i] != c && text[i] != '\n'; ++i) i += text[i] == '\\' ? 1 : 0;
    } else if (c == '{' || c == '<') {
      if (++depth > kTextDepthLimit) continue;  // where the parser stops
      if (++blocks > kTextBlockLimit) fail(kTextBlockLimit, "blocks");
    } else if (c == '}' || c == '>') {
      --depth;
    } else if (c == ':' || c == ',') {
      if (++values > kTextValueLimit) fail(kTextValueLimit, "values");
    }
  }
}

// Where a carriage return ends a line by itself, as on old Macs; to the parser only "\n" ends one, and a comment before
// it would swallow what follows.
bool IsLoneReturn(std::string_view text, size_t at) {
  return text[at] == '\r' && (at + 1 == text.size() || text[at + 1] != '\n');
}

// The same text with "\n" for each lone return; nothing if it has none.
std::optional<std::string> WithoutLoneReturns(std::string_view text) {
  std::optional<std::string> plain;
  for (size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1)) {
    if (!IsLoneReturn(text, at)) continue;
    if (!plain) plain = std::string(text);
    (*plain)[at] = '\n';
  }
  return plain;
}

void RefuseLostNumbers(const ParsedText& parsed) {
  std::vector<Error> errors;
  for (const LostNumber& lost : LostNumbers(parsed.text, parsed.root)) {
    errors.emplace_back(ErrorKind::kConfig, parsed.lines.PlaceOf(parsed.file, lost.offset, lost.word.size()),
                        LostNumberText(lost.word), LostNumberHint());
  }
  if (!errors.empty()) throw ErrorList(std::move(errors));
}

}  // namespace

void ParseText(std::string_view text, const std::string& file, Message& message) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a UTF-8 byte-order mark
  if (static_cast<int64_t>(text.size()) > kTextLimitBytes) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file},
                StrCat("the text has ", BytesText(static_cast<int64_t>(text.size())), ", more than the limit of ",
                       BytesText(kTextLimitBytes)));
  }
  RefuseUnlessText(text, file, "a message");
  const std::optional<std::string> plain = WithoutLoneReturns(text);
  if (plain) text = *plain;
  RefuseUnlessBounded(text, file);
  const TextPositions lines(text);
  const ParsedText parsed{.text = text, .file = file, .lines = lines, .root = message.GetDescriptor()};
  Collector strict;
  TextFormat::ParseInfoTree tree;
  if (Parse(text, false, strict, &tree, message)) {
    FillOrigins(tree, lines, file, message);
    CheckRequired(message);
    RefuseLostNumbers(parsed);
    return;
  }
  // A tolerant parse passes over unknown fields; a V1 type that the enum does not have still ends it, so such types are
  // hidden one by one and the text is parsed again.
  std::string hidden(text);
  std::vector<ForeignType> foreign;
  for (;;) {
    Collector all;
    TextFormat::ParseInfoTree tolerant_tree;
    const std::unique_ptr<Message> scratch(message.New());
    if (Parse(hidden, true, all, &tolerant_tree, *scratch)) {
      FillOrigins(tolerant_tree, lines, file, *scratch);
      if (all.unknown.empty() || NoteUnknown(parsed, all.unknown, *scratch)) {
        auto* net = google::protobuf::DynamicCastToGenerated<NetParameter>(scratch.get());
        if (net != nullptr) NoteForeignTypes(parsed, foreign, *net);
        CheckRequired(*scratch);
        RefuseLostNumbers(parsed);
        message.GetReflection()->Swap(&message, scratch.get());
        return;
      }
    } else if (foreign.size() < kMaxUnknown && (foreign.size() + 1) * text.size() <= kUnknownBudgetBytes &&
               !all.errors.empty()) {
      if (const std::optional<ForeignType> type = ForeignTypeAt(parsed, all.errors.back())) {
        HideForeignType(*type, hidden);
        foreign.push_back(*type);
        continue;
      }
    }
    if (all.unknown.empty() && all.errors.empty()) all.errors = strict.errors;
    ThrowTextErrors(parsed, all.unknown, all.errors);
  }
}

std::string ReadTextFile(const std::filesystem::path& path, std::string_view expected) {
  constexpr size_t kHeadBytes = 4096;
  const OpenFile file = OpenFile::ForReading(path);
  if (file.bytes() > kTextLimitBytes) {
    std::string head(kHeadBytes, '\0');
    head.resize(static_cast<size_t>(file.ReadAt(0, head.data(), std::ssize(head), path)));
    RefuseUnlessText(head, path.string(), expected);
  }
  std::string text = ReadFile(path, kTextLimitBytes);
  RefuseUnlessText(text, path.string(), expected);
  if (Trim(text).empty()) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = path.string()},
                StrCat("expected ", expected, ", but the file is empty"));
  }
  return text;
}

std::string ToText(const Message& message) {
  const std::unique_ptr<Message> clean(message.New());
  clean->CopyFrom(message);
  ClearOrigins(*clean);
  std::string text;
  TextFormat::PrintToString(*clean, &text);
  return text;
}

}  // namespace moka
