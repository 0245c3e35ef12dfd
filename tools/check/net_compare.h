// A net here against the values another engine found: blob by blob in the order of the layers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/moka.pb.h"
#include "proto/weights/npz.h"

namespace moka {

// One comparison.
struct BlobDifference {
  std::string layer;    // that wrote the blob last, or has the parameter
  std::string name;     // "conv1", "gradient of conv1", "gradient of parameter 0"
  std::string problem;  // shapes that differ; empty if the values were compared
  std::string note;     // what else to know: only the first rows were compared
  double largest = 0;   // largest |here - there|
  double relative = 0;  // the same over the largest |there|
  int64_t index = 0;    // where it is
  double here = 0;
  double there = 0;
};

struct CompareOptions {
  NetState state;
  std::string weights;  // files as --weights has them; empty: parameters come from `arrays`, "param/LAYER/INDEX"
  bool gradients = false;
};

struct NetComparison {
  std::vector<BlobDifference> differences;
  std::vector<std::string> not_compared;  // what an array is of, or what has none, and why; a sentence's line each
};

// `arrays` are named "blob/NAME" (or NAME), "blobdiff/NAME", "param/LAYER/INDEX" and "paramdiff/LAYER/INDEX". Blobs
// that the net takes from outside (Input, data layers) are fed with theirs; every other one that is there is compared.
// Where a size depends on the data (DetectionOutput), Caffe's blob is the beginning of the one here, whose rest is
// padding. Errors: kConfig (those of building the net), kBadData (an input that is missing or of another shape),
// kUsage.
NetComparison CompareNet(const NetParameter& net, const CompareOptions& options,
                         const std::map<std::string, NumpyArray>& arrays);

}  // namespace moka
