// A translator from two files of texts, as a person makes one: vocabularies of pieces, a training of models/'s net on
// them, translations of a run that was moved, BLEU against references, attention shown, mistakes.
#include <gmock/gmock.h>

#include <algorithm>

#include "core/rng.h"
#include "data/image/image.h"
#include "data/text/bleu.h"
#include "tests/tools/cli_fixture.h"
#include "tools/cli/command_line.h"
#include "tools/infer/translate.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class TranslateCli : public CliTest {
 protected:
  // A language and its translation, word for word; two of the words are in none of the other's alphabet.
  static void WriteTexts(const std::string& name, int count, uint64_t seed) {
    const std::vector<std::pair<std::string, std::string>> words = {
        {"Bär", "bear"}, {"maus", "mouse"},   {"geht", "walks"}, {"und", "and"},
        {"der", "the"},  {"schön", "pretty"}, {"grün", "green"}, {"baum", "tree"}};
    RandomStream random(seed, 0);
    std::string source;
    std::string target;
    for (int i = 0; i < count; ++i) {
      for (uint64_t k = 1 + random.Below(4); k > 0; --k) {
        const auto& [from, to] = words[random.Below(words.size())];
        source += from + (k > 1 ? " " : ".\n");
        target += to + (k > 1 ? " " : ".\n");
      }
    }
    WriteFileAtomically(folder_ / (name + ".src"), source);
    WriteFileAtomically(folder_ / (name + ".dst"), target);
  }
  static void WriteAllTexts() {
    WriteTexts("train", 600, 1);
    WriteTexts("test", 40, 2);
    fs::create_directories(folder_ / "src");
    fs::create_directories(folder_ / "dst");
  }
  static std::string Fields(const std::string& layer, const std::string& texts, const std::string& words) {
    const std::string field = StrCat("'layer[", layer, "].text_pair_data_param.");
    return StrCat(field, "source_file=", texts, ".src' ", field, "target_file=", texts, ".dst' ", field,
                  "source_vocabulary=src/", words, ".txt' ", field, "target_vocabulary=dst/", words, ".txt' ");
  }
  static std::string Train(const std::string& model, const std::string& more, const std::string& words = "words") {
    return StrCat("train '", MOKA_SOURCE_DIR, "/models/", model, "' ", Fields("pairs", "train", words),
                  Fields("val", "test", words),
                  "'layer[pairs].text_pair_data_param.bucket=[3,4]' layer[val].data_param.batch_size=20 ",
                  "clip_gradients=5 warmup_iter=10 ema_decay=0.9 'test_iter=[1]' test_interval=1000 display=50 "
                  "snapshot=1000 --seed 3 ",
                  more);
  }
  static std::string Net(int width, const std::string& more = "") {
    return StrCat("'layer[translator].block_param.set=[\"source_words=60\",\"target_words=60\",\"width=", width,
                  "\",\"dropout=0\"", more, "]' ");
  }
  // The run, trained once.
  static const std::string& TrainedRun() {
    static const std::string run = [] {
      WriteAllTexts();
      const Outcome made = Moka("data vocabulary train.src src/words.txt --pieces 56");
      EXPECT_EQ(made.code, 0) << made.err;
      EXPECT_THAT(made.out, HasSubstr("src/words.txt: 52 pieces, with the marks 56 numbers; 600 lines are "));
      EXPECT_THAT(made.out, HasSubstr("100.00 % are known"));
      EXPECT_EQ(Moka("data vocabulary train.dst dst/words.txt --pieces 60").code, 0);
      const Outcome trained = Moka(Train("multi30k_attention", Net(32) + "max_iter=220 base_lr=0.012"));
      EXPECT_EQ(trained.code, 0) << trained.err;
      EXPECT_THAT(trained.err, HasSubstr("batches of its buckets run on 2 shorter programs"));
      return std::string("runs/multi30k_attention-0001");
    }();
    return run;
  }
  static Outcome Infer(const std::string& more) { return Moka(StrCat("infer ", TrainedRun(), " ", more)); }
};

TEST_F(TranslateCli, AMovedRunTranslatesWhatItHasNotSeen) {
  fs::create_directories(folder_ / "elsewhere");
  fs::copy(folder_ / TrainedRun(), folder_ / "elsewhere/run",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  // Two vocabularies of one name, from two folders, are in the run's config/.
  EXPECT_EQ(ReadFile(folder_ / "elsewhere/run/config/words.txt"), ReadFile(folder_ / "src/words.txt"));
  EXPECT_EQ(ReadFile(folder_ / "elsewhere/run/config/2-words.txt"), ReadFile(folder_ / "dst/words.txt"));
  fs::copy(folder_ / "test.src", folder_ / "elsewhere/test.src");
  fs::copy(folder_ / "test.dst", folder_ / "elsewhere/test.dst");
  const Outcome moved = RunShell(StrCat("cd '", (folder_ / "elsewhere").string(), "' && OMP_NUM_THREADS=1 '",
                                        MOKA_BINARY, "' infer run --text test.src --reference test.dst"),
                                 folder_);
  ASSERT_EQ(moved.code, 0) << moved.err;
  const std::vector<std::string> lines = Split(moved.out, '\n');
  ASSERT_EQ(lines.size(), 43U);  // 40 translations, BLEU, its signature, the end
  EXPECT_EQ(lines[41], "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp");
  // BLEU as printed is that of the printed lines.
  const std::vector<std::string> references = Split(ReadFile(folder_ / "test.dst"), '\n');
  BleuCounter counter(BleuCase::kLower);
  for (size_t i = 0; i < 40; ++i) counter.Add(lines[i], {references[i]});
  EXPECT_EQ(lines[40], counter.Score().Text());
  EXPECT_GT(counter.Score().score, 90) << moved.out;
}

// `moka zoo verify` compares this with a card's floor.
TEST_F(TranslateCli, TheBleuOfARunIsThatOfItsTestPairs) {
  const Outcome printed = Infer("test.src --reference test.dst --json");
  ASSERT_EQ(printed.code, 0) << printed.err;
  const std::string field = "layer[test].text_pair_data_param.";
  const InferSource source = InferSourceOf(ParseArguments(
      *FindVerb(AllVerbs(), "infer"),
      {(folder_ / TrainedRun()).string(), "--quiet", StrCat(field, "source_file=", (folder_ / "test.src").string()),
       StrCat(field, "target_file=", (folder_ / "test.dst").string())}));
  const Json bleu = Json::parse(printed.out).at("bleu");
  EXPECT_NEAR(BleuOfTestPairs(source), bleu.at("score").get<double>(), 1e-9);
}

TEST_F(TranslateCli, LinesComeFromFilesAndTheStandardInput) {
  WriteFileAtomically(folder_ / "two.txt", "Der Bär geht.\n\nmaus UND  maus.\n");
  const Outcome file = Infer("two.txt");
  ASSERT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(file.out, "the bear walks.\n\nmouse and mouse.\n");
  EXPECT_THAT(file.err, HasSubstr("3 lines"));
  const Outcome piped = RunShell(StrCat("cd '", folder_.string(), "' && OMP_NUM_THREADS=1 '", MOKA_BINARY, "' infer ",
                                        TrainedRun(), " --text - --batch 1 --beam 1"),
                                 folder_, (folder_ / "two.txt").string());
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(piped.out, file.out);
  // The batch's size has no part in what is written.
  EXPECT_EQ(Infer("test.src --batch 7").out, Infer("test.src --batch 40").out);
}

TEST_F(TranslateCli, TheBestTranslationsWithTheirScores) {
  WriteFileAtomically(folder_ / "one.txt", "schön und grün.\nbaum.\n");
  const Outcome text = Infer("--text one.txt --n-best 3");
  ASSERT_EQ(text.code, 0) << text.err;
  const std::vector<std::string> lines = Split(text.out, '\n');
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_THAT(lines[0], StartsWith("1\t-0."));
  EXPECT_THAT(lines[0], testing::EndsWith("\tpretty and green."));
  EXPECT_THAT(lines[1], StartsWith("1\t"));
  EXPECT_THAT(lines[3], StartsWith("2\t"));
  EXPECT_THAT(lines[3], testing::EndsWith("\ttree."));

  WriteFileAtomically(folder_ / "right.txt", "pretty and green.\ntree.\n");
  const Outcome found =
      Infer("--text one.txt --n-best 3 --json --attention --length-penalty 0.6 --reference right.txt,right.txt");
  ASSERT_EQ(found.code, 0) << found.err;
  const Json all = Json::parse(found.out);
  EXPECT_EQ(all.at("lines").size(), 2U);
  const Json& first = all.at("lines")[0];
  EXPECT_EQ(first.at("source"), "schön und grün.");
  ASSERT_EQ(first.at("translations").size(), 3U);
  EXPECT_EQ(first.at("translations")[0].at("text"), "pretty and green.");
  double before = 0;
  for (const Json& one : first.at("translations")) {
    EXPECT_LE(one.at("score").get<double>(), before);
    EXPECT_LE(one.at("log_probability").get<double>(), one.at("score").get<double>());
    before = one.at("score").get<double>();
  }
  // Each written piece, and the end, looks at the source's pieces and its end, in parts of one.
  const Json& seen = first.at("attention");
  ASSERT_EQ(seen.at("weights").size(), seen.at("targets").size());
  EXPECT_EQ(seen.at("targets").back(), "</s>");
  EXPECT_EQ(seen.at("sources").back(), "</s>");
  for (const Json& row : seen.at("weights")) {
    ASSERT_EQ(row.size(), seen.at("sources").size());
    double sum = 0;
    for (const Json& part : row) sum += part.get<double>();
    EXPECT_NEAR(sum, 1, 1e-4);
  }
  EXPECT_EQ(all.at("bleu").at("signature"), "nrefs:2|case:lc|eff:no|tok:13a|smooth:exp");
}

TEST_F(TranslateCli, AttentionIsShownAsTextAndAsAPicture) {
  WriteFileAtomically(folder_ / "bear.txt", "der Bär.\n");
  const Outcome text = Infer("--text bear.txt --attention");
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("the bear.\n  "));
  EXPECT_THAT(text.out, HasSubstr("\n  bear  bär "));
  EXPECT_THAT(text.out, HasSubstr(" %\n"));
  const Outcome drawn = Infer("--text bear.txt --attention seen.png");
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_EQ(drawn.out, "the bear.\n");
  Image image;
  ImageDecoder().Decode(ReadFile(folder_ / "seen.png"), {}, image);
  EXPECT_GT(image.width, 60);
  EXPECT_GT(image.height, 80);
  EXPECT_TRUE(std::ranges::any_of(image.pixels, [](uint8_t value) { return value < 64; }));
}

// The search gives a translation the probability that the training's net gives it when it reads that translation: the
// net was cut rightly, states are carried on, masks and positions are those of a training.
class TranslationNets : public TranslateCli, public testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(TranslationNets, ProbabilitiesAreThoseOfTheTestedNet) {
  WriteAllTexts();
  EXPECT_EQ(Moka("data vocabulary train.src src/blanks.txt --tokens blanks").code, 0);
  EXPECT_EQ(Moka("data vocabulary train.dst dst/blanks.txt --tokens blanks").code, 0);
  const auto [model, sizes] = GetParam();
  const Outcome trained =
      Moka(Train(model,
                 StrCat("'layer[pairs].text_pair_data_param.tokens=BLANKS' "
                        "'layer[val].text_pair_data_param.tokens=BLANKS' "
                        "'layer[translator].block_param.set=[\"source_words=30\",\"target_words=30\",",
                        sizes, "\"dropout=0\"]' max_iter=40 base_lr=0.01"),
                 "blanks"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string run = StrCat("runs/", model, "-0001");
  const Outcome inferred = Moka(StrCat("infer ", run, " test.src --beam 3 --n-best 3 --batch 9 --json"));
  ASSERT_EQ(inferred.code, 0) << inferred.err;
  std::string source;
  std::string target;
  double sum = 0;
  int64_t lines = 0;
  int64_t words = 0;
  const Json all = Json::parse(inferred.out);
  for (const Json& line : all.at("lines")) {
    for (const Json& one : line.at("translations")) {
      const std::string text = one.at("text");
      if (text.empty()) continue;  // no pair of a test may be empty
      source += line.at("source").get<std::string>() + "\n";
      target += text + "\n";
      sum += one.at("log_probability").get<double>();
      words += static_cast<int64_t>(Split(text, ' ').size()) + 1;
      ++lines;
    }
  }
  ASSERT_GT(lines, 20);
  WriteFileAtomically(folder_ / "again.src", source);
  WriteFileAtomically(folder_ / "again.dst", target);
  const Outcome tested = Moka(StrCat("test ", run, " --json ",
                                     "'layer[val].text_pair_data_param.source_file=again.src' "
                                     "'layer[val].text_pair_data_param.target_file=again.dst' "
                                     "'layer[val].data_param.batch_size=",
                                     lines, "'"));
  ASSERT_EQ(tested.code, 0) << tested.err;
  const double loss = Json::parse(tested.out).at("outputs").at("loss").get<double>();
  EXPECT_NEAR(-sum / static_cast<double>(words), loss, 1e-4 * loss);
}

INSTANTIATE_TEST_SUITE_P(Models, TranslationNets,
                         testing::Values(std::pair{"multi30k_attention", "\"width=20\","},
                                         std::pair{"multi30k_seq2seq", "\"words=16\",\"width=20\","},
                                         std::pair{
                                             "multi30k_transformer",
                                             "\"width=16\",\"heads=2\",\"scale=0.35\",\"magnified=4\",\"inner=24\","}),
                         [](const auto& one) { return std::string(one.param.first); });

TEST_F(TranslateCli, MistakesAreTold) {
  const auto expect = [](const Outcome& outcome, int code, const std::string& text) {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  TrainedRun();
  WriteFileAtomically(folder_ / "three.txt", "maus.\nmaus.\nmaus.\n");
  WriteFileAtomically(folder_ / "latin1.txt", "maus.\nb\xE4r.\n");
  expect(Infer(""), 64, "missing argument: --text FILE, or --text - for the standard input");
  expect(Infer("--text nowhere.txt"), 66, "nowhere.txt");
  expect(Infer("--text latin1.txt"), 65, "latin1.txt:2: byte 2 of the line is not UTF-8");
  expect(Infer("three.txt --beem 3"), 64, "beem");
  expect(Infer("three.txt --beam 0"), 64, "--beam");
  expect(Infer("three.txt --n-best 6"), 64, "--n-best");
  expect(Infer("three.txt --length-penalty long"), 64, "--length-penalty wants a number from 0 to 100, found \"long\"");
  expect(Infer("three.txt --attention seen.jpg"), 64, "--attention wants a .png to write, found seen.jpg");
  expect(Infer("three.txt --reference test.dst"), 65, "test.dst has 40 lines for 3 to translate");
  // Words by which the net was not trained.
  WriteFileAtomically(folder_ / "many.txt", [] {
    std::string words = "<pad>\n<s>\n</s>\n<unk>\n";
    for (int i = 0; i < 100; ++i) words += StrCat("w", i, "\n");
    return words;
  }());
  expect(Infer("three.txt 'layer[val].text_pair_data_param.target_vocabulary=many.txt'"), 78,
         "\"score\" is [1,15,60], not a score [1,15,words] for each of the 104 words of many.txt");
  // A card that names no attention, and one that names a top that the target's part has not.
  fs::create_directories(folder_ / "carded");
  fs::copy(folder_ / TrainedRun() / "config", folder_ / "carded", fs::copy_options::recursive);
  fs::rename(folder_ / "carded/net.prototxt", folder_ / "carded/deploy.prototxt");
  const std::string weights = (folder_ / TrainedRun() / "checkpoints/iter_0000220.safetensors").string();
  const std::string carded = StrCat("infer carded three.txt --attention --weights '", weights, "'");
  WriteFileAtomically(folder_ / "carded/model.prototxt", "task: TRANSLATE");
  expect(Moka(carded), 64, "--attention: the model's card names no top that holds its attention");
  WriteFileAtomically(folder_ / "carded/model.prototxt", "task: TRANSLATE translation { attention: \"read\" }");
  expect(Moka(carded), 78, "the card's attention \"read\" is no top of the layers that write the target");
  // A folder without a card.
  fs::create_directories(folder_ / "bare");
  fs::copy(folder_ / TrainedRun() / "config/net.prototxt", folder_ / "bare/deploy.prototxt",
           fs::copy_options::overwrite_existing);
  expect(Moka("infer bare --text three.txt --weights '" + weights + "'"), 64,
         "--text is for models that translate, and nothing in bare says that this one does");
}

TEST_F(TranslateCli, LongLinesAreCutAndToldOf) {
  std::string line;
  for (int i = 0; i < 60; ++i) line += "maus ";
  WriteFileAtomically(folder_ / "long.txt", line + "\n");
  const Outcome cut = Infer("long.txt --beam 1");
  EXPECT_EQ(cut.code, 0) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("1 line is cut to 47 words, the most that the net was made for"));
}

TEST_F(TranslateCli, MistakesOfVocabularies) {
  TrainedRun();
  const Outcome few = Moka("data vocabulary train.src few.txt --pieces 20");
  EXPECT_EQ(few.code, 65);
  EXPECT_THAT(few.err, HasSubstr("letters, each of which is a piece with and without ##: more than 16 pieces"));
  EXPECT_FALSE(fs::exists(folder_ / "few.txt"));
  EXPECT_THAT(Moka("data vocabulary train.src few.txt --pieces 60 --most 5").err,
              HasSubstr("--pieces does not go with --most"));
  EXPECT_EQ(Moka("data vocabulary train.src few.txt --pieces 3").code, 64);
}

}  // namespace
}  // namespace moka
