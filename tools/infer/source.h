// The parts that inference works with: net, weights, names and the model's card, found from a run, a model's folder or
// a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graph/program.h"
#include "proto/moka.pb.h"
#include "proto/zoo.pb.h"
#include "tools/cli/command_line.h"
#include "tools/infer/frames.h"

namespace moka {

struct InferSource {
  std::filesystem::path net;        // deploy or training prototxt
  std::filesystem::path folder;     // config/ of a run, or the model's: vocabularies and such lie there
  std::string weights;              // file, or comma list
  std::vector<std::string> inputs;  // the words behind those that name net and weights
  ModelCard card;
  PictureInput flags;              // of the command line, over the card's and the net's
  std::vector<std::string> names;  // of classes; empty: numbers
  std::vector<std::string> overrides;
  NetState state;  // of the net: its test phase and stage "deploy", and the stages that a run tested it with first
  CompileOptions compile;
  bool has_precision = false;   // compile.compute stands, whatever the net says
  bool shares_weights = false;  // among programs for several batches, so that none may give them up
};

// The first positional, or --model; --weights, --labels and the flags of programs. A run beside --model gives its
// weights, as in TestSourceOf. Errors: kUsage, kNoInput, those of ReadModelCard.
InferSource InferSourceOf(const Arguments& arguments);

// The net in the source's state, overrides applied. Errors: as ReadNet.
NetParameter InferNet(const InferSource& source);

// A file of words that the data layer was trained with: the run's copy, else where the training found it.
std::filesystem::path VocabularyFile(const InferSource& source, const LayerParameter& layer, const std::string& file);

// A file of lines; "-" is the standard input.
std::filesystem::path TextFileOf(const std::string& name);

// A class's name, or its number.
std::string NameOf(const InferSource& source, int64_t label);

// The pictures below a folder in order. As for an import, hidden entries are none of it: what notebooks and macOS leave
// there are copies and no pictures. Errors: kNoInput for a folder without any.
std::vector<std::filesystem::path> PicturesBelow(const std::filesystem::path& folder);

// Files as given; the pictures of folders, sorted; those of videos (tools/infer/frames.h), which are written to
// `frames`;
// "-": the picture that standard input holds, else the files that it names, one a line. Errors: kNoInput for a folder
// without any, those of WriteFrames.
std::vector<std::filesystem::path> PicturesOf(const std::vector<std::string>& arguments,
                                              const std::filesystem::path& frames = "frames");
// The same of one video or folder; of a video with its times.
VideoPictures VideoPicturesOf(const std::string& argument, const std::filesystem::path& frames = "frames");

}  // namespace moka
