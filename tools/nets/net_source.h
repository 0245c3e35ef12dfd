// Nets for tools that do not train: shapes of data layers, and what a CONFIG argument names.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "layers/net/net.h"
#include "proto/moka.pb.h"
#include "proto/nets/net_file.h"
#include "proto/zoo.pb.h"

namespace moka {

// Asks a data layer's source for its shapes. When the source is missing the shapes are those of the card beside the
// net, or follow from the layer's fields (layers/shapes/data_guess.h) with a warning, so a net can be looked at and
// timed without its data. `shapes` sets the shape of tops by name.
DataTypes ProbeDataTypes(Phase phase, const std::filesystem::path& base_folder,
                         std::map<std::string, Shape> shapes = {});

// The same without opening any source.
DataTypes GuessDataTypes(std::map<std::string, Shape> shapes = {});

// "data=1,3,224,224;label=1" as the option --shape has it; of two shapes of one top the later counts. Errors: kUsage.
std::map<std::string, Shape> ParseShapes(const std::string& list);
// Adds the tops of a net's layers.
void AddTops(const NetParameter& net, std::set<std::string>& tops);
// Errors: kUsage for a shape of a top that is not among these, with the nearest.
void RefuseUnknownTops(const std::map<std::string, Shape>& shapes, const std::set<std::string>& tops);

// The net a CONFIG argument means: a .prototxt, or a folder (model or run) that holds `file` (run folders in config/),
// or a run by its name in `runs`, RUN or RUN@WHICH, or a model of the zoo by its name. A run's net stands for `file`
// where that is a net's: of a run with a net for each phase the one that trained for "train_val.prototxt", else the
// first that was tested. Errors: kNoInput naming the places tried.
std::filesystem::path FindConfig(const std::string& config, std::string_view file,
                                 const std::filesystem::path& runs = "runs");

// Reads a net and adds what --level and --stage give to its own state, so that FilterNet and BuildNet need no more than
// the phase. A given stage that no rule names is warned about. Errors: those of ReadNet.
NetParameter ReadNetInState(const std::filesystem::path& file, const NetReadOptions& read, const NetState& given);

// The net that is timed for inference: what FindConfig finds as deploy.prototxt, or a model's train_val.prototxt where
// it has none, with a warning. Errors: those of FindConfig.
std::filesystem::path FindInferenceNet(const std::string& config);

// Returns what the card beside the file of a layer says of made-up data for its tops; nothing where there is no card.
// Errors: those of ModelCardOf.
ZooCheck MadeUpDataOf(const LayerParameter& layer);
// The shapes that it gives tops of the layer, those of a batch. Errors: those of ModelCardOf.
std::map<std::string, Shape> ShapesOfCard(const LayerParameter& layer, int64_t batch);

}  // namespace moka
