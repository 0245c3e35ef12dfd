// Parses the line as far as it goes and offers what the grammar allows next; files are left to the shell.
#include "tools/verbs/completion_words.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/net_source.h"
#include "tools/nets/zoo_weights.h"
#include "tools/zoo/entry.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

struct TypedLine {
  std::vector<std::string> words;  // before the cursor's
  std::string current;             // what stands of the word at the cursor
};

// Blanks part words but inside quotes, which are left out.
TypedLine LineWords(std::string_view line) {
  TypedLine typed;
  char quote = '\0';
  for (const char c : line) {
    if (quote != '\0') {
      quote = c == quote ? '\0' : quote;
      if (quote != '\0') typed.current += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == ' ' || c == '\t') {
      if (!typed.current.empty()) typed.words.push_back(std::move(typed.current));
      typed.current.clear();
    } else if (c != '\\') {
      typed.current += c;
    }
  }
  return typed;
}

// The verb that the words name, the verbs that may follow, and what stands behind it.
struct TypedVerb {
  const Verb* verb = nullptr;
  const Verb* outer = nullptr;  // of a subverb
  const std::vector<Verb>* next = nullptr;
  std::vector<std::string> rest;
};

TypedVerb VerbOfWords(const std::vector<Verb>& verbs, const std::vector<std::string>& words) {
  TypedVerb typed;
  typed.next = &verbs;
  for (const std::string& word : words) {
    const auto named = [&](const Verb& verb) { return verb.name == word; };
    const auto it = std::ranges::find_if(*typed.next, named);
    if (typed.rest.empty() && it != typed.next->end()) {
      typed.outer = typed.verb;
      typed.verb = &*it;
      typed.next = &it->subverbs;
    } else {
      typed.rest.push_back(word);
    }
  }
  return typed;
}

bool Mentions(std::string_view usage, std::string_view what) { return usage.find(what) != std::string_view::npos; }

// Folders of runs/, as the words that name them.
std::vector<std::string> RunWords() {
  std::vector<std::string> words;
  for (const std::string& name : RunNames("runs")) words.push_back(StrCat("runs/", name));
  return words;
}

// The models that carry weights, where a run or a file of weights may stand.
std::vector<std::string> ZooWords() {
  const std::optional<fs::path> models = FindModelsFolder();
  if (!models) return {};
  std::vector<std::string> words = ModelsWithWeights(*models);
  for (std::string& word : words) word.insert(0, kZooWord);
  return words;
}

// The zoo's models as the words that name them: folders of ./models, or names alone where they lie elsewhere.
std::vector<std::string> ModelWords() {
  const std::optional<fs::path> models = FindModelsFolder();
  if (!models) return {};
  std::vector<std::string> words = ModelNames(*models);
  if (models->is_relative()) {
    for (std::string& word : words) word = (*models / word).string();
  }
  return words;
}

bool IsShown(const FieldDescriptor& field) { return field.name() != "origin"; }

// Returns the field's name with the mark that follows it: a list is selected from, a message has fields, the rest are
// set.
std::string FieldWord(const std::string& front, const FieldDescriptor& field) {
  const bool is_message = field.message_type() != nullptr;
  const char* end = !is_message ? "=" : field.is_repeated() ? "[" : ".";
  return StrCat(front, field.name(), end);
}

void AddFieldWords(const std::string& front, const Descriptor& message, std::vector<std::string>& words) {
  for (int i = 0; i < message.field_count(); ++i) {
    if (IsShown(*message.field(i))) words.push_back(FieldWord(front, *message.field(i)));
  }
}

void AddValues(const std::string& front, const FieldDescriptor& field, std::vector<std::string>& words) {
  if (field.type() == FieldDescriptor::TYPE_BOOL) {
    for (const char* value : {"true", "false"}) words.push_back(front + value);
  }
  for (int i = 0; field.enum_type() != nullptr && i < field.enum_type()->value_count(); ++i)
    words.push_back(front + field.enum_type()->value(i)->name());
}

// The net of the first word that names a net or a solver, whichever the verb takes; none where there is none yet.
std::optional<NetParameter> NetOfWords(TakenFields takes, const std::vector<std::string>& rest) {
  for (const std::string& word : rest) {
    if (word.starts_with("-") || word.find('=') != std::string::npos) continue;
    if (takes == TakenFields::kOfNet) return ReadNet(FindConfig(word, "train_val.prototxt"));
    const fs::path solver = FindConfig(word, "solver.prototxt");
    return ReadSolverNets(ReadSolver(solver, {}), {}).train;
  }
  return std::nullopt;
}

// The message that a path's steps, dots between them, lead to from `root`; none where one is no message.
const Descriptor* MessageAt(const Descriptor* root, std::string_view path) {
  for (const std::string& step : Split(path, '.')) {
    if (step.empty() || root == nullptr) continue;
    const FieldDescriptor* field = root->FindFieldByName(step.substr(0, step.find('[')));
    root = field == nullptr ? nullptr : field->message_type();
  }
  return root;
}

// Fields of the solver, where the verb takes them, and of layers, by what is typed of a path: "ba", "layer[con",
// "layer[ip1].inner_product_param.".
void AddOverrides(TakenFields takes, const std::string& current, const std::vector<std::string>& rest,
                  std::vector<std::string>& words) {
  const size_t bracket = current.find("layer[");
  const size_t closed = bracket == std::string::npos ? std::string::npos : current.find(']', bracket);
  if (bracket != std::string::npos && closed == std::string::npos) {
    const std::optional<NetParameter> net = NetOfWords(takes, rest);
    for (int i = 0; net && i < net->layer_size(); ++i)
      words.push_back(StrCat(current.substr(0, bracket), "layer[", net->layer(i).name(), "]."));
    return;
  }
  const bool is_layer = closed != std::string::npos;
  if (!is_layer && takes == TakenFields::kOfNet) {
    words.emplace_back("layer[");
    return;
  }
  const Descriptor* root = is_layer ? LayerParameter::descriptor() : SolverParameter::descriptor();
  const size_t begin = is_layer ? std::min(closed + 1, current.size()) : 0;
  const size_t equals = current.find('=', begin);
  const size_t dot = current.rfind('.', equals);
  const size_t front = dot == std::string::npos || dot < begin ? begin : dot + 1;
  const Descriptor* message = MessageAt(root, std::string_view(current).substr(begin, front - begin));
  if (message == nullptr) return;
  if (equals != std::string::npos) {
    const FieldDescriptor* field = message->FindFieldByName(current.substr(front, equals - front));
    if (field != nullptr) AddValues(current.substr(0, equals + 1), *field, words);
    return;
  }
  AddFieldWords(current.substr(0, front), *message, words);
  if (!is_layer) words.emplace_back("layer[");
}

void AddFlagValues(const Verb& verb, const std::string& current, std::vector<std::string>& words) {
  const size_t equals = current.find('=');
  const auto add = [&](const std::vector<std::string>& values) {
    for (const std::string& value : values) words.push_back(StrCat(current.substr(0, equals + 1), value));
  };
  for (const OptionSpec& option : verb.options) {
    if (current.substr(0, equals) != "--" + option.name) continue;
    const bool is_start = option.value == "START";
    if (Mentions(option.value, "RUN") || is_start) add(RunWords());
    if (option.name == "weights" || is_start) add(ZooWords());
  }
}

void AddFlags(const Verb& verb, std::vector<std::string>& words) {
  for (const auto* options : {&verb.options, &CommonOptions()}) {
    for (const OptionSpec& option : *options)
      words.push_back(StrCat("--", option.name, option.value.empty() ? "" : "="));
  }
}

std::vector<std::string> AllCandidates(const std::vector<Verb>& verbs, const TypedLine& line) {
  if (!line.words.empty() && line.words.front() == "help") {
    const TypedVerb asked = VerbOfWords(verbs, {line.words.begin() + 1, line.words.end()});
    std::vector<std::string> names;
    for (const Verb& verb : *asked.next) names.push_back(verb.name);
    return asked.rest.empty() ? names : std::vector<std::string>();
  }
  const TypedVerb typed = VerbOfWords(verbs, line.words);
  std::vector<std::string> words;
  if (typed.rest.empty()) {
    for (const Verb& verb : *typed.next) words.push_back(verb.name);
  }
  if (typed.verb == nullptr) {
    if (line.words.empty()) words.insert(words.end(), {"--help", "--version", "help"});
    return words;
  }
  const Verb& verb = *typed.verb;
  if (line.current.starts_with("-")) {
    if (line.current.find('=') == std::string::npos) {
      AddFlags(verb, words);
    } else {
      AddFlagValues(verb, line.current, words);
    }
    return words;
  }
  const auto add = [&](const std::vector<std::string>& more) { words.insert(words.end(), more.begin(), more.end()); };
  const bool is_zoo = typed.outer != nullptr && typed.outer->name == "zoo";
  if (is_zoo && verb.name != "list") add(ModelNames(ModelsFolder({})));
  const bool has_config = !typed.rest.empty() && !typed.rest.front().starts_with("-");
  if (!has_config && Mentions(verb.usage, "RUN")) add(RunWords());
  if (!has_config && (Mentions(verb.usage, "MODEL") || Mentions(verb.usage, "SOLVER"))) add(ModelWords());
  if (!has_config && Mentions(verb.usage, "RUN") && Mentions(verb.usage, "MODEL")) add(ZooWords());
  if (has_config && verb.takes_fields != TakenFields::kNone)
    AddOverrides(verb.takes_fields, line.current, typed.rest, words);
  if (line.current.empty()) AddFlags(verb, words);
  return words;
}

}  // namespace

std::vector<std::string> CompletionsOf(const std::vector<Verb>& verbs, std::string_view line) {
  const QuietScope quiet;  // a shell that completes is told no warnings
  const TypedLine typed = LineWords(line);
  std::vector<std::string> words;
  try {
    words = AllCandidates(verbs, typed);
  } catch (const Error&) {
    return {};  // nor errors, of a net that is being written, say
  }
  std::erase_if(words, [&](const std::string& word) { return !word.starts_with(typed.current); });
  return words;
}

}  // namespace moka
