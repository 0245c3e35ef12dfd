// V1 layer types that the enum does not have: those of forks (`layers { type: RESIZE }`) and names in quotes
// (`layers { type: "Convolution" }`). The text parser would end at them; they are a matter of the layer's builder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/text/parsed_text.h"

namespace moka {

struct ForeignType {
  size_t offset = 0;  // of the word or the opening quote in the text
  size_t length = 0;
  std::string type;  // the layer type's present name
};

// The V1 type that a parse of `text`, a net, ended at. Nothing if it ended for another reason.
std::optional<ForeignType> ForeignTypeAt(const ParsedText& parsed, const ParserComplaint& complaint);

// Puts the enum's 0 in the word's place, with blanks so that all places stay.
void HideForeignType(const ForeignType& foreign, std::string& text);

// Notes the types at the layers they stand in, for the upgrade of old nets.
void NoteForeignTypes(const ParsedText& parsed, const std::vector<ForeignType>& types, NetParameter& net);

}  // namespace moka
