// Protobuf's parser stops at an enum value that it does not know, so the word is overwritten with 0 and blanks, of
// equal length so that places stay, and noted in the layer's origin.
#include "proto/text/foreign_types.h"

#include <google/protobuf/descriptor.h>

#include <cctype>
#include <string_view>

#include "proto/text/origins.h"
#include "proto/text/text_scan.h"
#include "proto/upgrade/upgrade.h"

namespace moka {
namespace {

constexpr size_t kNone = std::string_view::npos;

// Whether "type:" stands before the value at `offset`, in a block `layers` of the net itself.
bool IsTypeOfV1Layer(std::string_view text, size_t offset) {
  const auto before = [&](size_t end) { return end == 0 ? kNone : text.find_last_not_of(" \t\r\n", end - 1); };
  const size_t colon = before(offset);
  if (colon == kNone || text[colon] != ':') return false;
  const size_t last = before(colon);
  if (last == kNone || last < 3 || FindWordBefore(text, "type", last + 1) != last - 3) return false;
  const TextScan scan = ScanText(text, offset);
  return scan.open.size() == 1 && scan.open[0].field == "layers";
}

}  // namespace

std::optional<ForeignType> ForeignTypeAt(const ParsedText& parsed, const ParserComplaint& complaint) {
  if (parsed.root != NetParameter::descriptor()) return std::nullopt;
  const std::string_view text = parsed.text;
  const std::string_view message = complaint.message;
  const size_t offset = parsed.lines.OffsetOf(complaint.line, complaint.column);
  ForeignType foreign;
  constexpr std::string_view kUnknown = "Unknown enumeration value of \"";
  if (message.starts_with(kUnknown)) {
    const std::string_view word = message.substr(kUnknown.size(), message.find('"', kUnknown.size()) - kUnknown.size());
    foreign.offset = FindWordBefore(text, word, offset);
    foreign.length = word.size();
    foreign.type = LayerTypeOf(word);
  } else if (message.starts_with("Expected integer or identifier, got: \"") && offset < text.size()) {
    const size_t end = text.find_first_of("\"\\\n", offset + 1);
    if (text[offset] != '"' || end == kNone || text[end] != '"') return std::nullopt;
    foreign.offset = offset;
    foreign.length = end + 1 - offset;
    foreign.type = std::string(text.substr(offset + 1, end - offset - 1));
  } else {
    return std::nullopt;
  }
  if (foreign.offset == kNone || foreign.type.empty() ||
      std::isalpha(static_cast<unsigned char>(foreign.type[0])) == 0 || !IsTypeOfV1Layer(text, foreign.offset))
    return std::nullopt;
  return foreign;
}

void HideForeignType(const ForeignType& foreign, std::string& text) {
  text.replace(foreign.offset, foreign.length, foreign.length, ' ');
  text[foreign.offset] = '0';
}

void NoteForeignTypes(const ParsedText& parsed, const std::vector<ForeignType>& types, NetParameter& net) {
  for (const ForeignType& foreign : types) {
    const SourcePlace place = parsed.lines.PlaceOf(parsed.file, foreign.offset, foreign.length);
    Origin* origin = OriginAt(*net.mutable_layers(), place);
    if (origin != nullptr) origin->set_v1_type(foreign.type);
  }
}

}  // namespace moka
