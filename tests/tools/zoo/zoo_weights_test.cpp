// Weights that the zoo carries: packed from a run, checked whenever they are taken, and found by every verb that takes
// a model's folder or zoo:NAME.
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "proto/nets/model_card.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

class ZooWeightsTest : public CliTest {
 protected:
  static void Replace(const fs::path& file, const std::string& from, const std::string& to) {
    std::string text = ReadFile(file);
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    WriteFileAtomically(file, text);
  }
  // models/lenet of a clone, over the drawn digits of Run(), with the weights of that run.
  static const Outcome& Packed() {
    static const Outcome packed = [] {
      const std::string run = Run();
      EXPECT_EQ(Moka("data export data/test drawn --limit 1").code, 0);
      fs::create_directories(folder_ / "models");
      fs::copy(fs::path(MOKA_SOURCE_DIR) / "models/lenet", folder_ / "models/lenet", fs::copy_options::recursive);
      WriteFileAtomically(folder_ / "models/README.md", "<!-- zoo -->\n<!-- /zoo -->\n");
      fs::create_directories(folder_ / "docs/results");
      std::ofstream(folder_ / "docs/results/mnist_lenet.csv") << "iter\n";
      Replace(folder_ / "models/lenet/train_val.prototxt", "data/mnist/", "data/");
      Replace(folder_ / "models/lenet/solver.prototxt", "test_iter: 100", "test_iter: 2");
      Replace(folder_ / "models/lenet/model.prototxt", "override: \"max_iter=1000\" floor: 0.98",
              "override: \"max_iter=4\" floor: 0");
      return Moka(StrCat("zoo pack ", run, " lenet --most-loss 0.02"));
    }();
    EXPECT_EQ(packed.code, 0) << packed.err;
    return packed;
  }
  static ZooWeights Row() {
    const ModelCard card = ReadModelCard(folder_ / "models/lenet/model.prototxt");
    EXPECT_EQ(card.weights_size(), 1);
    return card.weights(0);
  }
  static fs::path Picture() { return ListFiles(folder_ / "drawn", ".png").at(0); }
};

TEST_F(ZooWeightsTest, PackingTestsThenWritesFileCardAndTables) {
  EXPECT_NE(Packed().out.find("accuracy = "), std::string::npos) << Packed().out;
  const ZooWeights row = Row();
  EXPECT_EQ(row.file(), "weights.safetensors");
  EXPECT_EQ(row.dtype(), "float16");
  EXPECT_EQ(row.metric(), "accuracy");
  EXPECT_EQ(row.data(), "MNIST");
  EXPECT_EQ(row.samples(), 200);
  EXPECT_EQ(row.bytes(), static_cast<int64_t>(fs::file_size(folder_ / "models/lenet/weights.safetensors")));
  EXPECT_LT(row.bytes(), 900000);  // 431,080 numbers of two bytes
  EXPECT_EQ(row.source().substr(0, 26), "trained here, seed 5, moka") << row.source();
  EXPECT_FALSE(fs::exists(folder_ / "models/lenet/weights.safetensors.float32"));
  EXPECT_NE(ReadFile(folder_ / "models/lenet/README.md").find("| their metric | accuracy "), std::string::npos);
  EXPECT_NE(ReadFile(folder_ / "models/README.md").find("trained here, with weights"), std::string::npos);
  // A second time the row is replaced.
  const Outcome again = Moka(StrCat("zoo pack ", Run(), "@last lenet --dtype float32"));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(Row().dtype(), "float32");
  EXPECT_EQ(Moka(StrCat("zoo pack ", Run(), " lenet --most-loss 0.02")).code, 0);
  EXPECT_EQ(Row().sha256(), row.sha256());
}

TEST_F(ZooWeightsTest, EveryVerbFindsThem) {
  Packed();
  for (const char* model : {"zoo:lenet", "models/lenet", "lenet"}) {
    const Outcome inferred = Moka(StrCat("infer ", model, " '", Picture().string(), "'"));
    EXPECT_EQ(inferred.code, 0) << model << inferred.err;
  }
  const Outcome tested = Moka("test zoo:lenet --json");
  ASSERT_EQ(tested.code, 0) << tested.err;
  EXPECT_NEAR(Json::parse(tested.out)["outputs"]["accuracy"].get<double>(), Row().value(), 1e-6);
  const Outcome weights = Moka("test models/lenet --weights zoo:lenet --json");
  EXPECT_EQ(Json::parse(weights.out)["outputs"], Json::parse(tested.out)["outputs"]) << weights.err;
  const Outcome exported = Moka("export zoo:lenet --dry-run");
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_NE(exported.out.find("lenet.onnx"), std::string::npos) << exported.out;
  const Outcome reported = Moka("report zoo:lenet --out page");
  EXPECT_EQ(reported.code, 0) << reported.err;
  EXPECT_NE(ReadFile(folder_ / "page/report.html").find("zoo:lenet"), std::string::npos);
  EXPECT_EQ(Moka(StrCat("frechet zoo:lenet drawn drawn --blob ip1")).code, 66);  // one picture is no set
  const Outcome elsewhere = Moka("infer models/lenet/deploy.prototxt drawn");
  EXPECT_EQ(elsewhere.code, 64);
  EXPECT_NE(elsewhere.err.find("`moka zoo list` shows the models that carry theirs"), std::string::npos)
      << elsewhere.err;
  // In a fresh clone there are no records: what was kept of them says all.
  fs::rename(folder_ / "data", folder_ / "gone");
  const Outcome fresh = Moka(StrCat("infer zoo:lenet '", Picture().string(), "'"));
  fs::rename(folder_ / "gone", folder_ / "data");
  EXPECT_EQ(fresh.code, 0) << fresh.err;
  EXPECT_EQ(fresh.err.find("warning"), std::string::npos) << fresh.err;
}

// Returns words for `moka` that have a model of the zoo do what its card's task says, on inputs that are made up here.
std::string UseOf(const fs::path& model, const ModelCard& card, const fs::path& made) {
  const auto made_file = [&](const char* name, const std::string& text) {
    WriteFileAtomically(made / name, text);
    return StrCat("'", (made / name).string(), "'");
  };
  const std::string infer = StrCat("infer '", model.string(), "' ");
  const auto picture = [&] {
    std::string pixels;
    for (int i = 0; i < 3 * 120 * 160; ++i) pixels += static_cast<char>(i * 7 % 251);
    return made_file("picture.ppm", StrCat("P6 160 120 255\n", pixels));
  };
  const std::string out = StrCat(" --out 'found_", model.filename().string(), "'");
  switch (card.task()) {
    case ModelCard::CLASSIFY: return infer + picture();
    case ModelCard::DETECT:
    case ModelCard::INSTANCES:
    case ModelCard::SEGMENT: return infer + picture() + out;
    case ModelCard::TRANSLATE: return StrCat(infer, "--text ", made_file("line.de", "Ein Mann schläft .\n"));
    case ModelCard::ANSWER:
      return StrCat(infer, "--story ", made_file("story.txt", "Mary moved to the bathroom.\nWhere is Mary?\n"));
    case ModelCard::GENERATE: return StrCat("generate '", model.string(), "' --count 4 --out four.png");
    case ModelCard::EMBED:
      return infer + (fs::exists(model / "words.txt") ? std::string("man two --top 2") : picture());
    case ModelCard::REGRESS: {
      const std::string input = Json::parse(ReadFile(model / "expected.json")).at("input");  // "features [11]"
      std::string row = "1";
      for (int i = std::stoi(input.substr(input.find('[') + 1)); i > 1; --i) row += ",1";
      return infer + made_file("row.csv", row + "\n");
    }
  }
  return {};
}

TEST_F(ZooWeightsTest, EveryEntryThatHasThemIsOfUseInAFreshClone) {
  int entries = 0;
  std::set<ModelCard::Task> tasks;
  for (const auto& entry : fs::directory_iterator(fs::path(MOKA_SOURCE_DIR) / "models")) {
    if (!fs::exists(entry.path() / "weights.safetensors")) continue;
    const ModelCard card = ReadModelCard(entry.path() / "model.prototxt");
    const std::string use = UseOf(entry.path(), card, folder_);
    const Outcome outcome = Moka(use);
    EXPECT_EQ(outcome.code, 0) << use << "\n" << outcome.err;
    EXPECT_EQ(outcome.err.find("warning"), std::string::npos) << use << "\n" << outcome.err;
    const bool draws = card.task() == ModelCard::GENERATE;
    EXPECT_TRUE(draws ? fs::exists(folder_ / "four.png") : !outcome.out.empty()) << use;
    ++entries;
    tasks.insert(card.task());
  }
  EXPECT_GE(entries, 18);
  EXPECT_GE(tasks.size(), 9U) << "each task of infer and generate has an entry";
}

TEST_F(ZooWeightsTest, TrainingsStartFromThemWithFreshHeads) {
  Packed();
  const std::string more = "max_iter=1 'test_iter=[1]' --no-report --run ";
  const Outcome whole = Moka(StrCat("train models/lenet --from zoo:lenet ", more, "whole"));
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.err.find("weights of 4 layers loaded"), std::string::npos) << whole.err;
  EXPECT_NE(ReadFile(folder_ / "runs/whole-0001/run.json").find("zoo:lenet"), std::string::npos);
  for (const char* from : {"zoo:lenet", "models/lenet", "models/lenet/weights.safetensors", "lenet-0001@last"}) {
    const Outcome head = Moka(
        StrCat("train models/lenet 'layer[ip2].inner_product_param.num_output=12' --from ", from, " ", more, "head"));
    EXPECT_EQ(head.code, 0) << from << head.err;
    EXPECT_NE(head.err.find("so this layer starts fresh: ip2 (10 there, 12 here)"), std::string::npos) << head.err;
  }
  // --weights is Caffe's: a layer of another shape is refused.
  const Outcome strict = Moka(
      StrCat("train models/lenet 'layer[ip2].inner_product_param.num_output=12' --weights zoo:lenet ", more, "strict"));
  EXPECT_EQ(strict.code, 65) << strict.err;
  const Outcome renamed = Moka(StrCat("train models/lenet 'layer[ip1].name=ip1b' --from zoo:lenet ", more, "named"));
  EXPECT_EQ(renamed.code, 0) << renamed.err;
  EXPECT_NE(renamed.err.find("did you mean \"ip1\"?"), std::string::npos) << renamed.err;
}

// Nothing of the entry changes where its card cannot be changed.
TEST_F(ZooWeightsTest, ARefusedPackLeavesTheEntry) {
  Packed();
  const fs::path entry = folder_ / "models/lenet";
  const fs::path names = folder_ / Run() / "config/labels.txt";
  const std::string card = ReadFile(entry / "model.prototxt");
  const std::string weights = ReadFile(entry / "weights.safetensors");
  const std::string names_before = ReadFile(names);
  WriteFileAtomically(names, "new\n");
  WriteFileAtomically(entry / "labels.txt", "old\n");
  WriteFileAtomically(entry / "model.prototxt",
                      card.substr(0, card.find("weights {")) + "weights { file: \"weights.safetensors\" }\n");
  const Outcome refused = Moka(StrCat("zoo pack ", Run(), " lenet --untested --dtype float32"));
  EXPECT_EQ(refused.code, 78) << refused.err;
  EXPECT_NE(refused.err.find("one that is written by hand is not changed"), std::string::npos) << refused.err;
  EXPECT_EQ(ReadFile(entry / "labels.txt"), "old\n");
  EXPECT_EQ(ReadFile(entry / "weights.safetensors"), weights);
  EXPECT_FALSE(fs::exists(entry / ".pack"));
  WriteFileAtomically(entry / "model.prototxt", card);
  // Nor where a README has no place for its table.
  const std::string readme = ReadFile(entry / "README.md");
  WriteFileAtomically(entry / "README.md", "# LeNet\n");
  const Outcome bare = Moka(StrCat("zoo pack ", Run(), " lenet --untested --dtype float32"));
  EXPECT_EQ(bare.code, 65) << bare.err;
  EXPECT_EQ(ReadFile(entry / "model.prototxt"), card);
  EXPECT_EQ(ReadFile(entry / "labels.txt"), "old\n");
  WriteFileAtomically(entry / "README.md", readme);
  WriteFileAtomically(entry / "labels.txt", names_before);
  WriteFileAtomically(names, names_before);
}

// A scheduler starts a job again by the same words: the run goes on from its own checkpoint.
TEST_F(ZooWeightsTest, ARequeuedJobKeepsItsStart) {
  Packed();
  const std::string words =
      "train models/lenet --from zoo:lenet --weights zoo:lenet 'test_iter=[1]' --no-report --run job ";
  const Outcome both = Moka(words + "--resume=auto max_iter=100000 --max-time 2s");
  ASSERT_EQ(both.code, 75) << both.err;
  const Outcome again = Moka(words + "--resume=auto max_iter=100000 --max-time 1s");
  EXPECT_EQ(again.code, 75) << again.err;
  for (const char* start : {"from", "weights"}) {
    EXPECT_NE(
        again.err.find(StrCat("--", start, "=zoo:lenet began runs/job-0001, which goes on from its own checkpoint")),
        std::string::npos)
        << again.err;
  }
  EXPECT_NE(again.err.find("resuming at iteration"), std::string::npos) << again.err;
}

TEST_F(ZooWeightsTest, ShellsCompleteThem) {
  Packed();
  for (const char* line : {"infer zoo:l", "test zoo", "export z"}) {
    EXPECT_EQ(Moka(StrCat("completion --line='", line, "'")).out, "zoo:lenet\n") << line;
  }
  EXPECT_EQ(Moka("completion --line='train models/lenet --from=z'").out, "--from=zoo:lenet\n");
  EXPECT_EQ(Moka("completion --line='test runs/latest --weights=z'").out, "--weights=zoo:lenet\n");
  EXPECT_EQ(Moka("completion --line='model show zoo'").out, "") << "a net alone has no weights";
}

TEST_F(ZooWeightsTest, DamagedAndMissingOnesAreTold) {
  Packed();
  const fs::path file = folder_ / "models/lenet/weights.safetensors";
  const std::string whole = ReadFile(file);
  EXPECT_EQ(Moka("zoo verify lenet --tier static").code, 0);
  std::string damaged = whole;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
  WriteFileAtomically(file, damaged);
  const Outcome told = Moka(StrCat("infer zoo:lenet '", Picture().string(), "'"));
  EXPECT_EQ(told.code, 65);
  EXPECT_NE(told.err.find("has the SHA-256"), std::string::npos) << told.err;
  const Outcome verified = Moka("zoo verify lenet --tier static");
  EXPECT_EQ(verified.code, 22);
  EXPECT_NE(verified.out.find("has the SHA-256"), std::string::npos) << verified.out;
  fs::remove(file);
  const Outcome missing = Moka("train models/lenet --from zoo:lenet");
  EXPECT_EQ(missing.code, 66);
  EXPECT_NE(missing.err.find("is not there, and the card names it"), std::string::npos) << missing.err;
  WriteFileAtomically(file, whole);
  EXPECT_EQ(Moka("zoo verify lenet --tier static").code, 0);
}

TEST_F(ZooWeightsTest, TheMetricIsTestedWhereTheDataIs) {
  Packed();
  const Outcome verified = Moka("zoo verify lenet --tier nightly");
  EXPECT_NE(verified.out.find("metric     accuracy "), std::string::npos) << verified.out << verified.err;
  const std::string card = ReadFile(folder_ / "models/lenet/model.prototxt");
  std::string wrong = card;
  const size_t at = wrong.rfind("  value: ");
  ASSERT_NE(at, std::string::npos);
  wrong.replace(at, wrong.find('\n', at) - at, "  value: 0.1");
  WriteFileAtomically(folder_ / "models/lenet/model.prototxt", wrong);
  const Outcome failed = Moka("zoo verify lenet --tier nightly");
  EXPECT_EQ(failed.code, 22);
  EXPECT_NE(failed.out.find("the card says 0.1"), std::string::npos) << failed.out;
  WriteFileAtomically(folder_ / "models/lenet/model.prototxt", card);
}

TEST_F(ZooWeightsTest, WrongWordsAreRefusedWithTheNearest) {
  Packed();
  const auto expect = [](const std::string& words, int code, const std::string& text) {
    const Outcome refused = Moka(words);
    EXPECT_EQ(refused.code, code) << words << refused.err;
    EXPECT_NE(refused.err.find(text), std::string::npos) << words << ": " << refused.err;
  };
  expect("zoo pack lenot-0001 lenet", 66, "did you mean \"lenet-0001\"?");
  expect("zoo pack lenet-0001 lenot", 66, "did you mean \"lenet\"?");
  expect("zoo pack lenet-0001 lenet --dtype float8", 64, "--dtype is auto, float32 or float16");
  expect("zoo pack lenet-0001 lenet --solver solver_cafe.prototxt", 66, "did you mean \"solver_caffe.prototxt\"?");
  expect("zoo pack lenet-0001", 64, "missing argument: a model's name");
  expect("infer zoo:lenot drawn", 66, "did you mean \"lenet\"?");
  expect("train models/lenet --from zoo:lenot", 66, "did you mean \"lenet\"?");
  expect("train models/lenet --from nothing", 66, "no file, run or model nothing");
}

}  // namespace
}  // namespace moka
