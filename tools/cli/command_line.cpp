// Words are told apart by their form alone and then by the verb's table of flags, before any of them is acted on; what
// nothing reads in the end is refused with the nearest name.
#include "tools/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <mutex>

#include "core/error.h"
#include "core/text.h"
#include "data/image/picture_limits.h"
#include "proto/text/overrides.h"
#include "tools/cli/other_verbs.h"

namespace moka {
namespace {

std::vector<OptionSpec> OptionsOf(const Verb& verb) {
  std::vector<OptionSpec> options = verb.options;
  options.insert(options.end(), CommonOptions().begin(), CommonOptions().end());
  return options;
}

// Whether a word is a flag of one letter, such as -n.
bool IsLetterFlag(const Verb& verb, const std::string& word) {
  return word.size() == 2 && word[0] == '-' &&
         std::ranges::any_of(verb.options, [&](const OptionSpec& option) { return option.name == word.substr(1); });
}

// -solver=x and -n x become --solver=x and --n x; other single letters stay; "a = b" is joined to "a=b".
std::vector<std::string> Normalized(const Verb& verb, const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool single_dash =
        word.size() > 2 && word[0] == '-' && word[1] != '-' && std::isalpha(static_cast<unsigned char>(word[1])) != 0;
    const bool is_flag = single_dash || IsLetterFlag(verb, word);
    if (word == "=" && !result.empty() && i + 1 < words.size()) {
      result.back() += "=" + words[++i];
    } else {
      result.push_back(is_flag ? "-" + word : word);
    }
  }
  return result;
}

// A word that is a solver, a net or an override, and so no value of a flag before it that may have none.
bool IsWordOfItsOwn(const std::string& word) {
  std::error_code code;
  return word.starts_with("-") || word.ends_with(".prototxt") || IsOverride(word) ||
         std::filesystem::exists(std::filesystem::path(word) / "solver.prototxt", code);
}

// A flag that is given twice has to have one value: which of two is meant nobody can know.
void TakeOnce(const OptionSpec& option, const std::string& value, std::map<std::string, std::string>& taken) {
  const auto [before, is_new] = taken.emplace(option.name, value);
  if (is_new || before->second == value) return;
  throw Error(ErrorKind::kUsage, {},
              StrCat("--", option.name, " is given twice, as \"", Printable(before->second), "\" and as \"",
                     Printable(value), "\""),
              "leave one of them out");
}

// A shell makes the home folder of "~" where a word begins with it, and nothing of it behind "=": it would be the name
// of a folder here.
void RefuseTilde(std::string_view front, std::string_view value) {
  for (const std::string& part : Split(value, ',')) {
    if (part != "~" && !part.starts_with("~/")) continue;
    throw Error(
        ErrorKind::kUsage, {},
        StrCat(front, Printable(value), ": the shell has left \"~\" as it is, and no folder is called so"),
        StrCat("write $HOME for it: ", front, "$HOME", Printable(part.substr(1)), "; a folder of that name is ./~"));
  }
}

// Flags whose value may be left out are taken out of the words, with their values: the splitter would give such a flag
// whatever word comes next.
std::map<std::string, std::string> TakeOptionalValues(const Verb& verb, std::vector<std::string>& words) {
  std::map<std::string, std::string> taken;
  for (const OptionSpec& option : OptionsOf(verb)) {
    if (!option.value.starts_with("[")) continue;
    const std::string flag = "--" + option.name;
    for (size_t i = 0; i < words.size() && words[i] != "--";) {
      const bool has_own = words[i].starts_with(flag + "=");
      if (!has_own && words[i] != flag) {
        ++i;
        continue;
      }
      const bool has_next = !has_own && i + 1 < words.size() && option.value != "[BOOL]" &&
                            (option.value == "[TEXT]" || !IsWordOfItsOwn(words[i + 1]));
      std::string value = has_own ? words[i].substr(flag.size() + 1) : has_next ? words[i + 1] : std::string();
      if (value.empty() && option.value == "[BOOL]") value = "true";
      if (option.value != "[TEXT]") RefuseTilde(flag + "=", value);
      TakeOnce(option, value, taken);
      const auto begin = words.begin() + static_cast<std::ptrdiff_t>(i);
      words.erase(begin, begin + (has_next ? 2 : 1));
    }
  }
  return taken;
}

// A flag's value is there if it must be, and only then.
void CheckFlagValues(const Verb& verb, const std::vector<std::string>& words) {
  for (const OptionSpec& option : OptionsOf(verb)) {
    const std::string flag = "--" + option.name;
    for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
      const bool has_value = words[i].starts_with(flag + "=");
      if (has_value && option.value.empty()) {
        throw Error(ErrorKind::kUsage,
                    StrCat(flag, " takes no value, found \"", Printable(words[i].substr(flag.size() + 1)), "\""));
      }
      const bool wants_value = !option.value.empty() && !option.value.starts_with("[");
      // The splitter would take the next word for it, and of a value that may be left out an empty one means another
      // thing: a script's variable that is not set.
      const bool is_next_empty = words[i] == flag && i + 1 < words.size() && words[i + 1].empty();
      const bool has_empty = words[i] == flag + "=" || (is_next_empty && option.value != "[BOOL]");
      if (has_empty && !option.value.empty() && option.value != "[TEXT]") {
        const std::string name = wants_value ? option.value : option.value.substr(1, option.value.size() - 2);
        throw Error(
            ErrorKind::kUsage, {}, StrCat(flag, "= has no value"),
            StrCat("write ", flag, "=", name, wants_value ? ", or leave it out" : StrCat(", or ", flag, " alone")));
      }
      const bool is_last = i + 1 == words.size() || words[i + 1].starts_with("--");
      if (words[i] == flag && wants_value && is_last) {
        throw Error(ErrorKind::kUsage, StrCat(flag, " wants a value: ", flag, " ", option.value));
      }
    }
  }
}

// "data import" for the verb that is typed so.
std::string PathOf(const Verb& verb) { return verb.under.empty() ? verb.name : StrCat(verb.under, " ", verb.name); }

[[noreturn]] void RefuseOverride(const std::string& path, const std::string& word) {
  throw Error(ErrorKind::kUsage, {}, StrCat("moka ", path, " takes no key=value, found \"", Printable(word), "\""),
              "a file of that name is given as ./FILE");
}

[[noreturn]] void RefuseUselessWord(const std::string& path, const std::string& word) {
  throw Error(ErrorKind::kUsage, {}, StrCat("\"", Printable(word), "\" has no use here: nothing reads it"),
              StrCat("see moka ", path, " --help"));
}

// A word that was meant to set a field and does not: as a file it would only be told not to be there.
void RefuseMeantOverride(const Verb& verb, const std::string& word) {
  std::error_code code;
  if (verb.takes_fields == TakenFields::kNone || std::filesystem::exists(word, code)) return;
  if (const std::optional<std::string> hint = HintForMeantOverride(word)) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("\"", Printable(word), "\" is no file, nor does it set a field (FIELD=VALUE)"), *hint);
  }
}

// Flags of which one would be passed over for the other.
void RefuseContradictions(const Arguments& arguments) {
  for (const auto& [flag, other] : {std::pair("quiet", "verbose"), {"device", "gpu"}, {"json", "markdown"}}) {
    if (!arguments.options.contains(flag) || !arguments.options.contains(other)) continue;
    throw Error(ErrorKind::kUsage, {}, StrCat("--", flag, " and --", other, " cannot both be asked for"),
                "leave one of them out");
  }
}

// Ranks that are threads of this process read their copies at once.
std::mutex& ReadMutex() {
  static std::mutex mutex;
  return mutex;
}

// gflags turns a switch off by "no" before its name: --noshuffle is --shuffle=false.
void SpellOut(const Verb& verb, std::vector<std::string>& words) {
  for (const OptionSpec& option : verb.options) {
    if (option.value != "[BOOL]") continue;
    for (std::string& word : words) {
      if (word == "--") break;
      if (word == "--no" + option.name) word = StrCat("--", option.name, "=false");
    }
  }
}

void RefuseUnknownFlags(const Verb& verb, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const OptionSpec& option : OptionsOf(verb)) names.push_back("--" + option.name);
  for (const std::string& word : words) {
    if (word == "--") return;
    if (!word.starts_with("--") || word.size() == 2) continue;
    const std::string name = word.substr(0, word.find('='));
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const bool sets_solver = verb.takes_fields == TakenFields::kOfSolver;
    const std::string meant = OtherToolsFlag(std::string_view(name).substr(2), sets_solver);
    throw Error(ErrorKind::kUsage, {}, StrCat("moka ", PathOf(verb), " has no flag ", Printable(name)),
                meant.empty() ? DidYouMean(name, names) : meant);
  }
}

}  // namespace

GivenWords& GivenWords::operator=(std::vector<std::string> words) {
  words_ = std::move(words);
  read_ = std::make_shared<std::set<size_t>>();
  return *this;
}

void GivenWords::push_back(std::string word) { words_.push_back(std::move(word)); }

const std::string& GivenWords::operator[](size_t i) const {
  const std::lock_guard lock(ReadMutex());
  read_->insert(i);
  return words_[i];
}

const std::string& GivenWords::at(size_t i) const {
  Require(i < words_.size(), "a word that is there");
  return (*this)[i];
}

const std::vector<std::string>& GivenWords::All() const {
  const std::lock_guard lock(ReadMutex());
  for (size_t i = 0; i < words_.size(); ++i) read_->insert(i);
  return words_;
}

std::optional<std::string> GivenWords::Unread() const {
  const std::lock_guard lock(ReadMutex());
  for (size_t i = 0; i < words_.size(); ++i) {
    if (!read_->contains(i)) return words_[i];
  }
  return std::nullopt;
}

struct Arguments::Read {
  std::set<std::string> options;
};

Arguments::Arguments(const Verb& verb)
    : read_(std::make_shared<Read>()), verb_(PathOf(verb)), specs_(OptionsOf(verb)) {}

bool Arguments::Has(const std::string& name) const {
  if (read_ != nullptr) {
    const std::lock_guard lock(ReadMutex());
    read_->options.insert(name);
  }
  return options.contains(name);
}

void Arguments::WillRead(std::initializer_list<const char*> names) const {
  for (const char* name : names) (void)Has(name);
}

void Arguments::RefuseUnread(std::initializer_list<const char*> later) const {
  if (read_ == nullptr) return;
  WillRead(later);
  for (const auto& [name, value] : options) {
    if (read_->options.contains(name)) continue;
    const auto spec = std::ranges::find(specs_, name, &OptionSpec::name);
    const std::string dashes = name.size() == 1 ? "-" : "--";
    throw Error(ErrorKind::kUsage, {}, StrCat(dashes, name, " has no use here: nothing reads it"),
                spec == specs_.end() || spec->needs.empty()
                    ? StrCat("leave it out; moka ", verb_, " --help says what it goes with")
                    : StrCat("it needs ", spec->needs));
  }
  if (const std::optional<std::string> word = overrides.Unread()) RefuseOverride(verb_, *word);
  if (const std::optional<std::string> word = positionals.Unread()) RefuseUselessWord(verb_, *word);
}

std::string Arguments::Peek(const std::string& name) const {
  const auto it = options.find(name);
  return it == options.end() ? std::string() : it->second;
}

std::string Arguments::Get(const std::string& name, std::string fallback) const {
  (void)Has(name);
  const auto it = options.find(name);
  return it == options.end() ? fallback : it->second;
}

double Arguments::Number(const std::string& name, double fallback, double low, double high) const {
  return Has(name) ? NumberOfFlag(name, Get(name), low, high) : fallback;
}

void CheckFileEnding(const std::string& what, const std::filesystem::path& file, std::string_view ending) {
  if (file.extension() == ending) return;
  throw Error(ErrorKind::kUsage, {}, StrCat(what, " wants a ", ending, " to write, found ", Printable(file.string())),
              StrCat("name it ", Printable(std::filesystem::path(file).replace_extension(ending).string())));
}

double NumberOfFlag(const std::string& flag, std::string_view text, double low, double high) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return value;
  using Limits = std::numeric_limits<double>;
  const std::string wanted = low == Limits::min() && high == Limits::max()
                                 ? "a finite number above 0"
                                 : StrCat("a number from ", low, " to ", high);
  throw Error(ErrorKind::kUsage, StrCat("--", flag, " wants ", wanted, ", found \"", Printable(text), "\""));
}

std::pair<int64_t, int64_t> SizeOfFlag(const std::string& flag, std::string_view text, std::string_view one_side) {
  std::array<int64_t, 2> sides{};
  const std::vector<std::string> parts = Split(text, 'x');
  bool are_pixels = parts.size() <= sides.size();
  for (size_t i = 0; are_pixels && i < parts.size(); ++i) {
    const std::string& part = parts[i];
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), sides[i]);
    are_pixels =
        code == std::errc() && end == part.data() + part.size() && sides[i] >= 1 && sides[i] <= kMostPictureSide;
  }
  if (are_pixels && parts.size() == sides.size() && IsPictureSize(sides[0], sides[1])) return {sides[0], sides[1]};
  // One number says neither whether both sides are meant nor which.
  const std::string hint = are_pixels && parts.size() < sides.size()
                               ? StrCat("--", flag, " ", text, "x", text, " for both sides, --", one_side, " ", text)
                               : "";
  throw Error(ErrorKind::kUsage, {},
              StrCat("--", flag, " wants HxW, pixels from 1 to ", kMostPictureSide, " and at most ", kMostPicturePixels,
                     " together, found \"", Printable(text), "\""),
              hint);
}

const std::string& Arguments::Word(size_t i, std::string_view what) const {
  if (i >= positionals.size()) throw Error(ErrorKind::kUsage, StrCat("missing argument: ", what));
  return positionals[i];
}

int64_t Arguments::Int(const std::string& name, int64_t fallback, int64_t low, int64_t high) const {
  (void)Has(name);
  const auto it = options.find(name);
  if (it == options.end()) return fallback;
  int64_t value = 0;
  const std::string& text = it->second;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw Error(ErrorKind::kUsage, StrCat("--", name, " wants a whole number from ", low, " to ", high, ", found \"",
                                          Printable(text), "\""));
  }
  return value;
}

const std::vector<OptionSpec>& CommonOptions() {
  static const std::vector<OptionSpec> options = {
      {"help", "", "this text"},
      {"quiet", "", "only warnings and errors on stderr"},
      {"verbose", "", "more narration on stderr"},
      {"color", "WHEN", "always, never or auto (a terminal, and NO_COLOR unset)"},
      {"threads", "N", "threads of the compute team (default: its share of the cores this process may use)"},
      {"pin", "WHERE", "bind them: cores (one each, hyper-threads last), CPUs as 0-3,8, or none (default)"},
  };
  return options;
}

Arguments ParseArguments(const Verb& verb, const std::vector<std::string>& words) {
  std::vector<std::string> normal = Normalized(verb, words);
  SpellOut(verb, normal);
  RefuseUnknownFlags(verb, normal);
  CheckFlagValues(verb, normal);
  const std::map<std::string, std::string> optional = TakeOptionalValues(verb, normal);
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::map<std::string, std::string> values;
  std::map<std::string, bool> switches;
  for (const OptionSpec& option : OptionsOf(verb)) {
    if (option.value.empty()) {
      app.add_flag("--" + option.name, switches[option.name]);
    } else if (!option.value.starts_with("[")) {
      CLI::Option* added = app.add_option("--" + option.name, values[option.name]);
      option.join == '\0' ? added->take_last() : added->join(option.join);
    }
  }
  try {
    std::vector<std::string> reversed(normal.rbegin(), normal.rend());  // CLI11 takes them last first
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::kUsage, {}, StrCat("moka ", PathOf(verb), ": ", error.what()),
                StrCat("see moka ", PathOf(verb), " --help"));
  }
  Arguments arguments(verb);
  arguments.words = words;
  arguments.options = optional;
  for (const OptionSpec& option : OptionsOf(verb)) {
    const std::string flag = "--" + option.name;
    if (option.value.starts_with("[") || app.count(flag) == 0) continue;
    if (option.value.empty()) {
      arguments.options[option.name] = "true";
      continue;
    }
    std::map<std::string, std::string> given;
    const std::vector<std::string> all = app.get_option(flag)->results();
    for (const std::string& value : all) {
      RefuseTilde(flag + "=", value);
      if (option.join == '\0') TakeOnce(option, value, given);
    }
    arguments.options[option.name] = values[option.name];
  }
  RefuseContradictions(arguments);
  bool are_files = false;  // behind "--"
  for (const std::string& word : app.remaining()) {
    if (word == "--" && !are_files) {
      are_files = true;
      continue;
    }
    const bool is_override = !are_files && IsOverride(word);
    const size_t equals = word.find('=');
    if (is_override && equals != std::string::npos)
      RefuseTilde(word.substr(0, equals + 1), std::string_view(word).substr(equals + 1));
    if (!are_files && !is_override) RefuseMeantOverride(verb, word);
    (is_override ? arguments.overrides : arguments.positionals).push_back(word);
  }
  return arguments;
}

void RefuseMoreWords(const Verb& verb, const Arguments& arguments) {
  if (verb.takes_fields == TakenFields::kNone && !arguments.overrides.empty())
    RefuseOverride(PathOf(verb), arguments.overrides[0]);
  if (verb.most_words && arguments.positionals.size() > *verb.most_words)
    RefuseUselessWord(PathOf(verb), arguments.positionals[*verb.most_words]);
}

std::string HelpText(const Verb& verb, std::string_view path) {
  std::string s = StrCat("moka ", path, ": ", verb.summary, "\n\n");
  for (const std::string& example : verb.examples) s += "  " + example + "\n";
  s += StrCat("\nusage: moka ", path, " ", verb.usage, "\n");
  const auto pad = [](std::string text, size_t width) {
    text.resize(std::max(width, text.size()), ' ');
    return text;
  };
  constexpr size_t kNameWidth = 24;
  constexpr size_t kOperandWidth = 33;
  if (!verb.operands.empty()) s += "\n";
  for (const auto& [form, doc] : verb.operands) s += StrCat("  ", pad(form, kOperandWidth), " ", doc, "\n");
  if (!verb.subverbs.empty()) s += "\n";
  for (const Verb& subverb : verb.subverbs)
    s += StrCat("  ", pad(subverb.name, kNameWidth), " ", subverb.summary, "\n");
  s += "\n";
  for (const OptionSpec& option : OptionsOf(verb)) {
    if (option.doc.empty()) continue;
    const std::string dashes = option.name.size() == 1 ? "-" : "--";
    const std::string name = dashes + option.name + (option.value.empty() ? "" : " " + option.value);
    s += StrCat("  ", pad(name, kNameWidth), " ", option.doc, "\n");
  }
  return s;
}

std::string OverviewText() {
  std::string s = "moka: train, test and run networks defined in prototxt\n\n";
  s += "  moka quickstart\n";
  s += "  moka train models/lenet/solver.prototxt\n";
  s += "  moka test --model models/lenet/train_val.prototxt --weights runs/latest/checkpoints/best\n";
  s += "  moka infer runs/latest digit.png\n\nverbs:\n";
  std::vector<std::string> caffe_tools;
  for (const Verb& verb : AllVerbs()) {
    if (verb.is_caffe_tool) {
      caffe_tools.push_back(verb.name);
      continue;
    }
    std::string name = verb.name;
    name.resize(std::max<size_t>(12, name.size()), ' ');
    s += StrCat("  ", name, " ", verb.summary, "\n");
  }
  s += StrCat("\nCaffe's programs by their names: ", Join(caffe_tools, ", "), ".\n");
  return s + "\nmoka VERB --help, or moka help VERB, tells more; moka help --man is all of it as a manual page.\n";
}

}  // namespace moka
