// Weights between a net's blobs, the ParameterStore and files, matched by layer name as Caffe does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "graph/parameter_store.h"
#include "layers/net/net.h"
#include "proto/weights/weights.h"

namespace moka {

// Adds every blob the store does not have yet, filled by its filler from the seed. A test net's blobs find the train
// net's. Errors: kConfig when a blob is there with another shape, or its filler is wrong.
void AddBlobs(std::span<const NetBlob> blobs, uint64_t seed, ParameterStore& store);

// Gives the net's kept states names of their own program ("lstm1/@h@train": train and test nets share the store, not
// what they keep) and adds those the store does not have yet, zeroed. Requires: the net is not compiled yet.
void AddKept(BuiltNet& net, std::string_view program, ParameterStore& store);

// How a file's layers met the net's.
struct WeightsLoaded {
  std::vector<std::string> loaded;   // layers filled from the file
  std::vector<std::string> ignored;  // layers only the file has
  std::vector<std::string> missing;  // layers only the net has: they keep their values
};

// Copies blobs by layer name. Errors: an ErrorList of kBadData with every layer whose blob count or shape differs (the
// store is unchanged then); kBadData when no layer matches. TakePlainStatistics follows.
WeightsLoaded LoadWeights(const Weights& weights, const std::string& file, std::span<const NetBlob> blobs,
                          ParameterStore& store);
// The values that a net's text gives in `blobs` of its layers, as Caffe takes them where no file has others. Errors:
// kConfig at a layer whose blobs are others in number or shape.
void SetWrittenBlobs(const NetParameter& net, std::span<const NetBlob> blobs, ParameterStore& store);
// The blobs of the net in order, shared ones with every layer that uses them.
std::vector<NamedBlob> WeightsOf(std::span<const NetBlob> blobs, const ParameterStore& store);
// The files that a comma-separated list names. Errors: `kind` at `place` for a name that is empty.
std::vector<std::string> WeightFileNames(std::string_view list, ErrorKind kind = ErrorKind::kUsage,
                                         const SourcePlace& place = {});
// Reads a comma-separated list of files and loads each, logging what matched. Returns the layers that none of them has,
// in order of their names.
std::vector<std::string> ReadWeightFiles(const std::string& list, std::span<const NetBlob> blobs,
                                         ParameterStore& store);
// The same to train from: a line names the layers that no file has, which start as they are filled.
void LoadWeightFiles(const std::string& list, std::span<const NetBlob> blobs, ParameterStore& store);

// NVIDIA's Caffe keeps means and variances as they are and writes 0 as the sum of weights, which Caffe's never has
// beside statistics that are not 0: there they are taken as they are (a sum of 1), with a warning that names the layers
// and `file`.
void TakePlainStatistics(std::span<const NetBlob> blobs, const std::string& file, ParameterStore& store);

// Equal but for leading dimensions of 1: Caffe's old files write every blob with four dimensions.
bool IsSameCaffeShape(const Shape& a, const Shape& b);

}  // namespace moka
