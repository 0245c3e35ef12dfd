// The binary as a person uses it: a data set is drawn, a net is trained, tested, resumed and asked, every verb helps.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <vector>

#include "proto/weights/weights.h"
#include "tests/tools/cli_fixture.h"
#include "tools/cli/command_line.h"

namespace moka {
namespace {

TEST_F(CliTest, EveryVerbHelpsInUnderFortyLines) {
  for (const Verb& verb : AllVerbs()) {
    const Outcome help = Moka(verb.name + " --help");
    EXPECT_EQ(help.code, 0) << verb.name;
    EXPECT_LT(std::count(help.out.begin(), help.out.end(), '\n'), 40) << verb.name;
    EXPECT_NE(help.out.find("moka " + verb.name), std::string::npos);
    for (const Verb& subverb : verb.subverbs)
      EXPECT_EQ(Moka(verb.name + " " + subverb.name + " --help").code, 0) << subverb.name;
  }
}

TEST_F(CliTest, WithoutAVerbItHelpsAndExitsWithUsage) {
  const Outcome outcome = Moka("");
  EXPECT_EQ(outcome.code, 64);
  EXPECT_NE(outcome.err.find("verbs:"), std::string::npos);
  EXPECT_TRUE(outcome.out.empty());
}

TEST_F(CliTest, MistypedVerbsAndFlagsNameTheNearest) {
  EXPECT_NE(Moka("trian").err.find("did you mean \"train\"?"), std::string::npos);
  const Outcome flag = Moka("train x --itertions=5");
  EXPECT_EQ(flag.code, 64);
  EXPECT_NE(flag.err.find("did you mean \"--iterations\"?"), std::string::npos) << flag.err;
}

TEST_F(CliTest, TrainingReachesAnAccuracyAndFillsTheRunFolder) {
  const fs::path run = folder_ / Run();
  for (const char* file :
       {"run.json", "status.json", "log.txt", "metrics.jsonl", "results.csv", "config/solver.prototxt",
        "config/net.prototxt", "plots/loss.svg", "plots/accuracy.csv", "checkpoints/iter_0000120.safetensors"}) {
    EXPECT_TRUE(fs::exists(run / file)) << file;
  }
  const Json status = Json::parse(ReadFile(run / "status.json"));
  EXPECT_EQ(status.at("state"), "finished");
  EXPECT_GT(status.at("best").get<double>(), 0.9);
  EXPECT_TRUE(fs::is_symlink(folder_ / "runs/latest"));
}

TEST_F(CliTest, TheLogHasCaffesLines) {
  const std::string log = ReadFile(folder_ / Run() / "log.txt");
  for (const char* line : {"Iteration 0, Testing net (#0)", "Test net output #0: accuracy = ", "Iteration 20 (",
                           "Train net output #0: loss = ", "Iteration 20, lr = ", "Optimization Done."}) {
    EXPECT_NE(log.find(line), std::string::npos) << line;
  }
}

TEST_F(CliTest, TestAndInferAgreeWithTheRun) {
  const Outcome tested = Moka(StrCat("test ", Run(), " --json"));
  ASSERT_EQ(tested.code, 0) << tested.err;
  EXPECT_GT(Json::parse(tested.out).at("outputs").at("accuracy").get<double>(), 0.9);
  ASSERT_EQ(Moka("data export data/test pictures --limit 8").code, 0);
  const Outcome inferred = Moka(StrCat("infer ", Run(), " pictures --json --top 3"));
  ASSERT_EQ(inferred.code, 0) << inferred.err;
  const Json pictures = Json::parse(inferred.out);
  ASSERT_EQ(pictures.size(), 8U);
  int right = 0;
  for (const Json& picture : pictures) {
    EXPECT_EQ(picture.at("top").size(), 3U);
    const std::string name = fs::path(picture.at("file").get<std::string>()).filename().string();
    right += name[0] == picture.at("top")[0].at("label").get<std::string>()[0] ? 1 : 0;
  }
  EXPECT_GE(right, 6);
}

TEST_F(CliTest, AnInterruptedRunResumesToTheSameWeights) {
  const std::string whole = Run();
  // SIGTERM somewhere between the first and the last of the 120 iterations.
  ASSERT_EQ(MokaStopped(Solver() + " max_iter=120 snapshot=60 --run cut", "[ -e runs/cut-0001/log.txt ]").code, 75);
  const Outcome resumed = Moka("train --resume=runs/cut-0001");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(ReadFile(folder_ / "runs/cut-0001/checkpoints/iter_0000120.safetensors"),
            ReadFile(folder_ / whole / "checkpoints/iter_0000120.safetensors"));
  const Outcome changed = Moka("train --resume=runs/cut-0001 base_lr=0.2");
  EXPECT_EQ(changed.code, 64);
  EXPECT_NE(changed.err.find("was base_lr: 0.05; is base_lr: 0.2"), std::string::npos) << changed.err;
}

// An unrolled RNN of 3,000 steps takes seconds to compile.
TEST_F(CliTest, ASignalWhileANetIsCompiledEndsTheTraining) {
  std::ofstream(folder_ / "long.prototxt") << R"(name: "long"
layer { name: "data" type: "DummyData" top: "x" top: "cont" top: "label"
  dummy_data_param { shape { dim: 3000 dim: 1 dim: 4 } shape { dim: 3000 dim: 1 } shape { dim: 3000 dim: 1 } } }
layer { name: "lstm" type: "RNN" bottom: "x" bottom: "cont" top: "h" recurrent_param { num_output: 4 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "h" bottom: "label" top: "loss" softmax_param { axis: 2 } }
)";
  std::ofstream(folder_ / "long_solver.prototxt")
      << "net: \"long.prototxt\" base_lr: 0.1 lr_policy: \"fixed\" max_iter: 5";
  const Outcome stopped =
      MokaStopped("train --solver=long_solver.prototxt --run long --runs long_runs", "grep -qs building err.txt");
  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_NE(stopped.err.find("interrupted while the nets were built"), std::string::npos) << stopped.err;
  EXPECT_FALSE(fs::exists(folder_ / "long_runs")) << "nothing is written before the first iteration";
}

TEST_F(CliTest, AWrongConfigurationLeavesNothingBehind) {
  Run();
  const auto count = [&] { return std::distance(fs::directory_iterator(folder_ / "runs"), fs::directory_iterator()); };
  const auto before = count();
  EXPECT_EQ(Moka(Solver() + " 'layer[ip1].inner_product_param.num_output=0'").code, 78);
  EXPECT_EQ(Moka(Solver() + " lr_policy=sometimes").code, 78);
  EXPECT_EQ(Moka(Solver() + " base_lrr=1").code, 64);
  EXPECT_EQ(count(), before);
}

TEST_F(CliTest, ExpandedModelsReadBackEqual) {
  ASSERT_EQ(Moka(StrCat("model expand '", MOKA_SOURCE_DIR, "/models/resnet50' plain.prototxt")).code, 0);
  ASSERT_EQ(Moka("model expand plain.prototxt again.prototxt").code, 0);
  EXPECT_EQ(ReadFile(folder_ / "plain.prototxt"), ReadFile(folder_ / "again.prototxt"));
  EXPECT_EQ(ReadFile(folder_ / "plain.prototxt").find("Block"), std::string::npos);
}

TEST_F(CliTest, WeightsConvertBothWays) {
  const std::string from = Run() + "/checkpoints/iter_0000120.safetensors";
  ASSERT_EQ(Moka(StrCat("model convert ", from, " net.caffemodel --model ", Run(), "/config/net.prototxt")).code, 0);
  ASSERT_EQ(Moka("model convert net.caffemodel back.safetensors").code, 0);
  WriteFileAtomically(folder_ / "phases.prototxt",
                      "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: [2, 3] } } } "
                      "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"x\" top: \"ip\" "
                      "inner_product_param { num_output: 2 } } "
                      "layer { name: \"aux\" type: \"InnerProduct\" bottom: \"x\" top: \"aux\" "
                      "inner_product_param { num_output: 2 } include { phase: TRAIN } }");
  std::vector<NamedBlob> blobs;
  for (const char* layer : {"ip", "aux"}) {
    blobs.push_back({layer, 0, Shape{2, 3}, std::vector<float>(6)});
    blobs.push_back({layer, 1, Shape{2}, std::vector<float>(2)});
  }
  WriteSafetensors(folder_ / "phases.safetensors", blobs);
  const Outcome phases = Moka("model convert phases.safetensors phases.caffemodel --model phases.prototxt");
  EXPECT_EQ(phases.code, 0) << phases.err;
  EXPECT_EQ(phases.err.find("has no layers"), std::string::npos) << phases.err;
  const Outcome a = Moka(StrCat("test ", Run(), " --weights net.caffemodel --json"));
  const Outcome b = Moka(StrCat("test ", Run(), " --weights back.safetensors --json"));
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(a.out, b.out);
}

TEST_F(CliTest, ACheckpointGoesToEveryFormatOfCaffesAndBack) {
  const std::string at = Run() + "@iter_0000120";
  ASSERT_EQ(Moka(StrCat("model convert ", at, " a.caffemodel")).code, 0);
  ASSERT_EQ(Moka("model convert a.caffemodel b.caffemodel.h5").code, 0);
  ASSERT_EQ(Moka("model convert b.caffemodel.h5 c.safetensors").code, 0);
  ASSERT_EQ(Moka(StrCat("model convert c.safetensors d.caffemodel --model ", Run(), "/config/net.prototxt")).code, 0);
  const Outcome last = Moka(StrCat("test ", Run(), " --weights d.caffemodel --json"));
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(last.out, Moka(StrCat("test ", Run(), " --weights a.caffemodel --json")).out);
  EXPECT_EQ(last.out, Moka(StrCat("test ", Run(), " --weights b.caffemodel.h5 --json")).out);
  // A .caffemodel keeps its layers through safetensors.
  ASSERT_EQ(Moka("model convert a.caffemodel e.safetensors").code, 0);
  ASSERT_EQ(Moka("model convert e.safetensors f.caffemodel").code, 0);
  ASSERT_EQ(Moka("model convert f.caffemodel g.safetensors").code, 0);
  EXPECT_EQ(ReadFile(folder_ / "e.safetensors"), ReadFile(folder_ / "g.safetensors"));
  EXPECT_EQ(Moka("model convert a.caffemodel a.solverstate").code, 64);
  EXPECT_EQ(Moka("model convert a.caffemodel a.bin").code, 64);
  EXPECT_EQ(Moka(StrCat("model convert ", Run(), "@iter_7 a.caffemodel")).code, 66);
}

TEST_F(CliTest, AnExportedSolverStateContinuesTheRun) {
  for (const std::string ending : {"", ".h5"}) {
    const std::string state = "half.solverstate" + ending;
    ASSERT_EQ(Moka(StrCat("model convert ", Run(), "@iter_0000060 ", state)).code, 0);
    ASSERT_TRUE(fs::exists(folder_ / ("half.caffemodel" + ending)));
    const Outcome trained = Moka(StrCat(Solver(), " max_iter=120 --run on", ending, " --snapshot ", state));
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(ReadFile(folder_ / StrCat("runs/on", ending, "-0001/checkpoints/iter_0000120.safetensors")),
              ReadFile(folder_ / Run() / "checkpoints/iter_0000120.safetensors"));
  }
  ASSERT_EQ(Moka("model convert half.solverstate again.solverstate.h5").code, 0);
  ASSERT_EQ(Moka("model convert again.solverstate.h5 again.solverstate").code, 0);
  EXPECT_EQ(ReadFile(folder_ / "half.solverstate"), ReadFile(folder_ / "again.solverstate"));
}

TEST_F(CliTest, PreviewDrawsWhatDataLayersMake) {
  ASSERT_EQ(Moka("data import glyphs:6:3 previewed").code, 0);
  WriteFileAtomically(folder_ / "preview.prototxt",
                      "layer { name: \"train\" type: \"Data\" top: \"data\" top: \"label\" include { phase: TRAIN } "
                      "transform_param { augment { affine { degrees: 20 } } } "
                      "data_param { source: \"previewed\" batch_size: 3 backend: LMDB } }");
  const Outcome drawn = Moka("data preview preview.prototxt --out sheet.png --records 2 --epochs 5");
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  // 28 pixels four times as large, gaps of 3, a caption of 22.
  EXPECT_EQ(drawn.out, "sheet.png: 578x255 pixels\n");
  EXPECT_EQ(ReadFile(folder_ / "sheet.png").substr(1, 3), "PNG");
  EXPECT_EQ(Moka("data preview preview.prototxt --test").code, 64);
  const Outcome other = Moka("data preview preview.prototxt --layer val");
  EXPECT_EQ(other.code, 64);
  EXPECT_NE(other.err.find("has no data layer named \"val\" in this phase"), std::string::npos) << other.err;
  const Outcome wrong =
      Moka("data preview preview.prototxt 'layer[train].transform_param.augment[0].affine.degrees=400'");
  EXPECT_EQ(wrong.code, 78);
  EXPECT_NE(wrong.err.find("augment[0].affine.degrees is 400, expected 0..180"), std::string::npos) << wrong.err;
}

TEST_F(CliTest, CaffesProgramsWorkUnderTheirNames) {
  ASSERT_EQ(Moka("data import glyphs:12:3 digits").code, 0);
  const Outcome pictures = Moka("data export digits drawn --limit 12");
  ASSERT_EQ(pictures.code, 0) << pictures.err;
  std::string list;
  for (const fs::path& path : ListFiles(folder_ / "drawn", ".png")) {
    list += StrCat(path.filename().string(), " ", path.filename().string().substr(0, 1), "\n");
  }
  WriteFileAtomically(folder_ / "list.txt", list);
  const Outcome made =
      Moka("convert_imageset drawn/ list.txt db -gray -gray=true --resize_height=20 --resize_width=16");
  EXPECT_EQ(made.out, "Processed 12 files.\n") << made.err;
  EXPECT_NE(Moka("data inspect db").out.find("shape 1x20x16"), std::string::npos);
  EXPECT_EQ(Moka("convert_imageset drawn/ list.txt db2 --backend=leveldb").code, 64);
  EXPECT_EQ(Moka("convert_imageset drawn/ list.txt db3 -noshuffle -nogray").code, 0);
  EXPECT_EQ(Moka("convert_imageset drawn/ list.txt db3 -noshuffle -shuffle").code, 64);
  // An export that --check_size refuses leaves nothing behind: a second try says the same.
  ASSERT_EQ(Moka("data export db small --limit 1").code, 0);
  const std::string small = ListFiles(folder_ / "small", ".png").front().filename().string();
  const std::string drawn = ListFiles(folder_ / "drawn", ".png").front().filename().string();
  WriteFileAtomically(folder_ / "two.txt", StrCat("drawn/", drawn, " 0\nsmall/", small, " 0\n"));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Moka("convert_imageset ./ two.txt db4 --check_size").code, 65);
  EXPECT_FALSE(fs::exists(folder_ / "db4"));
  WriteFileAtomically(folder_ / "none.txt", "none.png 0\n");
  EXPECT_NE(Moka("convert_imageset ./ none.txt db5").err.find("none was good; the first is none.png: none.txt:1: "),
            std::string::npos);
  const Outcome mean = Moka("compute_image_mean db mean.binaryproto");
  EXPECT_NE(mean.out.find("Number of channels: 1\nmean_value channel [0]: "), std::string::npos) << mean.err;
  EXPECT_TRUE(fs::exists(folder_ / "mean.binaryproto"));

  WriteFileAtomically(
      folder_ / "features.prototxt",
      "layers { name: \"d\" type: DATA top: \"data\" data_param { source: \"db\" batch_size: 4 backend: LMDB } }"
      "layers { name: \"ip\" type: INNER_PRODUCT bottom: \"data\" top: \"ip\" "
      "inner_product_param { num_output: 3 } }");
  EXPECT_EQ(Moka("upgrade_net_proto_text features.prototxt new.prototxt").code, 0);
  EXPECT_NE(ReadFile(folder_ / "new.prototxt").find("type: \"InnerProduct\""), std::string::npos);
  WriteFileAtomically(folder_ / "solver.prototxt", "base_lr: 1 lr_policy: \"fixed\" solver_type: ADAM");
  EXPECT_EQ(Moka("upgrade_solver_proto_text solver.prototxt new_solver.prototxt").code, 0);
  EXPECT_NE(ReadFile(folder_ / "new_solver.prototxt").find("type: \"Adam\""), std::string::npos);
}

TEST_F(CliTest, NetsAreDrawn) {
  WriteFileAtomically(
      folder_ / "net.prototxt",
      "layer { name: \"x\" type: \"Input\" top: \"x\" include { phase: TRAIN } "
      "input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } } "
      "layer { name: \"x\" type: \"Input\" top: \"x\" include { phase: TEST } "
      "input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } } "
      "layer { name: \"c \\\"1\\\"\" type: \"Convolution\" bottom: \"x\" top: \"c\" param { lr_mult: 0.5 } "
      "convolution_param { num_output: 4 kernel_h: 3 kernel_w: 1 pad: 1 } } "
      "layer { name: \"r\" type: \"ReLU\" bottom: \"c\" top: \"c\" } "
      "layer { name: \"p\" type: \"Pooling\" bottom: \"c\" top: \"p\" "
      "pooling_param { kernel_size: 2 stride: 2 } }");
  // Both phases' sources lead to the convolution; the pooling reads what the unit in place wrote.
  ASSERT_EQ(Moka("draw_net net.prototxt all.dot --display_lrm").code, 0);
  const std::string all = ReadFile(folder_ / "all.dot");
  EXPECT_NE(all.find("rankdir=LR"), std::string::npos);
  EXPECT_NE(all.find("l2 [label=\"c \\\"1\\\"\\nConvolution\\n4, 3x1 pad 1\\nlr_mult 0.5, 1\""), std::string::npos)
      << all;
  for (const char* edge : {"l0 -> l2", "l1 -> l2", "l2 -> l3", "l3 -> l4"}) {
    EXPECT_NE(all.find(edge), std::string::npos) << edge;
  }
  EXPECT_EQ(all.find("l2 -> l4"), std::string::npos);
  EXPECT_NE(all.find("Pooling\\nMAX, 2 stride 2"), std::string::npos) << all;
  ASSERT_EQ(Moka("draw_net net.prototxt test.dot --phase TEST --rankdir TB").code, 0);
  EXPECT_EQ(ReadFile(folder_ / "test.dot").find("l4"), std::string::npos);
  // The verb of Moka's own knows shapes.
  ASSERT_EQ(Moka("model draw net.prototxt shapes.dot --phase TEST").code, 0);
  EXPECT_NE(ReadFile(folder_ / "shapes.dot").find("\"x [1,3,8,8]\""), std::string::npos);

  const Outcome png = Moka("draw_net net.prototxt net.png");
  ASSERT_EQ(png.code, 0) << png.err;
  EXPECT_EQ(png.out, "Drawing net to net.png\n");
  EXPECT_EQ(ReadFile(folder_ / "net.png").substr(0, 4), "\x89PNG");
  ASSERT_EQ(Moka("model draw net.prototxt net.svg").code, 0);
  EXPECT_NE(ReadFile(folder_ / "net.svg").find("</svg>"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "net.png.part"));
  EXPECT_FALSE(fs::exists(folder_ / "net.png.dot"));
  EXPECT_EQ(Moka("draw_net net.prototxt net.bmp").code, 64);
  EXPECT_EQ(Moka("draw_net net.prototxt net.png --rankdir UP").code, 64);
  EXPECT_EQ(Moka("draw_net net.prototxt net.png --phase BOTH").code, 64);
}

TEST_F(CliTest, ConvertAnnosetMakesADatabaseOfBoxes) {
  ASSERT_EQ(Moka("data import glyphs:3:3 boxed").code, 0);
  ASSERT_EQ(Moka("data export boxed framed").code, 0);
  std::string list;
  for (const fs::path& path : ListFiles(folder_ / "framed", ".png")) {
    const std::string stem = path.stem().string();
    WriteFileAtomically(
        folder_ / "framed" / (stem + ".xml"),
        "<annotation><size><width>28</width><height>28</height></size><object><name>digit</name><bndbox>"
        "<xmin>7</xmin><ymin>0</ymin><xmax>21</xmax><ymax>28</ymax></bndbox></object></annotation>");
    list += StrCat(stem, ".png ", stem, ".xml\n");
  }
  WriteFileAtomically(folder_ / "framed.txt", list);
  WriteFileAtomically(folder_ / "map.prototxt", "item { name: \"digit\" label: 1 display_name: \"a digit\" }\n");
  // As SSD's script calls it.
  const std::string flags =
      "--anno_type=detection --label_map_file=map.prototxt --check_label=True --min_dim=0 --max_dim=0 "
      "--resize_height=0 --resize_width=0 --backend=lmdb --shuffle=False --check_size=False --encode_type=png "
      "--encoded=True --gray=False ";
  const Outcome made = Moka("convert_annoset " + flags + "--label_type=xml framed/ framed.txt boxes");
  EXPECT_EQ(made.out, "Processed 3 files.\n") << made.err;
  EXPECT_TRUE(fs::exists(folder_ / "boxes" / "data.mdb"));
  EXPECT_EQ(Moka("convert_annoset --anno_type=segmentation framed/ framed.txt boxes2").code, 64);
  EXPECT_EQ(Moka("convert_annoset --anno_type=detection framed/ framed.txt boxes2").code, 64);  // no label map
  EXPECT_EQ(Moka("convert_annoset " + flags + "--label_type=json framed/ framed.txt boxes2").code, 65);
}

TEST_F(CliTest, CheckTellsWhatIsUnderstood) {
  WriteFileAtomically(
      folder_ / "good.prototxt",
      "layer { name: \"x\" type: \"Data\" top: \"x\" top: \"label\" data_param { source: \"none\" "
      "batch_size: 2 } transform_param { crop_size: 8 } } "
      "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"x\" top: \"ip\" inner_product_param { num_output: 5 } "
      "} layer { name: \"odd\" type: \"Odd\" bottom: \"ip\" top: \"odd\" include { stage: \"odd\" } }");
  WriteFileAtomically(folder_ / "rates.prototxt",
                      "base_lr: 0.5 lr_policy: \"step\" gamma: 0.1 stepsize: 10 max_iter: 20");
  const Outcome check = Moka("model check --json good.prototxt rates.prototxt --shape 'x=3,1,4,4'");
  EXPECT_EQ(check.code, 0) << check.err;
  std::istringstream lines(check.out);
  std::string line;
  std::getline(lines, line);
  const Json net = Json::parse(line);
  EXPECT_TRUE(net["ok"].get<bool>());
  EXPECT_EQ(net["states"].size(), 4U);  // two phases, without and with the stage
  EXPECT_EQ(net["states"][0]["parameters"], 5 * 16 + 5);
  EXPECT_EQ(net["states"][0]["tops"][0], (Json{"x:x", {3, 1, 4, 4}}));
  EXPECT_NE(net["states"][1]["error"].get<std::string>().find("unknown layer type \"Odd\""), std::string::npos);
  std::getline(lines, line);
  const Json rates = Json::parse(line)["rates"];
  EXPECT_EQ(rates.front()[1], 0.5);
  EXPECT_NEAR(rates.back()[1].get<double>(), 0.005, 1e-8);
  EXPECT_EQ(net["states"][0]["assumed"], Json::array());
  WriteFileAtomically(folder_ / "open.prototxt",
                      "layer { name: \"x\" type: \"Data\" top: \"x\" data_param { source: \"none\" batch_size: 2 } }");
  EXPECT_NE(Moka("model check open.prototxt").out.find("assuming x [2,3,224,224] (--shape sets shapes)"),
            std::string::npos);
  // An option that is given again adds to it.
  const std::string two = Moka("model check open.prototxt --shape x=3,1,4,4 --shape other=1 --json").out;
  EXPECT_NE(two.find("[\"x:x\",[3,1,4,4]]"), std::string::npos) << two;
  const std::string again = Moka("model check open.prototxt --shape x=2,1,5,5 --shape x=3,1,4,4 --json").out;
  EXPECT_NE(again.find("--shape gives x twice"), std::string::npos) << again;
  WriteFileAtomically(folder_ / "pair.prototxt",
                      "layer { name: \"x\" type: \"HDF5Data\" top: \"a\" top: \"b\" hdf5_data_param { source: \"none\" "
                      "batch_size: 2 } }");
  const std::string pair = Moka("model check pair.prototxt --shape a=2,7 --shape b=2,9 --json").out;
  EXPECT_NE(pair.find("[2,7]"), std::string::npos) << pair;
  EXPECT_NE(pair.find("[2,9]"), std::string::npos) << pair;
  WriteFileAtomically(folder_ / "digits.prototxt",
                      "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: [2, 3] } } } "
                      "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"x\" top: \"ip\" }");
  EXPECT_NE(Moka("model check digits.prototxt")
                .out.find("assuming ip [2,10] (layer[ip].inner_product_param.num_output=N sets the classes)"),
            std::string::npos);
  const Outcome given = Moka("model check digits.prototxt layer[ip].inner_product_param.num_output=7");
  EXPECT_EQ(given.out.find("assuming"), std::string::npos) << given.out;
  EXPECT_NE(given.out.find("28 parameters"), std::string::npos) << given.out;
  EXPECT_EQ(Moka("model check good.prototxt nothing.prototxt").code, 78);
  // A template whose rate comes from the command line.
  WriteFileAtomically(folder_ / "template.prototxt", "net: \"good.prototxt\" lr_policy: \"fixed\" max_iter: 20");
  const Outcome relative = Moka("model check template.prototxt");
  EXPECT_EQ(relative.code, 0) << relative.err;
  EXPECT_NE(relative.out.find("rate 1 of base_lr=RATE, which is to be given, at 0"), std::string::npos) << relative.out;
}

TEST_F(CliTest, ResNet50TrainsWithoutReorders) {
  const Outcome dry = Moka(StrCat("time '", MOKA_SOURCE_DIR, "/models/resnet50' --dry-run"));
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("steps, 0 reorders in the steady state"), std::string::npos) << dry.out;
}

TEST_F(CliTest, TimeDryRunExplainAndTraceLookInside) {
  const Outcome dry = Moka(StrCat("time '", MOKA_SOURCE_DIR, "/models/cifar10_resnet20' --dry-run"));
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("lower bound"), std::string::npos);
  const Outcome explain = Moka(StrCat("time '", MOKA_SOURCE_DIR, "/models/cifar10_resnet20' --explain=conv1"));
  ASSERT_EQ(explain.code, 0) << explain.err;
  EXPECT_NE(explain.out.find("convolution"), std::string::npos);
  ASSERT_EQ(Moka(Run().empty() ? "" : Solver() + " max_iter=2 --run traced --trace trace.json").code, 0);
  const Json trace = Json::parse(ReadFile(folder_ / "trace.json"));
  EXPECT_GT(trace.at("traceEvents").size(), 40U);
}

TEST_F(CliTest, InferLooksInsideAsTheOtherVerbsDo) {
  const std::string infer = StrCat("infer ", Run(), " ");
  const Outcome dry = Moka(infer + "--dry-run");  // no picture is needed
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("program infer\n"), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("lower bound"), std::string::npos);
  const Outcome explained = Moka(infer + "--explain=ip1 --batch 3");
  ASSERT_EQ(explained.code, 0) << explained.err;
  EXPECT_NE(explained.out.find("[3,500]"), std::string::npos) << explained.out;
  EXPECT_NE(Moka(infer + "--dry-run --dump-after=layout").out.find("# after layout\n"), std::string::npos);
  const Outcome without = Moka(infer + "--dry-run --disable-pass=compose,fuse");
  EXPECT_NE(without.out.find("skipped"), std::string::npos) << without.out;
  EXPECT_EQ(dry.out.find("skipped"), std::string::npos) << dry.out;

  ASSERT_EQ(Moka("data export data/test shown --limit 2").code, 0);
  const auto top_labels = [&](const std::string& flags) {
    const Outcome outcome = Moka(infer + "shown --json --top 1 " + flags);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<int> labels;
    for (const Json& picture : Json::parse(outcome.out)) labels.push_back(picture.at("top")[0].at("index").get<int>());
    return labels;
  };
  const std::vector<int> labels = top_labels("");
  EXPECT_EQ(labels.size(), 2U);
  EXPECT_EQ(top_labels("--kernels=listed --disable-pass=compose,fuse --trace infer.json"), labels);
  EXPECT_GE(Json::parse(ReadFile(folder_ / "infer.json")).at("traceEvents").size(), 4U);
}

TEST_F(CliTest, TestAndTimeWriteTracesToo) {
  ASSERT_EQ(Moka(StrCat("test ", Run(), " --iterations 1 --trace test.json")).code, 0);
  EXPECT_GE(Json::parse(ReadFile(folder_ / "test.json")).at("traceEvents").size(), 4U);
  const std::string time = StrCat("time '", MOKA_SOURCE_DIR, "/models/lenet' --iterations 1 --trace time.json");
  ASSERT_EQ(Moka(time).code, 0);
  EXPECT_GE(Json::parse(ReadFile(folder_ / "time.json")).at("traceEvents").size(), 10U);
}

}  // namespace
}  // namespace moka
