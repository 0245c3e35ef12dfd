// A net that was trained to translate, cut where inference needs it: what depends on the source alone runs once a
// sentence, what depends on the target runs word by word.
#pragma once

#include <string>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

struct TranslationParts {
  NetParameter reader;  // layers that no word of the target reaches
  NetParameter writer;  // the others, without losses
  // Tops of the reader, or of the data layer's source, that the writer takes.
  std::vector<std::string> memory;
  // A state that the writer's recurrent layers carry from word to word; empty where it runs over all words at once.
  struct State {
    std::string input;  // of the writer
    std::string first;  // top of the reader that it holds before the first word
    std::string next;   // top of the writer that it holds after a word
  };
  std::vector<State> states;
  std::string scores;     // top of the writer, [T,N,words]
  LayerParameter pairs;   // the TextPairData layer
  bool is_whole = false;  // the writer runs over all words at once
};

// `whole_prefix`: the writer is not to run step by step; it is not either where it has no recurrent layer. Errors:
// kConfig where there is no TextPairData layer, nothing compares scores with its NEXT, or a recurrent layer of the
// writer does not show its states.
TranslationParts SplitTranslation(const NetParameter& net, bool whole_prefix);

// The top of the pairs' layer that holds an output; empty without one.
std::string TopOf(const LayerParameter& pairs, TextPairDataParameter::Output output);

}  // namespace moka
