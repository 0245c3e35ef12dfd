// The traits of a layer type, by which others know it: they ask its row for a trait, never for its name, and a type
// that is added tells everybody itself.
#pragma once

#include <cstdint>

#include "proto/moka.pb.h"

namespace moka {

// The part of its bottoms' shapes that the first top of a layer has, whatever its fields say.
enum class TopShape : uint8_t {
  kOwn,        // follows from fields, or from what is read
  kAxes,       // the axes; height and width are others
  kOfBottoms,  // the shape, which all bottoms share
  kOfFirst,    // the shape of the first bottom
};

// Where a layer without bottoms has its tops from.
enum class DataKind : uint8_t {
  kOther,
  kInput,     // whoever runs the net, once
  kProgram,   // the program that runs the net, for each batch
  kFillers,   // fillers: there are no records
  kRows,      // rows of files, which say their shapes
  kRecords,   // records of a picture and a number
  kBoxes,     // records of a picture and its boxes
  kPairs,     // pairs of sentences
  kStories,   // stories and questions
  kNoise,     // random numbers that a generator begins with
  kParameter  // a parameter, which is no data
};

// The kind of layer that a diagram shows it as; losses and accuracies are drawn as scores whatever it says.
enum class DrawnAs : uint8_t { kPlain, kWeights, kPooling, kScaling, kScores, kData };

struct LayerTraits {
  TopShape top_shape = TopShape::kOwn;
  DataKind data = DataKind::kOther;
  DrawnAs drawn_as = DrawnAs::kPlain;
  bool is_loss = false;
  // A loss of numbers that are compared with others of their kind: either bottom may be the target.
  bool is_regression = false;
  // The type of layer whose top are the scores that this loss learns: nets for deployment have it in the loss's place.
  const char* scores_type = nullptr;
  bool gives_scores = false;                  // such a loss's second top holds the scores
  const char* is_negative_without = nullptr;  // what its bottoms must hold for the loss never to be negative
  bool is_accuracy = false;           // its first top is the share of labels that were found, and has the op "accuracy"
  bool gives_detections = false;      // its first top holds rows of what was found, right or wrong, for an evaluator
  bool reads_scores = false;          // reads a number for each class, however many there are
  bool gives_indices = false;         // its top holds numbers of classes, not their scores
  bool hands_on = false;              // its tops hold the numbers of its bottoms as they are
  bool copies = false;                // each top is the bottom
  bool cuts = false;                  // its tops are the parts of its bottom (slice_param)
  bool discards = false;              // its bottoms are read by nobody
  bool is_product = false;            // a matrix of inner_product_param by the bottom
  bool has_filter_groups = false;     // convolution_param.group parts its filters
  bool embeds_items = false;          // each number of its bottom becomes a vector of its own
  bool marks_padding = false;         // builds with LayerBuilder::MarkPadded: rows of its tops may be left over, as -1
  bool is_recurrent = false;          // has recurrent_param; its last tops and bottoms may be its state
  bool counts_batches = false;        // blob 2 counts the batches of its statistics (batch_norm_param)
  bool runs_python = false;           // python_param names its program, which need not be built in
  bool writes_file = false;           // hdf5_output_param names the file that its bottoms go to in tests
  const char* untrainable = nullptr;  // what its training would do beside following gradients, which Moka does not
};

// The traits of the layer's type. An unknown type with "Loss" in its name is a loss, one with "Data" is drawn as data.
const LayerTraits& TraitsOf(const LayerParameter& layer);

}  // namespace moka
