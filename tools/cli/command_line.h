// The command line's grammar: moka VERB [SUBVERB] [argument ...] [key=value ...] [--flag ...]. Verbs are rows; CLI11
// does the splitting inside the .cpp. Caffe's single-dash spelling (-solver=x) is equal to the double-dash one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace moka {

struct Verb;

struct OptionSpec {
  std::string name;   // without dashes
  std::string value;  // what its value is, for help ("FILE", "N"); empty: a switch; "[RUN]": may be left out
  std::string doc;    // empty: another spelling, which help leaves out
  char join = '\0';   // what joins the values of an option that is given several times; otherwise they must be equal
  std::string needs = {};  // what else must be so for it to be read: "models that detect"; empty: only the verb knows
};

// Words of a command line that know which of them were read. Copies share what is known.
class GivenWords {
 public:
  GivenWords() = default;
  GivenWords& operator=(std::vector<std::string> words);
  void push_back(std::string word);
  void clear() { *this = std::vector<std::string>{}; }

  size_t size() const { return words_.size(); }
  bool empty() const { return words_.empty(); }
  const std::string& operator[](size_t i) const;
  const std::string& at(size_t i) const;
  const std::string& back() const { return at(size() - 1); }
  auto begin() const { return All().begin(); }
  auto end() const { return All().end(); }
  operator const std::vector<std::string>&() const { return All(); }  // NOLINT(google-explicit-constructor)
  const std::vector<std::string>& All() const;
  // The first that was not read.
  std::optional<std::string> Unread() const;

 private:
  std::vector<std::string> words_;
  std::shared_ptr<std::set<size_t>> read_ = std::make_shared<std::set<size_t>>();
};

// The words of the command line after the verb, and which of them were read: a word that nothing reads is refused
// rather than ignored. Ranks that are threads read copies, which share what was read, after the process has.
class Arguments {
 public:
  Arguments() = default;
  explicit Arguments(const Verb& verb);
  GivenWords positionals;
  GivenWords overrides;  // "base_lr=0.1", "+field=x", "~layer[drop7]", in order
  std::map<std::string, std::string> options;
  std::vector<std::string> words;  // all of them, as typed

  // The word at this place. Errors: kUsage, calling it `what`, if it is missing.
  const std::string& Word(size_t i, std::string_view what) const;
  // Whether it is given; to ask is to read it.
  bool Has(const std::string& name) const;
  std::string Get(const std::string& name, std::string fallback = {}) const;
  // Its value, if it is given, which says nothing of whether it is used.
  std::string Peek(const std::string& name) const;
  // Errors: kUsage naming the flag when the value is not a whole number in [low, high].
  int64_t Int(const std::string& name, int64_t fallback, int64_t low, int64_t high) const;
  // The same for any number.
  double Number(const std::string& name, double fallback, double low, double high) const;

  // Says that these are read from here on, if they are given.
  void WillRead(std::initializer_list<const char*> names) const;
  // Ends a verb's set-up: what is given and was not read by now, nor is among `later`, has no use.
  // Errors: kUsage naming the first such flag, override or word, and what it would need.
  void RefuseUnread(std::initializer_list<const char*> later = {}) const;

 private:
  struct Read;
  std::shared_ptr<Read> read_;
  std::string verb_;  // "data import"
  std::vector<OptionSpec> specs_;
};

// Errors: kUsage naming the flag when the text is not a number in [low, high].
double NumberOfFlag(const std::string& flag, std::string_view text, double low, double high);

// Errors: kUsage where a file that is to be written does not end as what it will be (".png"). what: "--out".
void CheckFileEnding(const std::string& what, const std::filesystem::path& file, std::string_view ending);
// "HxW" as {H, W}, the size of a picture (data/image/picture_limits.h). Errors: kUsage naming the flag for any other
// text; for one number, which may mean both sides or one, it names `one_side`, the flag that sets one.
std::pair<int64_t, int64_t> SizeOfFlag(const std::string& flag, std::string_view text, std::string_view one_side);

// Returns what read() makes of a flag's value. Errors: its kConfig as kUsage that names the flag.
template <class Read>
auto ValueOfFlag(const std::string& flag, Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig) throw;
    throw Error(ErrorKind::kUsage, {}, StrCat("--", flag, ": ", error.text()), error.hint());
  }
}

// Words key=value set, for a verb, fields of the net that it reads, or of a solver and its nets.
enum class TakenFields : uint8_t { kNone, kOfNet, kOfSolver };

struct Verb {
  std::string name;
  std::string under = {};             // of a subverb in a file of its own: the verb that it belongs to
  std::string summary;                // one line
  std::string usage;                  // after "moka NAME"
  std::vector<std::string> examples;  // whole lines
  std::vector<OptionSpec> options;
  // Runs the verb and returns the exit code.
  int (*run)(const Arguments&) = nullptr;
  std::vector<Verb> subverbs;
  bool computes = true;        // false: its team of threads has nothing to do
  bool is_caffe_tool = false;  // one of Caffe's programs by its name: the overview has them in one line
  std::vector<std::pair<std::string, std::string>> operands = {};  // forms of what `usage` names, and what they are
  std::optional<size_t> most_words = {};  // beside flags and fields, if there is a limit: more are refused at once
  TakenFields takes_fields = TakenFields::kNone;  // key=value; kNone: they are refused at once
};

// The rows of this build in no order that matters: every function `Verb NAME()` of tools/verbs
// (tools/cmake/moka_rows.cmake).
std::vector<Verb> VerbRows();
// All verbs with their subverbs, sorted by name.
const std::vector<Verb>& AllVerbs();
// Null if none of them is called so.
const Verb* FindVerb(const std::vector<Verb>& verbs, std::string_view name);

// Options every verb has: `help`, `json`, `quiet`, `verbose`, `color`, `threads`, `pin`, `seed` where it means
// something.
const std::vector<OptionSpec>& CommonOptions();

// Splits what follows the verb. Errors: kUsage with the nearest flag or subverb.
Arguments ParseArguments(const Verb& verb, const std::vector<std::string>& words);
// Tells words that the verb's row has no place for before its work, not behind it. Errors: kUsage naming the first.
void RefuseMoreWords(const Verb& verb, const Arguments& arguments);

// The text of --help: under 40 lines, examples first.
std::string HelpText(const Verb& verb, std::string_view path);
std::string OverviewText();

}  // namespace moka
