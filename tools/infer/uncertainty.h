// How little a net knows about a picture, from 0 (sure) to 1: what people label next is what is most uncertain. B.
// Settles, Active Learning Literature Survey, University of Wisconsin TR 1648, 2009, section 3.1.
#pragma once

#include <span>

namespace moka {

// Scores that are no probabilities (below 0, or their sum is not 1) are taken for logits, whose softmax they become;
// one score alone is the probability of one class of two.

// 1 less the margin of the two best classes' probabilities (T. Scheffer et al., Active Hidden Markov Models for
// Information Extraction, IDA 2001).
double MarginUncertainty(std::span<const float> scores);

// The entropy of the classes' probabilities, as a part of the most there can be: -sum p log p / log(classes).
double EntropyUncertainty(std::span<const float> scores);

// The expected entropy, in bits, of whether a detection is right, where one is drawn by its score s: sum s H(s) / sum s
// with H(s) = -s log2 s - (1-s) log2 (1-s). 0 without detections.
double DetectionUncertainty(std::span<const double> scores);

}  // namespace moka
