// The net that is being made of an ONNX graph: layers in order, what they learned, and the shape of every blob. A layer
// is built by itself on its bottoms' shapes as soon as it is added, so that what it cannot be is told at its node.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/moka.pb.h"
#include "proto/weights/named_blob.h"
#include "tools/exchange/import/levels.h"
#include "tools/exchange/import/onnx_file.h"

namespace moka {

// A layer's learned blob.
struct LayerBlob {
  Shape shape;
  std::vector<float> values;
};

class NetWriter {
 public:
  // A pass that only looks at the shapes keeps a number for each blob in place of its values. With an open batch the
  // net is to run with any number of images, and the one that its blobs have is an example.
  NetWriter(bool keeps_values, bool has_open_batch) : keeps_values_(keeps_values), has_open_batch_(has_open_batch) {}

  bool has_open_batch() const { return has_open_batch_; }

  // An input [dims..] of the net; returns its blob. Errors: kConfig for dims that no blob has.
  std::string AddInput(const std::string& name, const Ints& dims);
  // Adds a layer, of which type and fields are set, and returns its tops, which are called `tops` (or nearly so, where
  // a name is taken). Errors: kConfig with what the layer says of it.
  std::vector<std::string> Add(LayerParameter layer, const std::string& name, const std::vector<std::string>& bottoms,
                               const std::vector<std::string>& tops, std::vector<LayerBlob> blobs);
  // A constant as a blob, by a Parameter layer, which constants of one tensor share.
  std::string AddConstant(const OnnxConstant& constant, const std::string& name);
  // The part [begin, begin + count) of a blob along an axis; a Slice layer makes all parts that are asked for alike.
  std::string Cut(const std::string& blob, int64_t axis, int64_t begin, int64_t count);
  const Ints& DimsOf(const std::string& blob) const { return dims_.at(blob); }
  // The place in the net of the layer that makes a blob.
  int PlaceOf(const std::string& blob) const { return makers_.at(blob); }
  // Moves a layer to a later place. Requires: no layer up to there reads its tops.
  void MoveLayer(int from, int to);
  // Notes that a blob is rounded to 8 bits where the file runs.
  void NoteLevels(const std::string& blob, const Levels& levels) { levels_.emplace(blob, levels); }
  const std::map<std::string, Levels>& levels() const { return levels_; }
  // Tops that no layer reads and that are none of the `outputs` go to a layer Silence.
  void SilenceUnread(const std::set<std::string>& outputs);
  // The name, as a blob may be called, with a number behind it if it is taken.
  std::string UniqueBlob(const std::string& name) { return Unique(name, blobs_taken_); }

  NetParameter& net() { return net_; }
  std::vector<NamedBlob>& weights() { return weights_; }
  // For each of weights(), a number made of its values.
  const std::vector<uint64_t>& hashes() const { return hashes_; }

 private:
  static std::string Unique(const std::string& name, std::set<std::string>& taken);
  void BuildAlone(const LayerParameter& layer, const std::vector<LayerBlob>& blobs);

  bool keeps_values_;
  bool has_open_batch_;
  NetParameter net_;
  std::vector<NamedBlob> weights_;
  std::vector<uint64_t> hashes_;
  std::map<std::string, Ints> dims_;      // by blob
  std::map<std::string, int> makers_;     // places of layers, by blob
  std::map<std::string, Levels> levels_;  // by blob
  std::set<std::string> read_;
  std::set<std::string> blobs_taken_;
  std::set<std::string> layers_taken_;
  std::map<std::string, std::vector<std::string>> cuts_;  // tops, by blob, axis and points
  std::map<OnnxConstant, std::string> constants_;         // blobs that hold them
};

// A name without what exporters put around it ("/layer1/conv/Conv_output_0" is "layer1/conv/Conv"), of printable ASCII.
std::string PlainName(const std::string& name);

}  // namespace moka
