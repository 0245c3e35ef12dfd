// Question answering: a story with questions in, words out, and beside each sentence how much of the memory's attention
// it had at each hop.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/trace.h"
#include "data/pipeline/text_layers.h"
#include "data/text/questions.h"
#include "data/text/vocabulary.h"
#include "layers/net/layer.h"
#include "proto/nets/data_fields.h"
#include "tools/cli/print.h"
#include "tools/infer/infer_program.h"
#include "tools/infer/shown_answers.h"
#include "tools/infer/tasks.h"
#include "tools/nets/deploy_net.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

using StoryFields = StoryDataParameter;

constexpr const char* kBetween = "\n";  // two questions

struct StoryAnswer {
  std::vector<std::pair<std::string, double>> words;  // the likeliest first, with their probabilities
  // Each sentence that the memory held, the latest first, with its part of each hop's attention.
  std::vector<std::vector<double>> attention;
  std::vector<std::string> left_out = {};  // words that the net does not know
};

bool IsAsked(StoryFields::Output output) { return output != StoryFields::ANSWER && output != StoryFields::SUPPORT; }

const LayerParameter& StoryLayer(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    if (TraitsOf(layer).data == DataKind::kStories) return layer;
  }
  throw Error(ErrorKind::kConfig, {}, StrCat("net \"", net.name(), "\" has no StoryData layer"),
              "its fields say what the net reads; infer from a run or from its train_val.prototxt");
}

// The net with inputs in place of its stories. What only a training has, the right answer, stays a data layer's, so
// that DeployNet takes it away with all that needs it.
NetParameter AskedNet(const NetParameter& net, int64_t words) {
  const LayerParameter story = StoryLayer(net);
  const std::vector<Shape> shapes = StoryShapes(story.story_data_param(), 1, words);
  LayerParameter input;
  input.set_name(StrCat(story.name(), "/asked"));
  input.set_type("Input");
  LayerParameter rest = story;
  rest.clear_top();
  for (int i = 0; i < std::min(story.top_size(), story.story_data_param().output_size()); ++i) {
    if (!IsAsked(story.story_data_param().output(i))) {
      rest.add_top(story.top(i));
      continue;
    }
    input.add_top(story.top(i));
    BlobShape* shape = input.mutable_input_param()->add_shape();
    for (const int64_t dim : shapes[static_cast<size_t>(i)].dims()) shape->add_dim(dim);
  }
  NetParameter asked = net;
  asked.clear_layer();
  *asked.add_layer() = input;
  for (const LayerParameter& layer : net.layer()) {
    if (TraitsOf(layer).data != DataKind::kStories) *asked.add_layer() = layer;
    if (TraitsOf(layer).data == DataKind::kStories && rest.top_size() > 0) *asked.add_layer() = rest;
  }
  return DeployNet(asked, {1});
}

// A trained net that answers one question at a time. One thread.
class StoryNet {
 public:
  StoryNet(const InferSource& source, int64_t words)
      : net_(InferNet(source)),
        story_(StoryLayer(net_)),
        vocabulary_(VocabularyFile(source, story_, story_.story_data_param().vocabulary())),
        words_(vocabulary_.words()),
        hops_(source.card.answer().attention().begin(), source.card.answer().attention().end()),
        store_(source.compile.device),
        made_(CompileForInference(source, AskedNet(net_, words), hops_, store_)) {
    const NetParameter asked = AskedNet(net_, words);
    const std::vector<std::string> filled(story_.top().begin(), story_.top().end());
    made_.outputs = FilledOutputs(program(), asked, filled, made_.outputs);
    for (const std::string& hop : hops_) RequireFilled(program(), asked, filled, hop);
    const Shape scores = Scores().shape();
    if (scores.Count() != vocabulary_.size()) {
      throw Error(ErrorKind::kConfig,
                  StrCat("output \"", made_.outputs.back(), "\" is ", scores.ToString(),
                         ", not a probability for each of the ", vocabulary_.size(), " words of ",
                         VocabularyFile(source, story_, story_.story_data_param().vocabulary()).string()));
    }
    for (const std::string& hop : hops_) {
      if (program().output(hop).shape().Count() == sentences()) continue;
      throw Error(ErrorKind::kConfig,
                  StrCat("model.prototxt: attention \"", hop, "\" is ", program().output(hop).shape().ToString(),
                         ", not a weight for each of ", sentences(), " sentences"));
    }
  }

  const Program& program() const { return *made_.program; }
  int64_t sentences() const { return story_.story_data_param().sentences(); }

  StoryAnswer Answer(const AskedQuestion& asked, int64_t top) {
    const size_t held = std::min(asked.story.size(), static_cast<size_t>(sentences()));
    for (int i = 0; i < story_.top_size(); ++i) {
      const StoryFields::Output output = story_.story_data_param().output(i);
      if (IsAsked(output) && program().HasInput(story_.top(i))) Write(asked, held, output, story_.top(i));
    }
    made_.program->Run();
    StoryAnswer answer;
    answer.left_out = std::exchange(left_out_, {});
    const std::span<const float> scores = Scores().as<const float>();
    CheckScores(scores, made_.outputs.back());
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    order.resize(std::min(order.size(), static_cast<size_t>(top)));
    for (const size_t word : order) answer.words.emplace_back(words_[word], static_cast<double>(scores[word]));
    answer.attention.resize(held);
    for (const std::string& hop : hops_) {
      const std::span<const float> weights = program().output(hop).as<const float>();
      for (size_t s = 0; s < held; ++s) answer.attention[s].push_back(static_cast<double>(weights[s]));
    }
    return answer;
  }

 private:
  Tensor Scores() const { return program().output(made_.outputs.back()); }

  // A sentence's numbers; words that the net does not know are left out, and told once.
  void WriteWords(const StorySentence& sentence, std::span<float> out) {
    size_t at = 0;
    for (const std::string& word : sentence.words) {
      const int32_t number = vocabulary_.NumberOf(word);
      if (number != kUnknownWord) {
        out[at++] = static_cast<float>(number);
        continue;
      }
      if (std::ranges::find(left_out_, word) == left_out_.end()) left_out_.push_back(word);
      constexpr size_t kMostTold = 1000;
      if (unknown_.size() >= kMostTold || !unknown_.insert(word).second) continue;
      const std::string near = DidYouMean(word, words_);
      LogWarning(StrCat("the net does not know the word \"", Printable(word), "\" and reads on without it",
                        near.empty() ? "" : StrCat("; ", near)));
    }
  }

  void Write(const AskedQuestion& asked, size_t held, StoryFields::Output output, const std::string& name) {
    const Tensor input = program().input(name);
    const std::span<float> out = input.as<float>();
    std::ranges::fill(out, 0.0F);
    const size_t width = out.size() / static_cast<size_t>(sentences());
    switch (output) {
      case StoryFields::STORY:
        for (size_t s = 0; s < held; ++s) {
          WriteWords(asked.story[asked.story.size() - 1 - s], out.subspan(s * width, width));
        }
        return;
      case StoryFields::QUESTION: WriteWords(asked.question, out); return;
      case StoryFields::TIME: std::iota(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(held), 1.0F); return;
      case StoryFields::SENTENCES: out[0] = static_cast<float>(held); return;
      case StoryFields::ANSWER:
      case StoryFields::SUPPORT: return;
    }
  }

  NetParameter net_;
  LayerParameter story_;
  Vocabulary vocabulary_;
  std::vector<std::string> words_;
  std::vector<std::string> hops_;
  ParameterStore store_;
  InferProgram made_;
  std::set<std::string> unknown_;      // words that were told of
  std::vector<std::string> left_out_;  // of the question that is asked
};

nlohmann::ordered_json JsonOf(const AskedQuestion& asked, const StoryAnswer& answer) {
  nlohmann::ordered_json json = {{"question", asked.question.text}, {"line", asked.line}};
  if (asked.answer) json["expected"] = *asked.answer;
  if (!answer.left_out.empty()) json["unknown_words"] = answer.left_out;
  json["answers"] = nlohmann::ordered_json::array();
  for (const auto& [word, probability] : answer.words) {
    json["answers"].push_back({{"answer", word}, {"probability", probability}});
  }
  json["memory"] = nlohmann::ordered_json::array();
  for (size_t s = answer.attention.size(); s-- > 0;) {
    json["memory"].push_back(
        {{"sentence", asked.story[asked.story.size() - 1 - s].text}, {"attention", answer.attention[s]}});
  }
  return json;
}

// Characters of UTF-8, by which columns are aligned.
size_t Characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

void PrintAnswer(const PictureJson& answer) {
  constexpr double kBar = 10;  // characters of a weight of 1
  const PictureJson& memory = answer.at("memory");
  size_t width = 0;
  for (const PictureJson& held : memory) width = std::max(width, Characters(Printable(TextAt(held, "sentence"))));
  const size_t hops = memory.empty() ? 0 : memory.at(0).at("attention").size();
  if (hops > 0) {
    Print("{}", std::string(width, ' '));
    for (size_t hop = 1; hop <= hops; ++hop) Print("  {:<15}", StrCat("hop ", hop));
    Print("\n");
  }
  for (const PictureJson& held : memory) {
    const std::string text = Printable(TextAt(held, "sentence"));
    std::string line = text + std::string(width - Characters(text), ' ');
    for (const double weight : held.at("attention").get<std::vector<double>>()) {
      const auto bar = static_cast<size_t>(std::lround(std::clamp(std::abs(weight), 0.0, 1.0) * kBar));
      line += fmt::format("  {:4.2f} {:<10}", weight, std::string(bar, '#'));
    }
    Print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
  Print("{}\n", TextAt(answer, "question"));
  const PictureJson& words = answer.at("answers");
  for (const PictureJson& word : words) Print("  {:.4f}  {}\n", NumberAt(word, "probability"), TextAt(word, "answer"));
  if (!answer.contains("expected")) return;
  const std::string expected = TextAt(answer, "expected");
  const bool is_right = !words.empty() && TextAt(words.at(0), "answer") == expected;
  Print("  {}\n", is_right ? "right" : StrCat("wrong: it is ", expected));
}

// Longest sentence or question, in words; at least 1.
int64_t MostWords(const std::vector<AskedQuestion>& questions) {
  size_t most = 1;
  for (const AskedQuestion& asked : questions) {
    most = std::max(most, asked.question.words.size());
    for (const StorySentence& sentence : asked.story) most = std::max(most, sentence.words.size());
  }
  return static_cast<int64_t>(most);
}

// A net for each length of the longest sentence, which is an axis of its inputs; few are kept.
class StoryAnswers : public TaskAnswers {
 public:
  explicit StoryAnswers(const InferSource& source) : source_(source) { NetFor(1); }

  AskedKind kind() const override { return AskedKind::kText; }
  TaskAnswer Answer(const AskedContent& asked) override {
    const std::vector<AskedQuestion> questions = ReadQuestions(TextLines(std::string(asked.bytes), asked.name));
    StoryNet& net = NetFor(MostWords(questions));
    TaskAnswer answer{.json = PictureJson::array()};
    for (const AskedQuestion& question : questions) answer.json.push_back(JsonOf(question, net.Answer(question, 1)));
    return answer;
  }

 private:
  StoryNet& NetFor(int64_t words) {
    constexpr size_t kMostNets = 8;
    auto found = std::ranges::find(nets_, words, &LengthNet::words);
    if (found == nets_.end()) {
      if (nets_.size() == kMostNets) nets_.pop_back();
      nets_.push_front({words, std::make_unique<StoryNet>(source_, words)});
      found = nets_.begin();
    }
    nets_.splice(nets_.begin(), nets_, found);
    return *nets_.front().net;
  }

  struct LengthNet {
    int64_t words = 0;
    std::unique_ptr<StoryNet> net;
  };
  const InferSource& source_;
  std::list<LengthNet> nets_;  // the last used first
};

int RunAnswer(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  std::string file = arguments.Get("story");
  if (file.empty() && inputs.size() == 1) file = inputs[0];
  if (file.empty() && !LooksInside(arguments)) {
    throw Error(ErrorKind::kUsage, {}, "missing argument: a story with questions",
                "give --story FILE, or --story - and type it");
  }
  std::vector<AskedQuestion> questions;
  if (!file.empty()) questions = ReadQuestions(TextLines(TextFileOf(file)));
  const int64_t top = arguments.Int("top", 1, 1, INT64_MAX);
  StoryNet net(source, MostWords(questions));
  RefuseUnreadBeforeLook(arguments, {"json", "trace"});
  if (LookInside(arguments, "infer", net.program())) return 0;
  BeginTrace(arguments);
  const int64_t begin = NowMicros();
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  int64_t known = 0;
  int64_t right = 0;
  for (const AskedQuestion& asked : questions) {
    const StoryAnswer answer = net.Answer(asked, top);
    known += asked.answer ? 1 : 0;
    right += asked.answer && answer.words[0].first == *asked.answer ? 1 : 0;
    if (arguments.Has("json")) {
      json.push_back(JsonOf(asked, answer));
      continue;
    }
    if (&asked != &questions.front()) Print(kBetween);
    PrintAnswer(JsonOf(asked, answer));
  }
  EndTrace(arguments);
  if (arguments.Has("json")) {
    PrintJson(json);
  }
  LogInfo(fmt::format("{} question{}{}, {:.1f} ms", questions.size(), questions.size() == 1 ? "" : "s",
                      known > 0 ? StrCat(", ", right, " of ", known, " right") : "",
                      static_cast<double>(NowMicros() - begin) * 1e-3));
  return 0;
}

}  // namespace

InferTask AnswerTask() {
  return {.task = ModelCard::ANSWER,
          .run = RunAnswer,
          .answers = [](const InferSource& source, const SharedWeights& /*weights*/) -> std::unique_ptr<TaskAnswers> {
            return std::make_unique<StoryAnswers>(source);
          },
          .form = {.asked = AskedKind::kText, .print = PrintAnswer, .between = kBetween},
          .options = {{"story", "FILE", "sentences and questions, lines of text or of bAbI's form; -: standard input"}},
          .input = "--story FILE"};
}

}  // namespace moka
