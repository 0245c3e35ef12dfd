// Lines of text in, their translations out; against references, BLEU.
#include "tools/infer/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/trace.h"
#include "data/text/bleu.h"
#include "data/text/tokens.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "tools/cli/print.h"
#include "tools/infer/attention_picture.h"
#include "tools/infer/beam_search.h"
#include "tools/infer/shown_answers.h"
#include "tools/infer/tasks.h"
#include "tools/infer/translation_net.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUsualBatch = 16;

struct Settings {
  int64_t batch = 0;  // sentences
  int64_t beam = 0;
  int64_t shown = 0;  // translations of a line
  double length_penalty = 0;
  bool is_json = false;
  bool has_attention = false;
};

struct TranslatedLine {
  std::string text;
  SourcePlace place;
  std::vector<int32_t> words;
  std::vector<Translation> translations;  // the best first; none of a line without words
};

Settings SettingsOf(const InferSource& source, const Arguments& arguments) {
  const TranslationCard& card = source.card.translation();
  Settings settings;
  settings.beam = arguments.Int("beam", card.beam(), 1, 1000);
  settings.batch = arguments.Int("batch", kUsualBatch, 1, 65536);
  settings.shown = arguments.Int("n-best", 1, 1, settings.beam);
  settings.length_penalty = arguments.Number("length-penalty", static_cast<double>(card.length_penalty()), 0, 100);
  settings.is_json = arguments.Has("json");
  settings.has_attention = arguments.Has("attention");
  if (settings.has_attention && card.attention().empty()) {
    throw Error(ErrorKind::kUsage, {}, "--attention: the model's card names no top that holds its attention",
                "translation { attention: \"TOP\" } in model.prototxt does");
  }
  const fs::path picture = arguments.Get("attention");
  if (!picture.empty()) CheckFileEnding("--attention", picture, ".png");
  return settings;
}

std::vector<std::string> LinesOf(const fs::path& file) {
  std::vector<std::string> all;
  TextLines lines(file);
  while (lines.Next()) all.push_back(lines.line());
  return all;
}

void ReadLinesOf(TextLines text, std::vector<TranslatedLine>& lines) {
  while (text.Next()) lines.push_back({.text = text.line(), .place = text.place(), .words = {}, .translations = {}});
}

std::vector<TranslatedLine> ReadLinesToTranslate(const std::vector<std::string>& files) {
  std::vector<TranslatedLine> lines;
  for (const std::string& file : files) ReadLinesOf(TextLines(TextFileOf(file)), lines);
  return lines;
}

void NumberLines(std::vector<TranslatedLine>& lines, const TranslationNet& net) {
  int64_t cut = 0;
  for (TranslatedLine& line : lines) {
    try {
      NumberWords(line.text, net.tokens(), net.source_words(), line.words);
    } catch (Error& e) {
      e.SetPlace(line.place);
      throw;
    }
    const auto most = static_cast<size_t>(net.most_source_words());
    if (line.words.size() <= most) continue;
    line.words.resize(most);
    ++cut;
  }
  if (cut > 0) {
    LogWarning(StrCat(cut, cut == 1 ? " line is" : " lines are", " cut to ", net.most_source_words(),
                      " words, the most that the net was made for"));
  }
}

// Lines of nearly one length share a batch; what is missing of the last batch is made up by its first line.
void TranslateBatch(const Settings& settings, std::span<TranslatedLine*> lines, TranslationNet& net) {
  constexpr int64_t kMoreWords = 10;  // than twice the source's
  std::vector<std::vector<int32_t>> sources;
  BeamOptions options{.beam = settings.beam,
                      .length_penalty = settings.length_penalty,
                      .most_words = {},
                      .words = net.target_words().size()};
  for (int64_t i = 0; i < settings.batch; ++i) {
    const TranslatedLine& line = *lines[static_cast<size_t>(i) < lines.size() ? static_cast<size_t>(i) : 0];
    for (int64_t k = 0; k < settings.beam; ++k) sources.push_back(line.words);
    const auto most = 2 * static_cast<int64_t>(line.words.size()) + kMoreWords;
    options.most_words.push_back(static_cast<size_t>(i) < lines.size() ? std::min(most, net.most_target_words())
                                                                       : int64_t{1});
  }
  net.Read(sources);
  BeamModel model{.next = [&](std::span<const int32_t> words,
                              std::span<const int64_t> parents) { return net.Next(words, parents); },
                  .attention = nullptr};
  if (settings.has_attention) model.attention = [&](int64_t row) { return net.Attention(row); };
  std::vector<std::vector<Translation>> translations = SearchBeams(options, model);
  for (size_t i = 0; i < lines.size(); ++i) lines[i]->translations = std::move(translations[i]);
}

void TranslateLines(const Settings& settings, std::vector<TranslatedLine>& lines, TranslationNet& net) {
  std::vector<TranslatedLine*> order;
  for (TranslatedLine& line : lines) {
    if (!line.words.empty()) order.push_back(&line);
  }
  std::ranges::stable_sort(order, {}, [](const TranslatedLine* line) { return line->words.size(); });
  const auto batch = static_cast<size_t>(settings.batch);
  for (size_t first = 0; first < order.size(); first += batch) {
    TranslateBatch(settings, std::span(order).subspan(first, std::min(batch, order.size() - first)), net);
  }
}

std::string TextOf(const Translation& translation, const TranslationNet& net) {
  return JoinWords(translation.words, net.tokens(), net.target_words());
}

std::string BestOf(const TranslatedLine& line, const TranslationNet& net) {
  return line.translations.empty() ? std::string() : TextOf(line.translations.front(), net);
}

AttentionGrid GridOf(const TranslatedLine& line, const TranslationNet& net) {
  AttentionGrid grid;
  if (line.translations.empty()) return grid;
  for (const int32_t word : line.words) grid.sources.push_back(net.source_words().WordOf(word));
  grid.sources.push_back(net.source_words().WordOf(kEndWord));
  for (const int32_t word : line.translations.front().words) grid.targets.push_back(net.target_words().WordOf(word));
  grid.targets.push_back(net.target_words().WordOf(kEndWord));
  grid.seen = line.translations.front().attention;
  grid.targets.resize(std::min(grid.targets.size(), grid.seen.size()));
  return grid;
}

// The lines of each file.
std::vector<std::vector<std::string>> ReadReferences(const std::vector<std::string>& files, size_t lines) {
  std::vector<std::vector<std::string>> all;
  for (const std::string& file : files) {
    all.push_back(LinesOf(TextFileOf(file)));
    if (all.back().size() == lines) continue;
    throw Error(ErrorKind::kBadData, {},
                StrCat(Printable(file), " has ", all.back().size(), " lines for ", lines, " to translate"),
                "a reference has the translation of each line on the line of the same number");
  }
  return all;
}

// Words of lower-cased texts are compared in lower case.
BleuCase LettersOf(const TranslationNet& net) { return net.tokens() == BLANKS ? BleuCase::kAsIs : BleuCase::kLower; }

BleuScore BleuOf(const std::vector<TranslatedLine>& lines, const std::vector<std::vector<std::string>>& references,
                 const TranslationNet& net) {
  BleuCounter counter(LettersOf(net));
  for (size_t i = 0; i < lines.size(); ++i) {
    std::vector<std::string> of_line;
    for (const std::vector<std::string>& file : references) of_line.push_back(file[i]);
    counter.Add(BestOf(lines[i], net), of_line);
  }
  return counter.Score();
}

nlohmann::ordered_json JsonOf(const TranslatedLine& line, const Settings& settings, const TranslationNet& net) {
  nlohmann::ordered_json json{{"source", line.text}, {"translations", nlohmann::ordered_json::array()}};
  for (size_t k = 0; k < line.translations.size() && k < static_cast<size_t>(settings.shown); ++k) {
    const Translation& one = line.translations[k];
    json["translations"].push_back(
        {{"text", TextOf(one, net)}, {"score", one.score}, {"log_probability", one.log_probability}});
  }
  if (!settings.has_attention) return json;
  const AttentionGrid grid = GridOf(line, net);
  json["attention"] = {{"sources", grid.sources}, {"targets", grid.targets}, {"weights", grid.seen}};
  return json;
}

void PrintBest(const PictureJson& line) {
  const PictureJson& translations = line.at("translations");
  Print("{}\n", translations.empty() ? std::string() : TextAt(translations.at(0), "text"));
}

void PrintTranslations(const std::vector<TranslatedLine>& lines, const Settings& settings, const TranslationNet& net) {
  for (size_t i = 0; i < lines.size(); ++i) {
    if (settings.shown == 1) PrintBest(JsonOf(lines[i], settings, net));
    for (size_t k = 0; settings.shown > 1 && k < lines[i].translations.size(); ++k) {
      if (k == static_cast<size_t>(settings.shown)) break;
      const Translation& one = lines[i].translations[k];
      Print("{}\t{:.4f}\t{}\n", i + 1, one.score, TextOf(one, net));
    }
  }
}

std::vector<AttentionGrid> GridsOf(const std::vector<TranslatedLine>& lines, const TranslationNet& net) {
  std::vector<AttentionGrid> grids;
  for (const TranslatedLine& line : lines) grids.push_back(GridOf(line, net));
  return grids;
}

void PrintAttention(const std::vector<TranslatedLine>& lines, const TranslationNet& net) {
  for (const AttentionGrid& grid : GridsOf(lines, net)) PrintLines(AttentionText(grid));
}

void PrintResult(const std::vector<TranslatedLine>& lines, const std::vector<std::vector<std::string>>& references,
                 const Settings& settings, const TranslationNet& net, const std::string& attention) {
  const std::string signature = BleuScore::Signature(LettersOf(net), references.size());
  BleuScore bleu;
  if (!attention.empty()) WriteAttentionPicture(GridsOf(lines, net), attention);
  if (!references.empty()) bleu = BleuOf(lines, references, net);
  if (settings.is_json) {
    nlohmann::ordered_json json{{"lines", nlohmann::ordered_json::array()}};
    for (const TranslatedLine& line : lines) json["lines"].push_back(JsonOf(line, settings, net));
    if (!references.empty()) json["bleu"] = {{"score", bleu.score}, {"text", bleu.Text()}, {"signature", signature}};
    PrintJson(json);
  } else {
    PrintTranslations(lines, settings, net);
    if (settings.has_attention && attention.empty()) PrintAttention(lines, net);
    if (!references.empty()) Print("{}\n{}\n", bleu.Text(), signature);
  }
}

// Few lines come at once.
class TranslationAnswers : public TaskAnswers {
 public:
  explicit TranslationAnswers(const InferSource& source)
      : settings_(SettingsOf(source, Arguments())), net_(source, settings_.beam) {
    settings_.batch = 1;
  }

  AskedKind kind() const override { return AskedKind::kText; }
  TaskAnswer Answer(const AskedContent& asked) override {
    std::vector<TranslatedLine> lines;
    ReadLinesOf(TextLines(std::string(asked.bytes), asked.name), lines);
    NumberLines(lines, net_);
    TranslateLines(settings_, lines, net_);
    TaskAnswer answer{.json = {{"lines", PictureJson::array()}}};
    for (const TranslatedLine& line : lines) answer.json["lines"].push_back(JsonOf(line, settings_, net_));
    return answer;
  }

 private:
  Settings settings_;
  TranslationNet net_;
};

int RunTranslate(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  std::vector<std::string> files = inputs;
  if (arguments.Has("text")) files.push_back(arguments.Get("text"));
  if (files.empty() && !LooksInside(arguments))
    throw Error(ErrorKind::kUsage, "missing argument: --text FILE, or --text - for the standard input");
  Settings settings = SettingsOf(source, arguments);
  std::vector<TranslatedLine> lines = ReadLinesToTranslate(files);
  const bool is_compared = arguments.Has("reference") && !LooksInside(arguments);
  const std::vector<std::vector<std::string>> references =
      ReadReferences(is_compared ? Split(arguments.Get("reference"), ',') : std::vector<std::string>{}, lines.size());
  if (!lines.empty()) settings.batch = std::min(settings.batch, static_cast<int64_t>(lines.size()));
  TranslationNet net(source, settings.batch * settings.beam);
  constexpr int64_t kUsualWords = 15;
  RefuseUnreadBeforeLook(arguments, {"reference", "trace"});
  if (LookInside(arguments, "infer", net.WriterFor(std::min(kUsualWords, net.most_source_words())))) return 0;
  BeginTrace(arguments);
  const int64_t begin = NowMicros();
  NumberLines(lines, net);
  TranslateLines(settings, lines, net);
  const double seconds = static_cast<double>(NowMicros() - begin) * 1e-6;
  EndTrace(arguments);
  PrintResult(lines, references, settings, net, arguments.Get("attention"));
  LogInfo(fmt::format("{} line{}, {:.1f} s", lines.size(), lines.size() == 1 ? "" : "s", seconds));
  return 0;
}

// The TextPairData layer whose texts a test reads.
TextPairDataParameter TestPairsOf(const InferSource& source) {
  NetState state;
  state.set_phase(TEST);
  state.add_stage("test");
  NetReadOptions read;
  read.overrides = source.overrides;
  return SplitTranslation(FilterNet(ReadNet(source.net, read), state), false).pairs.text_pair_data_param();
}

}  // namespace

double BleuOfTestPairs(const InferSource& source) {
  const TextPairDataParameter pairs = TestPairsOf(source);
  std::vector<TranslatedLine> lines = ReadLinesToTranslate({pairs.source_file()});
  const auto references = ReadReferences({pairs.target_file()}, lines.size());
  const TranslationCard& card = source.card.translation();
  const Settings settings{.batch = kUsualBatch,
                          .beam = card.beam(),
                          .shown = 1,
                          .length_penalty = static_cast<double>(card.length_penalty())};
  TranslationNet net(source, settings.batch * settings.beam);
  NumberLines(lines, net);
  TranslateLines(settings, lines, net);
  return BleuOf(lines, references, net).score;
}

InferTask TranslateTask() {
  return {.task = ModelCard::TRANSLATE,
          .run = RunTranslate,
          .answers = [](const InferSource& source, const SharedWeights& /*weights*/) -> std::unique_ptr<TaskAnswers> {
            return std::make_unique<TranslationAnswers>(source);
          },
          .form = {.asked = AskedKind::kText, .print = PrintBest, .list = "lines"},
          .options = {{"text", "FILE", "lines to translate; -: the standard input"},
                      {"beam", "N", "translations followed at once (default: the card's, 5)"},
                      {"length-penalty", "A", "scores are log P / ((5 + words) / 6)^A (default: the card's, 1)"},
                      {"n-best", "K", "lines \"number, score, translation\" of the K best (default 1: the best alone)"},
                      {"reference", "FILES", "comma list: how the lines should read; prints BLEU as sacrebleu does"},
                      {"attention", "[OUT]", "what each word saw of the source: a picture (.png), else text"}},
          .input = "--text FILE"};
}

}  // namespace moka
