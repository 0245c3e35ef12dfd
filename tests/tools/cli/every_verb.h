// A line for each verb of the program, for sweeps over all of them: the verbs come from the program's own table, and
// one that has no line here fails the sweeps.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/tools/cli_fixture.h"
#include "tools/cli/command_line.h"

namespace moka {

// A verb that runs, and words behind "moka" with which it does some work in EveryVerbTest's folder.
struct VerbLine {
  const Verb* verb = nullptr;
  std::string path;  // "data import"
  std::string line;
  std::string undo = {};  // a shell line before it: what an earlier run left would be in its way
};

// The verbs that run something, subverbs by their path.
inline std::vector<std::pair<std::string, const Verb*>> RunningVerbs() {
  std::vector<std::pair<std::string, const Verb*>> found;
  const std::function<void(const Verb&, const std::string&)> add = [&](const Verb& verb, const std::string& path) {
    if (verb.run != nullptr) found.emplace_back(path, &verb);
    for (const Verb& subverb : verb.subverbs) add(subverb, StrCat(path, " ", subverb.name));
  };
  for (const Verb& verb : AllVerbs()) add(verb, verb.name);
  return found;
}

class EveryVerbTest : public CliTest {
 protected:
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    Prepare();
  }
  static const std::vector<VerbLine>& Lines() {
    static const std::vector<VerbLine> lines = [] {
      std::vector<VerbLine> all;
      for (const auto& [path, verb] : RunningVerbs()) {
        const auto found = Words().find(path);
        EXPECT_NE(found, Words().end()) << "give moka " << path << " a line in tests/tools/cli/every_verb.h";
        if (found == Words().end()) continue;
        all.push_back({verb, path, StrCat(path, " ", found->second)});
        const std::map<std::string, std::string>& undo = Undo();
        if (const auto made = undo.find(path); made != undo.end()) all.back().undo = StrCat("rm -rf ", made->second);
      }
      return all;
    }();
    return lines;
  }

  // Runs "moka LINE" in the folder, where `streams` are redirections of a shell.
  static Outcome Run(const VerbLine& line, const std::string& more = {}, const std::string& streams = {}) {
    const std::string undo = line.undo.empty() ? "" : line.undo + " && ";
    return RunShell(StrCat("( cd '", folder_.string(), "' && ", undo, "OMP_NUM_THREADS=1 '", MOKA_BINARY, "' ",
                           line.line, " ", more, " ", streams, " )"),
                    folder_);
  }

 private:
  static void Must(const std::string& line) {
    const Outcome made = Moka(line);
    EXPECT_EQ(made.code, 0) << line << "\n" << made.err;
  }

  static void Prepare() {
    for (const char* name : {"override-slash", "batchnorm-factor-zero"}) {
      const fs::path from = fs::path(MOKA_SOURCE_DIR) / "tests/cases" / name;
      fs::copy(from, folder_, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }
    WriteFileAtomically(folder_ / "conv.prototxt", kConvolutions);
    WriteFileAtomically(folder_ / "conv_solver.prototxt",
                        "net: \"conv.prototxt\" base_lr: 0.01 lr_policy: \"fixed\" max_iter: 2 display: 1 test_iter: 1 "
                        "test_interval: 2 random_seed: 1\n");
    fs::create_directories(folder_ / "noise");
    fs::create_directories(folder_ / "torch");
    WriteFileAtomically(folder_ / "noise/train_val.prototxt", kNoise);
    WriteFileAtomically(folder_ / "noise/solver.prototxt",
                        "net: \"train_val.prototxt\" base_lr: 0.01 lr_policy: \"fixed\" max_iter: 1 random_seed: 1\n");
    WriteFileAtomically(folder_ / "noise/model.prototxt", "name: \"noise\" task: GENERATE\n");
    fs::create_directories(folder_ / "zoo_of_one/conv");
    WriteFileAtomically(folder_ / "zoo_of_one/README.md", kTablePlace);
    WriteFileAtomically(folder_ / "zoo_of_one/conv/README.md", kTablePlace);
    WriteFileAtomically(folder_ / "zoo_of_one/conv/model.prototxt",
                        "name: \"conv\" recipe { metric: \"loss\" }\n"
                        "check { top { name: \"data\" dim: 0 dim: 1 dim: 28 dim: 28 } }\n");
    WriteFileAtomically(folder_ / "zoo_of_one/conv/train_val.prototxt", kConvolutions);
    WriteFileAtomically(folder_ / "zoo_of_one/conv/solver.prototxt",
                        "net: \"train_val.prototxt\" base_lr: 0.01 lr_policy: \"fixed\" max_iter: 2 test_iter: 1 "
                        "test_interval: 2\n");
    WriteFileAtomically(folder_ / "table.csv", "a,b,c\n1,2,3\n2,3,5\n3,5,8\n5,8,13\n8,13,21\n");
    WriteFileAtomically(folder_ / "text.txt", "the cat sat\nthe dog ran\n");
    WriteFileAtomically(folder_ / "tracks.txt", "1,1,10,10,20,20,1,1,1\n2,1,12,10,20,20,1,1,1\n");
    // A training copies the table that lies beside its solver.
    for (const char* file : {"names.torch.tsv", "torch/names.torch.tsv"}) {
      WriteFileAtomically(folder_ / file,
                          "@module\tConvolutions\nconv.weight\tconv/0\nconv.bias\tconv/1\nfc.weight\tip/0\tclasses\n"
                          "fc.bias\tip/1\tclasses\n");
    }
    Must("data import glyphs:40:1 db");
    Must("data export db drawn --limit 4");
    std::string list;
    for (const fs::path& file : ListFiles(folder_ / "drawn", ".png")) list += file.filename().string() + " 0\n";
    WriteFileAtomically(folder_ / "drawn.txt", list);
    Must("train solver.prototxt --run plain --trace t.json --device cpu");
    Must("train conv_solver.prototxt --run conv --device cpu");
    Must("train noise --device cpu");
    Must("model convert conv-0001@last conv.caffemodel");
    WriteFileAtomically(folder_ / "torch/train_val.prototxt", kConvolutions);
    Must("export conv-0001 --to torch-names --out conv.torch.safetensors");
    Must("export conv-0001 --to onnx --out conv.onnx");
  }

  static const std::map<std::string, std::string>& Words() {
    static const std::map<std::string, std::string> words = {
        {"bench accuracy",
         "conv_solver.prototxt --target loss=100 --seeds 1 --runs made_accuracy --out made_accuracy.json"},
        {"bench comm", "--ranks 2 --minbytes 4K --maxbytes 4K --iters 2 --warmup_iters 0 --algorithm ring"},
        {"bench data", "conv.prototxt --iterations 2 --warmup 1"},
        {"bench serve", "conv-0001 --seconds 0.2"},
        {"bench model", "net.prototxt --iterations 1 --warmup 0"},
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
  static const std::map<std::string, std::string>& Undo() {
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

  static constexpr const char* kConvolutions = R"(name: "conv"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "db" batch_size: 10 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 3 kernel_size: 5
  stride: 4 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 10
  weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";
  static constexpr const char* kTablePlace = "<!-- zoo -->\n<!-- /zoo -->\n";
  static constexpr const char* kNoise = R"(name: "noise"
layer { name: "z" type: "RandomNoise" top: "z" random_noise_param { shape { dim: 2 dim: 4 } } }
layer { name: "fc" type: "InnerProduct" bottom: "z" top: "fc" inner_product_param { num_output: 12
  weight_filler { type: "gaussian" std: 0.5 } } }
layer { name: "map" type: "Reshape" bottom: "fc" top: "map" reshape_param { shape { dim: 0 dim: 3 dim: 2 dim: 2 } } }
layer { name: "made" type: "TanH" bottom: "map" top: "made" }
layer { name: "loss" type: "Reduction" bottom: "made" top: "loss" loss_weight: 1
  include { phase: TRAIN } reduction_param { operation: MEAN } }
)";
};

}  // namespace moka
