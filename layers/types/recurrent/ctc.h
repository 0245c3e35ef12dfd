// Scores, lengths and the blank, as the layers of connectionist temporal classification read them.
#pragma once

#include <string>

#include "layers/net/layer.h"

namespace moka {

// Bottom i as class scores [T,N,C]: later axes must be 1.
ValueId ScoresOf(const LayerBuilder& l, int i);

// Bottom i as marks [T,N]; where they begin a sequence anew they end the one before: the lengths [N].
ValueId LengthsOf(const LayerBuilder& l, int i, const Shape& scores);
// All T steps of each sequence.
ValueId AllSteps(const LayerBuilder& l, const Shape& scores);

// A class of the scores; negative: the last. Errors: kConfig at the field.
int64_t BlankOf(const LayerBuilder& l, const std::string& field, int64_t blank, int64_t classes);

// Bottom i as labels [N,L], `time_major` if it is [L,N]; no gradient.
ValueId LabelsOf(const LayerBuilder& l, int i, int64_t streams, bool time_major);

}  // namespace moka
