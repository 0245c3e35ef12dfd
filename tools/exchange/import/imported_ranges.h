// The 8-bit integers of a file of the QDQ format, as the ranges that `moka quantise` measures.
#pragma once

#include <string>

#include "graph/quantization.h"
#include "tools/exchange/import/net_writer.h"

namespace moka {

// Whether the blob is a sum of products, of either sign, behind which a ReLU may have been left out.
bool MayLackReLU(NetWriter& net, const std::string& blob);

// Inference gives the sum of two convolutions to the first. Where the file rounds one of them before
// the sum, and not the other, its layer is moved behind the other's, so that it is not that one.
void PutRoundedSummandsLast(NetWriter& net);

// Ranges of each convolution whose input is rounded, by its layer; weights by their own largest magnitudes. Those with
// a batch norm behind them have none, as it changes the weights that run. Requires: a net that keeps its values.
Quantization RangesOf(NetWriter& net);

}  // namespace moka
