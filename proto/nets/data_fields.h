// Facts that the fields of data layers say of their tops by themselves, for whoever reads the data and whoever builds
// nets.
#pragma once

#include <cstdint>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

// Whether an output is of the source's words, else of the target's; and whether it is numbers of words [N].
bool IsOfSource(TextPairDataParameter::Output output);
bool IsLength(TextPairDataParameter::Output output);
// A batch's shape of an output.
Shape TextPairShape(const TextPairDataParameter& fields, TextPairDataParameter::Output output, int64_t batch_size);
// The length of an output's first axis where that is time, else 1.
int64_t TextPairSteps(const TextPairDataParameter& fields, TextPairDataParameter::Output output);

// A batch's shape of an output.
Shape StoryShape(StoryDataParameter::Output output, int64_t batch_size, int64_t sentences, int64_t words);
// Those of a layer's tops for stories of at most `words` words a sentence.
std::vector<Shape> StoryShapes(const StoryDataParameter& fields, int64_t batch_size, int64_t words);

// A batch's shape of an output.
Shape SkipGramShape(const SkipGramDataParameter& fields, SkipGramDataParameter::Output output, int64_t batch_size);

// Caffe_action's VideoData, told by its own fields.
bool IsActionVideo(const LayerParameter& layer);

}  // namespace moka
