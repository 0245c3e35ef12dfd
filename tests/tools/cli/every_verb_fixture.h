// The folder in which sweeps run every verb of the program. The verbs come from the program's own table, their lines
// from every_verb.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/tools/cli/every_verb.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/server_process.h"
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
    server_ = std::make_unique<ServerProcess>(folder_, std::vector<std::string>{"conv-0001"});
    setenv("SERVED_PORT", std::to_string(server_->port()).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  static void TearDownTestSuite() {
    server_.reset();
    CliTest::TearDownTestSuite();
  }
  static const std::vector<VerbLine>& Lines() {
    static const std::vector<VerbLine> lines = [] {
      std::vector<VerbLine> all;
      for (const auto& [path, verb] : RunningVerbs()) {
        const auto found = VerbWords().find(path);
        EXPECT_NE(found, VerbWords().end()) << "give moka " << path << " a line in tests/tools/cli/every_verb.h";
        if (found == VerbWords().end()) continue;
        all.push_back({verb, path, StrCat(path, " ", found->second)});
        if (const auto made = VerbUndo().find(path); made != VerbUndo().end())
          all.back().undo = StrCat("rm -rf ", made->second);
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

  static constexpr const char* kConvolutions = R"(name: "conv"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "db" batch_size: 10 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 3 kernel_size: 5
  stride: 4 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 10
  weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";
  static inline std::unique_ptr<ServerProcess> server_;  // of the run conv-0001
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
