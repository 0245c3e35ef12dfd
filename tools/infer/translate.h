// Translation beside the command line: what a check of a model's quality asks.
#pragma once

#include "tools/infer/source.h"

namespace moka {

// BLEU, as sacrebleu's, of what a trained net makes of the texts of its TextPairData layer in the test phase (of stage
// "test", if the net has one), with the card's beam and length penalty. Errors: those of the net, the weights and the
// files.
double BleuOfTestPairs(const InferSource& source);

}  // namespace moka
