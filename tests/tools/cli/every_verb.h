// A line for each verb of the program, for sweeps over all of them (every_verb_fixture.h): one that has no line here
// fails the sweeps.
#pragma once

#include <map>
#include <string>

#include "core/text.h"

namespace moka {

// Returns, by verb, words behind it with which it does some work in EveryVerbTest's folder.
inline const std::map<std::string, std::string>& VerbWords() {
  static const std::map<std::string, std::string> words = {
      {"bench accuracy",
       "conv_solver.prototxt --target loss=100 --seeds 1 --runs made_accuracy --out made_accuracy.json"},
      {"bench comm", "--ranks 2 --minbytes 4K --maxbytes 4K --iters 2 --warmup_iters 0 --algorithm ring"},
      {"bench data", "conv.prototxt --iterations 2 --warmup 1"},
      {"bench model", "net.prototxt --iterations 1 --warmup 0"},
      {"bench serve", "conv-0001 --seconds 0.2"},
      {"client", "http://127.0.0.1:$SERVED_PORT drawn"},
      {"compare", "deploy.prototxt blobs.npz --weights nvcaffe.safetensors"},
      {"completion", "bash"},
      {"compute_image_mean", "db made_mean.binaryproto"},
      {"convert_annoset", "drawn/ drawn.txt made_annoset --anno_type=classification"},
      {"convert_imageset", "drawn/ drawn.txt made_imageset"},
      {"data check", "db glyphs:20:2 --out made_check"},
      {"data export", "db made_pictures --limit 2"},
      {"data import", "glyphs:20:2 made_import"},
      {"data inspect", "db"},
      {"data mean", "db made.binaryproto"},
      {"data preview", "conv.prototxt --out made.png"},
      {"data shuffle", "db made_shuffle"},
      {"data split", "db --parts a=0.5,b=0.5 --out made_split"},
      {"data table", "table.csv made_table --target c"},
      {"data tracks", "tracks.txt tracks.txt"},
      {"data verify", "db"},
      {"data whiten", "db --kernel 1"},
      {"data vocabulary", "text.txt made_words.txt"},
      {"device", ""},
      {"draw_net", "net.prototxt made_net.dot"},
      {"explain", "layer Pooling"},
      {"export", "conv-0001 --to onnx --out made.onnx"},
      {"extract_features", "conv.caffemodel conv.prototxt ip made_features 1 lmdb"},
      {"frechet", "conv-0001 drawn drawn --blob ip"},
      {"generate", "noise-0001 --count 1 --out made_generated"},
      {"import", "conv.onnx --out made_net"},
      {"infer", "conv-0001 drawn"},
      {"launch", "-n 2 --nodes 1 --sbatch made.sbatch --dry-run -- train solver.prototxt"},
      {"model check", "net.prototxt"},
      {"model convert", "plain-0001@last made.caffemodel"},
      {"model draw", "net.prototxt made_draw.dot"},
      {"model expand", "net.prototxt"},
      {"model show", "net.prototxt"},
      {"new", "classify glyphs:150:1 --out made_model --size small"},
      {"quantise", "conv-0001 --batches 1 --iterations 1 --out made.int8.json"},
      {"quickstart", "--pictures 60 --iterations 2"},
      {"report", "conv-0001 --iterations 1"},
      {"serve", "conv-0001 --dry-run"},
      {"simulate", StrCat("net.prototxt --step-ms 10 --devices 8 --topology ", MOKA_SOURCE_DIR,
                          "/tools/launch/topologies/p40_100g.topology")},
      {"test", "plain-0001 --iterations 1"},
      {"time", "net.prototxt --iterations 1 --warmup 0"},
      {"trace", "t.json"},
      {"train", "solver.prototxt --run made --runs made_runs --device cpu"},
      {"upgrade_net_proto_binary", "conv.caffemodel made_upgraded.caffemodel"},
      {"upgrade_net_proto_text", "net.prototxt made_upgraded.prototxt"},
      {"upgrade_solver_proto_text", "solver.prototxt made_solver.prototxt"},
      {"version", ""},
      {"zoo info", "lenet"},
      {"zoo list", ""},
      {"zoo pack", "conv-0001 conv --models zoo_of_one"},
      {"zoo train", "lenet --dry-run"},
      {"zoo verify", "lenet --tier static"}};
  return words;
}

// Returns, by verb, the command that removes what the verb would refuse to make again.
inline const std::map<std::string, std::string>& VerbUndo() {
  static const std::map<std::string, std::string> undo = {{"bench accuracy", "made_accuracy*"},
                                                          {"convert_annoset", "made_annoset*"},
                                                          {"convert_imageset", "made_imageset*"},
                                                          {"data import", "made_import*"},
                                                          {"data shuffle", "made_shuffle*"},
                                                          {"data split", "made_split"},
                                                          {"data table", "made_table"},
                                                          {"extract_features", "made_features*"},
                                                          {"generate", "made_generated"},
                                                          {"import", "made_net"},
                                                          {"new", "made_model*"}};
  return undo;
}

}  // namespace moka
