// Names that would command a terminal: of layers, blobs, nets, classes, words, files, folders and runs. Wherever a verb
// shows one, in a table, a line, a picture's caption or an error, it is escaped.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "core/utf8.h"
#include "tests/tools/cli/every_verb_fixture.h"

namespace moka {
namespace {

// Escape sequences, a bell, a carriage return, a line of its own, a control character of the second set, a turn of
// direction.
constexpr const char* kHostile =
    "x\x1b[31m\a\rINJECTED\nINJECTED\xc2\x9b"
    "1m\xe2\x80\xae"
    "y\x7f";
constexpr const char* kHostileBytes = "f\x1b[31m\a\rINJECTED\nINJECTED\xff\xfe";  // of a file: no UTF-8

bool IsObeyedByTerminals(char32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0) || code == 0x61C ||
         code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

// As a string of prototxt.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    quoted += '\\';
    for (const unsigned shift : {6U, 3U, 0U}) quoted += static_cast<char>('0' + (byte >> shift & 7U));
  }
  return quoted + "\"";
}

// As a word of a shell.
std::string Word(const std::string& text) {
  return StrCat("$", "'", Quoted(text).substr(1, Quoted(text).size() - 2), "'");
}

class NamesTest : public EveryVerbTest {
 protected:
  static void ExpectShown(const std::string& text, const std::string& what) {
    for (size_t at = 0; at < text.size();) {
      const Character character = CharacterAt(text, at);
      ASSERT_GT(character.bytes, 0U) << what << " prints what is no UTF-8 at byte " << at << ":\n" << Printable(text);
      ASSERT_FALSE(IsObeyedByTerminals(character.code)) << what << " at byte " << at << ":\n" << Printable(text);
      at += character.bytes;
    }
    for (const std::string& line : Split(text, '\n'))
      EXPECT_FALSE(line.starts_with("INJECTED")) << what << "\n" << text;
  }
  // A progress bar's own way of drawing itself anew.
  static std::string WithoutBars(std::string text) {
    const std::string wipe = "\r\x1b[K";
    for (size_t at = text.find(wipe); at != std::string::npos; at = text.find(wipe, at))
      text.replace(at, wipe.size(), "\n");
    return text;
  }
  // Runs a line of bash and looks at what it prints.
  static Outcome Shown(const std::string& words, const std::vector<int>& codes = {0}) {
    WriteFileAtomically(folder_ / "line.sh", StrCat("OMP_NUM_THREADS=1 '", MOKA_BINARY, "' ", words, "\n"));
    const Outcome outcome = RunShell(StrCat("( cd '", folder_.string(), "' && bash line.sh )"), folder_);
    EXPECT_THAT(codes, testing::Contains(outcome.code)) << Printable(words) << "\n" << outcome.err;
    ExpectShown(outcome.out, Printable(words) + " on stdout");
    ExpectShown(WithoutBars(outcome.err), Printable(words) + " on stderr");
    return outcome;
  }
  static void SetUpHostile() {
    const std::string h = kHostile;
    const auto name = [&](const std::string& what) { return Quoted(h + what); };
    WriteFileAtomically(
        folder_ / "hostile.prototxt",
        StrCat("name: ", name("net"), " layer { name: ", name("data"), " type: \"Data\" top: ", name("x"),
               " top: ", name("l"), " data_param { source: \"db\" batch_size: 10 backend: LMDB } }\n layer { name: ",
               name("conv"), " type: \"Convolution\" bottom: ", name("x"), " top: ", name("c"),
               " convolution_param { num_output: 3 kernel_size: 5 stride: 4 weight_filler { type: \"xavier\" } } }\n"
               "layer { name: ",
               name("relu"), " type: \"ReLU\" bottom: ", name("c"), " top: ", name("c"),
               " }\n layer { name: ", name("ip"), " type: \"InnerProduct\" bottom: ", name("c"), " top: ", name("ip"),
               " inner_product_param { num_output: 10 weight_filler { type: \"xavier\" } } }\n layer { name: ",
               name("accuracy"), " type: \"Accuracy\" bottom: ", name("ip"), " bottom: ", name("l"),
               " top: ", name("accuracy"), " include { phase: TEST } }\n layer { name: ", name("loss"),
               " type: \"SoftmaxWithLoss\" bottom: ", name("ip"), " bottom: ", name("l"), " top: ", name("loss"),
               " }\n"));
    WriteFileAtomically(folder_ / "hostile_solver.prototxt",
                        "net: \"hostile.prototxt\" base_lr: 0.01 lr_policy: \"fixed\" max_iter: 2 display: 1 "
                        "test_iter: 1 test_interval: 1 random_seed: 1\n");
    std::string labels;
    for (int i = 0; i < 10; ++i) labels += StrCat("c\x1b[31m\a\xc2\x9b", "1m\xe2\x80\xae", i, "\n");
    WriteFileAtomically(folder_ / "labels.txt", labels);
  }
};

TEST_F(NamesTest, OfLayersBlobsNetsAndClasses) {
  SetUpHostile();
  Shown("train hostile_solver.prototxt --run hostile --device cpu --progress=bar --trace hostile.json");
  Shown("train hostile_solver.prototxt --run hostile --device cpu --progress=lines --verbose");
  Shown("train hostile_solver.prototxt --device cpu --dry-run --verbose");
  const std::string run = "hostile-0001";
  for (const std::string words : {"test hostile-0001",
                                  "test hostile-0001 --json",
                                  "infer hostile-0001 drawn",
                                  "infer hostile-0001 drawn --json",
                                  "time hostile.prototxt --iterations 1 --warmup 0",
                                  "time hostile.prototxt --iterations 1 --warmup 0 --json",
                                  "export hostile-0001 --out hostile.onnx",
                                  "export hostile-0001 --out hostile.onnx --json",
                                  "model show hostile.prototxt",
                                  "model check hostile.prototxt",
                                  "model check hostile.prototxt --json",
                                  "model expand hostile.prototxt",
                                  "model draw hostile.prototxt hostile.dot",
                                  "model convert hostile-0001@last hostile.caffemodel",
                                  "bench model hostile.prototxt --iterations 1 --warmup 0",
                                  "bench data hostile.prototxt --iterations 2 --warmup 1",
                                  "data preview hostile.prototxt --out hostile.png",
                                  "quantise hostile-0001 --batches 1 --iterations 1 --out hostile.int8.json",
                                  "trace hostile.json",
                                  "trace hostile.json --json",
                                  "time hostile.prototxt --dump-after simplify --iterations 1",
                                  "draw_net hostile.prototxt hostile2.dot",
                                  "upgrade_net_proto_text hostile.prototxt hostile3.prototxt"}) {
    Shown(words);
  }
  Shown("export hostile-0001 --to npz --out hostile.npz", {65});  // no zip has such names
  Shown(StrCat("time hostile.prototxt --explain=", Word(StrCat(kHostile, "conv"))));
  Shown(StrCat("frechet hostile-0001 drawn drawn --blob ", Word(StrCat(kHostile, "ip"))));
  Shown(StrCat("simulate hostile.prototxt --step-ms 10 --devices 8 --explain --topology ", MOKA_SOURCE_DIR,
               "/tools/launch/topologies/p40_100g.topology"));
  Shown("completion '--line=train hostile_solver.prototxt layer['");
}

TEST_F(NamesTest, InErrorsAboutThem) {
  SetUpHostile();
  const std::string h = Word(kHostile);
  const std::string f = Word(kHostileBytes);
  Shown(h, {64});
  Shown(StrCat("train ", h), {66});
  Shown(StrCat("train conv_solver.prototxt ", h, "=1"), {64, 78});
  Shown(StrCat("train conv_solver.prototxt --run ", h), {64});
  Shown(StrCat("train conv_solver.prototxt --resume=", h), {66});
  Shown(StrCat("train conv_solver.prototxt --weights ", h), {66});
  Shown(StrCat("train conv_solver.prototxt 'layer[", kHostile, "].type=x'"), {64, 78});
  Shown(StrCat("train --", h), {64});
  Shown(StrCat("test hostile-0001@", h), {66});
  Shown(StrCat("infer conv-0001 ", f), {66});
  Shown(StrCat("export ", f), {64, 66});
  Shown(StrCat("import ", f, " --net torch"), {66});
  Shown(StrCat("import conv.torch.safetensors --net ", f), {66});
  Shown(StrCat("export hostile-0001 --to ", h), {64});
  WriteFileAtomically(folder_ / "torch" / "names.torch.tsv", StrCat("@module\t", kHostile, "\na\tb/0\n"));
  Shown("import conv.torch.safetensors --net torch", {65, 78});
  WriteFileAtomically(folder_ / "torch" / "names.torch.tsv", StrCat("@module\tm\n", kHostileBytes, "\tb/0\n"));
  Shown("import conv.torch.safetensors --net torch", {65, 78});
  Shown(StrCat("explain layer ", h), {64});
  Shown(StrCat("zoo info ", h), {64, 66});
  Shown(StrCat("client ", h, " --status"), {64});
  Shown(StrCat("client http://127.0.0.1:$SERVED_PORT drawn --model ", h), {66});
  Shown(StrCat("client http://127.0.0.1:$SERVED_PORT ", f), {66});
  Shown(StrCat("zoo pack ", h, " ", h, " --models zoo_of_one"), {64, 66});
  Shown(StrCat("train conv_solver.prototxt --from ", h), {66});
  Shown(StrCat("data import imagenet:", f, ",train made_none"), {64, 66});
  Shown(StrCat("data import ", f, " made_none"), {64, 66});
  Shown(StrCat("launch -n 2 --dry-run --preflight off --hosts ", h, " -- train conv_solver.prototxt"), {0, 64, 69, 78});
  Shown(StrCat("launch -n 2 --nodes 1 --sbatch made.sbatch --dry-run -- train conv_solver.prototxt ", h, "=1"),
        {0, 64});
  WriteFileAtomically(folder_ / "bad.prototxt", StrCat("layer { name: \"a\" type: ", Quoted(kHostile), " }"));
  Shown("model show bad.prototxt", {78});
  WriteFileAtomically(folder_ / "bad.prototxt", StrCat("layer { na", kHostile, ": \"a\" }"));
  Shown("model show bad.prototxt", {65, 78});
  WriteFileAtomically(folder_ / "bad.prototxt", "layer { name: \"a\xff\" type: \"Input\" top: \"b\" }");
  Shown("model show bad.prototxt", {78});
}

TEST_F(NamesTest, OfFiles) {
  const fs::path folder = folder_ / kHostileBytes;
  fs::remove_all(folder);
  fs::create_directories(folder / "class\x1b[31m\nINJECTED");
  for (const fs::path& file : ListFiles(folder_ / "drawn", ".png")) {
    fs::copy(file, folder / (std::string(kHostileBytes) + file.filename().string()));
    fs::copy(file, folder / "class\x1b[31m\nINJECTED" / file.filename());
  }
  WriteFileAtomically(folder / (std::string(kHostileBytes) + "broken.png"), "no picture");
  fs::copy(folder_ / "conv.prototxt", folder / (std::string(kHostileBytes) + ".prototxt"));
  fs::copy(folder_ / "db", folder / "db");
  fs::copy(folder_ / "table.csv", folder / "t.csv");
  fs::copy(folder_ / "tracks.txt", folder / "tracks.txt");
  const std::string f = Word(kHostileBytes);
  const std::string net = StrCat(f, "/", f, ".prototxt");
  Shown(StrCat("infer conv-0001 ", f), {0, 65});
  Shown(StrCat("infer conv-0001 ", f, " --json"), {0, 65});
  Shown(StrCat("client http://127.0.0.1:$SERVED_PORT ", f), {0, 65});
  Shown(StrCat("client http://127.0.0.1:$SERVED_PORT ", f, " --json"), {0, 65});
  Shown(StrCat("infer conv-0001 ", f, " --annotate folders --out ", f, "/found"), {0, 65});
  Shown(StrCat("data tracks ", f, "/tracks.txt ", f, "/tracks.txt"));
  Shown(StrCat("data tracks ", f, "/tracks.txt ", f, "/t.csv"), {65});
  Shown(StrCat("data import ", f, " ", f, "/imported"), {65});
  Shown(StrCat("data import ", f, " ", f, "/imported2 --skip-bad"), {65});
  Shown(StrCat("data import ", f, " ", f, "/imported3 --skip-bad --json"), {65});
  Shown(StrCat("data check ", f), {65});
  Shown(StrCat("data check ", f, " --skip-bad --json --out ", f, "/report"), {65});
  Shown(StrCat("data inspect ", f, "/db"));
  Shown(StrCat("data inspect ", f, "/db --json"));
  Shown(StrCat("data verify ", f, "/db"));
  Shown(StrCat("data export ", f, "/db ", f, "/pictures"));
  Shown(StrCat("data shuffle ", f, "/db ", f, "/shuffled"));
  Shown(StrCat("data split ", f, "/db --parts a=0.5,b=0.5 --out ", f, "/parts"));
  Shown(StrCat("data mean ", f, "/db ", f, "/mean.binaryproto"));
  Shown(StrCat("data whiten ", f, "/db --kernel 1"));
  Shown(StrCat("data table ", f, "/t.csv ", f, "/table --target c"));
  Shown(StrCat("data preview ", net, " --out ", f, "/sheet.png"));
  Shown(StrCat("model show ", net));
  Shown(StrCat("model check ", net));
  Shown(StrCat("model check ", net, " --json"));
  Shown(StrCat("model draw ", net, " ", f, "/net.dot"));
  Shown(StrCat("model convert conv-0001@last ", f, "/w.caffemodel"));
  Shown(StrCat("export conv-0001 --out ", f, "/w.onnx"));
  Shown(StrCat("compute_image_mean ", f, "/db ", f, "/mean2.binaryproto"));
  Shown(StrCat("convert_imageset ", f, "/ ", f, "/none.txt ", f, "/set"), {66});
  Shown(StrCat("time ", net, " --iterations 1 --warmup 0 --trace ", f, "/t.json"));
  Shown(StrCat("trace ", f, "/t.json"));
  Shown(StrCat("train conv_solver.prototxt --runs ", f, "/runs --device cpu --progress=lines"));
  Shown(StrCat("train conv_solver.prototxt --runs ", f, "/runs --resume=auto --device cpu"), {0, 64});
  Shown(StrCat("test conv-0001 --runs ", f, "/runs"), {66});
  Shown(StrCat("test ", f, "/runs/every-0001"), {66});
}

}  // namespace
}  // namespace moka
