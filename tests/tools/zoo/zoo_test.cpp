// The zoo: every entry is what its card says, what is not is told, and the tables follow from the cards.
#include <fstream>

#include "core/error.h"
#include "proto/text/text_format.h"
#include "tests/tools/cli_fixture.h"
#include "tools/measure/made_up_data.h"
#include "tools/nets/models_folder.h"
#include "tools/zoo/checks.h"
#include "tools/zoo/net_values.h"
#include "tools/zoo/tables.h"

namespace moka {
namespace {

const std::string kModels = StrCat(MOKA_SOURCE_DIR, "/models");

class ZooCliTest : public CliTest {
 protected:
  // A zoo of one model, a copy that a test may spoil.
  static fs::path CopyOf(const std::string& model, const std::string& zoo) {
    const fs::path copy = folder_ / zoo / model;
    fs::create_directories(copy.parent_path());
    fs::copy(fs::path(kModels) / model, copy, fs::copy_options::recursive);
    // The log that the card names.
    fs::create_directories(folder_ / "docs/results");
    std::ofstream(folder_ / "docs/results/mnist_lenet.csv") << "iter\n";
    return copy;
  }
  static void Replace(const fs::path& file, const std::string& from, const std::string& to) {
    std::string text = ReadFile(file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << file << " has no " << from;
    WriteFileAtomically(file, text.replace(at, from.size(), to));
  }
  static Outcome Verify(const std::string& zoo, const std::string& tier) {
    return Moka(StrCat("zoo verify --all --models ", zoo, " --tier ", tier));
  }
};

constexpr size_t kCheckColumn = 40;

// The line of a check; empty if it is not there.
std::string LineOf(const Outcome& outcome, const std::string& check) {
  for (const std::string& line : Split(outcome.out, '\n')) {
    if (line.size() > kCheckColumn && line.substr(kCheckColumn).starts_with(StrCat(check, " "))) return line;
  }
  return "";
}

TEST_F(ZooCliTest, EveryEntryPassesTheStaticTier) {
  const Outcome verified = Moka(StrCat("zoo verify --all --tier static --models '", kModels, "'"));
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_EQ(verified.out.find("FAILED"), std::string::npos) << verified.out;
  EXPECT_GE(ModelNames(kModels).size(), 14U);
  EXPECT_NE(verified.out.find(" checks hold, 0 fail"), std::string::npos) << verified.out;
}

TEST_F(ZooCliTest, SmallEntriesPassTheFastTier) {
  const Outcome verified = Moka(StrCat("zoo verify lenet auto_mpg cifar10_quick --models '", kModels, "'"));
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_NE(verified.out.find("3 models: 30 checks hold, 0 fail, 0 skipped"), std::string::npos) << verified.out;
}

TEST_F(ZooCliTest, AWrongCountIsToldWithBothNumbers) {
  Replace(CopyOf("lenet", "counts") / "model.prototxt", "parameters: 431080", "parameters: 431081");
  const Outcome verified = Verify("counts", "static");
  EXPECT_EQ(verified.code, 22);
  EXPECT_NE(LineOf(verified, "counts").find("parameters: the card says 431081, the net has 431080"), std::string::npos)
      << verified.out;
}

TEST_F(ZooCliTest, ATypedTableIsToldAndUpdateWritesItAgain) {
  const fs::path copy = CopyOf("lenet", "readme");
  WriteFileAtomically(folder_ / "readme/README.md", "<!-- zoo -->\n<!-- /zoo -->\n");
  Replace(copy / "README.md", "99.33 %", "99.99 %");
  const Outcome verified = Verify("readme", "static");
  EXPECT_EQ(verified.code, 22);
  EXPECT_NE(verified.out.find("readme/lenet/README.md is not that of the card"), std::string::npos) << verified.out;
  EXPECT_NE(verified.out.find("readme/README.md is not that of the cards"), std::string::npos) << verified.out;
  EXPECT_EQ(Moka("zoo verify --all --models readme --tier static --update").code, 0);
  EXPECT_NE(ReadFile(copy / "README.md").find("99.33 %"), std::string::npos);
  EXPECT_NE(ReadFile(folder_ / "readme/README.md").find("| [LeNet](lenet) |"), std::string::npos);
  EXPECT_EQ(Verify("readme", "static").code, 0);
}

TEST_F(ZooCliTest, OtherOutputsAndLossesAreTold) {
  const fs::path copy = CopyOf("lenet", "outputs");
  // A deployed net that pools otherwise: other outputs, and not those of the test net.
  Replace(copy / "deploy.prototxt", "pool: MAX", "pool: AVE");
  Replace(copy / "train_val.prototxt", "weight_filler { type: \"xavier\" }", "weight_filler { type: \"msra\" }");
  const Outcome verified = Moka("zoo verify lenet --models outputs");
  EXPECT_EQ(verified.code, 22);
  EXPECT_NE(LineOf(verified, "forward").find("FAILED"), std::string::npos) << verified.out;
  EXPECT_NE(LineOf(verified, "deploy").find("in the test net, at"), std::string::npos) << verified.out;
  EXPECT_NE(LineOf(verified, "training").find("loss is"), std::string::npos) << verified.out;
  EXPECT_EQ(LineOf(verified, "resume").substr(0, 2), "ok") << verified.out;
}

TEST_F(ZooCliTest, AGradientThatIsNotTheLosssIsTold) {
  const fs::path copy = CopyOf("lenet", "gradient");
  // A loss weighted by the scores themselves: its gradient takes the weights for constants, which they are not.
  std::ofstream(copy / "train_val.prototxt", std::ios::app)
      << R"(layer { name: "energy" type: "Reduction" bottom: "ip2" top: "energy"
                   reduction_param { operation: SUMSQ axis: 1 } }
           layer { name: "weighted" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" bottom: "energy"
                   top: "weighted" })";
  const Outcome verified = Moka("zoo verify lenet --models gradient");
  EXPECT_EQ(verified.code, 22);
  EXPECT_EQ(LineOf(verified, "gradient").substr(0, 6), "FAILED") << verified.out << verified.err;
}

TEST_F(ZooCliTest, ALossThatDoesNotFallIsTold) {
  const fs::path copy = CopyOf("lenet", "loss");
  std::ofstream(copy / "model.prototxt", std::ios::app) << "check { override: \"base_lr=0\" steps: 4 }\n";
  const Outcome verified = Moka("zoo verify lenet --models loss");
  EXPECT_EQ(verified.code, 22);
  EXPECT_NE(LineOf(verified, "training").find("the loss does not fall"), std::string::npos) << verified.out;
}

TEST_F(ZooCliTest, MistakesInACardAreToldWithTheNearestName) {
  const fs::path copy = CopyOf("lenet", "card");
  std::ofstream(copy / "model.prototxt", std::ios::app)
      << "check { skip { check: \"deploi\" } top { name: \"dta\" dim: 1 } }\n";
  WriteFileAtomically(copy / "solver_lost.prototxt", "net: \"train_val.prototxt\"\n");
  const Outcome verified = Verify("card", "static");
  EXPECT_EQ(verified.code, 22);
  const std::string line = LineOf(verified, "card");
  EXPECT_NE(line.find("solver_lost.prototxt is in no recipe"), std::string::npos) << line;
  EXPECT_NE(line.find("no check \"deploi\", did you mean \"deploy\"?"), std::string::npos) << line;
  EXPECT_NE(line.find("\"deploi\" is skipped without a reason"), std::string::npos) << line;
  EXPECT_NE(LineOf(verified, "nets").find("no data layer has a top \"dta\", did you mean \"data\"?"), std::string::npos)
      << verified.out;
  WriteFileAtomically(copy / "model.prototxt", "nme: \"lenet\"\n");
  const Outcome broken = Verify("card", "static");
  EXPECT_EQ(broken.code, 22);
  EXPECT_NE(LineOf(broken, "card").find("has no field \"nme\""), std::string::npos) << broken.out;
}

TEST_F(ZooCliTest, ASkippedCheckSaysWhy) {
  const fs::path copy = CopyOf("lenet", "skip");
  std::ofstream(copy / "model.prototxt", std::ios::app)
      << "check { skip { check: \"resume\" reason: \"for this test\" } }\n";
  const Outcome verified = Moka("zoo verify lenet --models skip --json");
  std::map<std::string, Json> checks;
  for (const std::string& line : Split(verified.out, '\n')) {
    if (line.empty()) continue;
    const Json json = Json::parse(line);
    checks[json["check"].get<std::string>()] = json;
  }
  EXPECT_EQ(checks["resume"]["verdict"], "skipped");
  EXPECT_EQ(checks["resume"]["text"], "for this test");
  EXPECT_EQ(checks["training"]["verdict"], "ok") << verified.out;
}

TEST_F(ZooCliTest, ShortTrainingsAreJudgedByTheirLastTest) {
  ASSERT_EQ(Moka("data import glyphs:600:1 data/train").code, 0);
  ASSERT_EQ(Moka("data import glyphs:200:2 data/test").code, 0);
  const fs::path copy = CopyOf("lenet", "nightly");
  Replace(
      copy / "model.prototxt", "nightly { override: \"max_iter=1000\" floor: 0.98 }",
      "override: \"layer[0].data_param.source=data/train\" override: \"layer[1].data_param.source=data/test\" "
      "nightly { override: \"max_iter=60\" override: \"test_iter=[2]\" override: \"test_interval=60\" floor: 0.3 }");
  Outcome verified = Moka("zoo verify lenet --models nightly --tier nightly");
  EXPECT_NE(LineOf(verified, "short_run").find("ok      lenet"), std::string::npos) << verified.out << verified.err;
  EXPECT_NE(LineOf(verified, "short_run").find("at the end, floor 0.3"), std::string::npos) << verified.out;
  EXPECT_NE(LineOf(verified, "memory").find("for a training step of batch 64"), std::string::npos) << verified.out;
  Replace(copy / "model.prototxt", "floor: 0.3", "floor: 1.1");
  verified = Moka("zoo verify lenet --models nightly --tier nightly");
  EXPECT_EQ(verified.code, 22);
  EXPECT_NE(LineOf(verified, "short_run").find("FAILED"), std::string::npos) << verified.out;
}

TEST_F(ZooCliTest, DataThatIsNotThereIsNamedWithItsCommand) {
  const Outcome trained = Moka(StrCat("zoo train cifar10_quick --models '", kModels, "'"));
  EXPECT_EQ(trained.code, 66);
  EXPECT_EQ(trained.out, StrCat(MOKA_SOURCE_DIR, "/tools/data/get cifar10\n"));
  EXPECT_NE(trained.err.find("cifar10_quick's data is not there"), std::string::npos) << trained.err;
  const Outcome verified = Moka(StrCat("zoo verify auto_mpg --tier nightly --models '", kModels, "'"));
  EXPECT_EQ(verified.code, 0) << verified.out;
  EXPECT_EQ(LineOf(verified, "short_run").substr(0, 7), "skipped") << verified.out;
}

TEST_F(ZooCliTest, ListAndInfoTellWhatCardsSay) {
  const Outcome list = Moka(StrCat("zoo list --json --models '", kModels, "'"));
  ASSERT_EQ(list.code, 0) << list.err;
  std::map<std::string, Json> rows;
  for (const std::string& line : Split(list.out, '\n')) {
    if (!line.empty()) rows[Json::parse(line)["name"].get<std::string>()] = Json::parse(line);
  }
  EXPECT_EQ(rows["resnet50"]["parameters"], 25557032);
  EXPECT_EQ(rows["resnet50"]["status"], "recipe only");
  EXPECT_TRUE(rows["resnet50"]["metric"].is_null());
  EXPECT_EQ(rows["lenet"]["status"], "trained here");
  EXPECT_EQ(rows["cifar10_resnet20"]["metric"]["seeds"], 2);
  EXPECT_NEAR(rows["cifar10_resnet20"]["metric"]["mean"].get<double>(), 0.8395, 1e-9);
  EXPECT_NEAR(rows["cifar10_resnet20"]["metric"]["spread"].get<double>(), 0.001697056, 1e-8);
  EXPECT_EQ(rows["cifar10_resnet20"]["metric"]["text"], "accuracy 83.95 ± 0.17 % (2 seeds)");

  const Outcome info = Moka(StrCat("zoo info alexnet --models '", kModels, "'"));
  EXPECT_EQ(info.code, 0);
  EXPECT_NE(info.out.find("| preprocessing | B,G,R; minus 104, 117, 123; centre crop 227x227;"), std::string::npos)
      << info.out;
  EXPECT_NE(info.out.find("recipe only, not run here"), std::string::npos) << info.out;
  const Outcome text = Moka(StrCat("zoo list --models '", kModels, "'"));
  EXPECT_NE(text.out.find("60,965,224"), std::string::npos) << text.out;
}

TEST_F(ZooCliTest, TheReportTimesEntriesByMokasOwnVerbs) {
  if (RunShell("python3 --version", folder_).code != 0) GTEST_SKIP() << "no python3";
  const std::string report =
      StrCat("OMP_NUM_THREADS=1 '", MOKA_SOURCE_DIR, "/tools/zoo/report' --moka '", MOKA_BINARY, "' --models '",
             kModels, "' --batch 4 --iterations 1 --json '", (folder_ / "report.json").string(), "' ");
  const Outcome made = RunShell(report + "auto_mpg lenet", folder_);
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("| Auto MPG | 9 | 8 | 4 | "), std::string::npos) << made.out;
  EXPECT_NE(made.out.find("| accuracy 99.33 % (1 seed) | trained here |"), std::string::npos) << made.out;
  const Json rows = Json::parse(ReadFile(folder_ / "report.json"));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1]["train"]["batch"], 4);
  EXPECT_GT(rows[1]["train"]["items_per_second"].get<double>(), 0);
  EXPECT_GT(rows[1]["infer"]["arena_bytes"].get<int64_t>(), 0);
  const Outcome unknown = RunShell(report + "lenot", folder_);
  EXPECT_EQ(unknown.code, 64);
  EXPECT_EQ(unknown.err, "tools/zoo/report: no model lenot\n");
}

TEST_F(ZooCliTest, WrongWordsAreRefusedWithTheNearest) {
  const std::string models = StrCat(" --models '", kModels, "'");
  const Outcome name = Moka(StrCat("zoo info resnet5", models));
  EXPECT_EQ(name.code, 66);
  EXPECT_NE(name.err.find("no model \"resnet5\""), std::string::npos) << name.err;
  EXPECT_NE(name.err.find("did you mean \"resnet50\"?"), std::string::npos) << name.err;
  const Outcome tier = Moka(StrCat("zoo verify lenet --tier fats", models));
  EXPECT_EQ(tier.code, 64);
  EXPECT_NE(tier.err.find("--tier is one of static, fast, nightly, release, not \"fats\""), std::string::npos)
      << tier.err;
  const Outcome none = Moka(StrCat("zoo verify", models));
  EXPECT_EQ(none.code, 64);
  EXPECT_NE(none.err.find("moka zoo verify wants names of models, or --all"), std::string::npos) << none.err;
  const Outcome folder = Moka("zoo list --models /nowhere");
  EXPECT_EQ(folder.code, 66);
  EXPECT_NE(folder.err.find("/nowhere holds no models"), std::string::npos) << folder.err;
}

TEST_F(ZooCliTest, ShellsCompleteNamesOfModels) {
  const Outcome words =
      RunShell(StrCat("cd '", MOKA_SOURCE_DIR, "' && '", MOKA_BINARY, "' completion --line='zoo train '"), folder_);
  EXPECT_NE(words.out.find("cifar10_resnet20\n"), std::string::npos) << words.out;
  const Outcome list =
      RunShell(StrCat("cd '", MOKA_SOURCE_DIR, "' && '", MOKA_BINARY, "' completion --line='zoo list '"), folder_);
  EXPECT_EQ(list.out.find("cifar10_resnet20\n"), std::string::npos) << list.out;
}

TEST(ZooTables, StandBetweenTheirMarks) {
  EXPECT_EQ(WithTable("a\n<!-- zoo -->\nold\n<!-- /zoo -->\nb\n", "new\n", "f"),
            "a\n<!-- zoo -->\nnew\n<!-- /zoo -->\nb\n");
  for (const std::string text : {"no marks", "<!-- /zoo --><!-- zoo -->", "<!-- zoo --><!-- zoo --><!-- /zoo -->"}) {
    try {
      (void)WithTable(text, "", "README.md");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.text(), "README.md: no place for the table");
    }
  }
}

TEST(ZooTables, AnEntryWithoutResultsIsARecipeOnly) {
  ModelCard card;
  card.add_recipe();
  EXPECT_EQ(Describe(StatusOf(card)), "recipe only");
  card.add_weights();
  EXPECT_EQ(Describe(StatusOf(card)), "converted");
  card.mutable_recipe(0)->add_result()->set_value(1);
  EXPECT_EQ(Describe(StatusOf(card)), "trained here");
}

TEST(ZooValues, ASummaryTellsAnyChangeFromRounding) {
  BlobValues blob{{2, 3}, {0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F}};
  const BlobSummary summary = SummaryOf(blob);
  EXPECT_NEAR(summary.mean, 0.35, 1e-7);
  EXPECT_NEAR(summary.deviation, 0.17078251, 1e-7);
  blob.values[0] += 1e-6F;
  EXPECT_EQ(Difference(summary, SummaryOf(blob)), "");
  std::swap(blob.values[1], blob.values[4]);  // mean and deviation stay
  EXPECT_NE(Difference(summary, SummaryOf(blob)).find("projection"), std::string::npos);
  blob.shape = {3, 2};
  EXPECT_EQ(Difference(summary, SummaryOf(blob)), "shape [3,2], expected [2,3]");
}

NetParameter NetOf(const std::string& text) {
  NetParameter net;
  ParseText(text, "net", net);
  net.mutable_state()->set_phase(TEST);
  return net;
}

TEST(ZooMadeUpData, HasContentsAsItsReadersNeedThem) {
  const NetParameter net = NetOf(R"(
    layer { name: "d" type: "AnnotatedData" top: "data" top: "label"
            data_param { source: "none" batch_size: 7 } transform_param { resize_param { height: 8 width: 8 } } }
    layer { name: "z" type: "DummyData" top: "noise" top: "other"
            dummy_data_param { shape { dim: 7 dim: 4 } shape { dim: 5 } } }
    layer { name: "w" type: "MemoryData" top: "words" top: "next" top: "times" }
    layer { name: "flat" type: "Flatten" bottom: "words" top: "flat" }
    layer { name: "embed" type: "Embed" bottom: "flat" top: "e" embed_param { input_dim: 5 num_output: 2 } }
    layer { name: "sum" type: "EmbedSum" bottom: "times" top: "s" embed_sum_param { input_dim: 3 num_output: 2 } })");
  ZooCheck check;
  ParseText(
      R"(top { name: "words" dim: 0 dim: 6 } top { name: "times" dim: 0 dim: 4 dim: 6 } top { name: "next" dim: 0 value: 3 value: 4 })",
      "check", check);
  const NetParameter made = WithMadeUpData(net, check, 2);
  EXPECT_EQ(made.layer(0).type(), "DummyData");
  const Blobs batch = MadeUpBatch(made);
  EXPECT_EQ(batch.at("data").shape, Shape({2, 3, 8, 8}));
  EXPECT_EQ(batch.at("label").values,
            (std::vector<float>{0, 1, 0, 0.25F, 0.25F, 0.75F, 0.75F, 0, 1, 1, 0, 0.25F, 0.25F, 0.75F, 0.75F, 0}));
  EXPECT_EQ(batch.at("noise").shape, Shape({2, 4}));
  EXPECT_EQ(batch.at("other").shape, Shape({5}));
  EXPECT_EQ(batch.at("words").shape, Shape({2, 6}));
  for (const auto& [top, rows] : {std::pair("words", 5.0F), std::pair("times", 3.0F)}) {
    for (const float word : batch.at(top).values) {
      EXPECT_EQ(word, std::floor(word)) << top;
      EXPECT_GE(word, 0) << top;
      EXPECT_LT(word, rows) << top;
    }
  }
  EXPECT_EQ(batch.at("next").values, (std::vector<float>{3, 4}));
  EXPECT_EQ(MadeUpBatch(made).at("data").values, batch.at("data").values);
}

TEST(ZooMadeUpData, AShapeThatNothingSaysIsAskedFor) {
  const NetParameter net = NetOf(R"(layer { name: "w" type: "MemoryData" top: "words" top: "next" })");
  try {
    (void)WithMadeUpData(net, {}, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_NE(error.text().find("the shape of top \"words\" does not follow from the fields"), std::string::npos);
  }
}

}  // namespace
}  // namespace moka
