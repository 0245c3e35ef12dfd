// moka completion SHELL: a small adaptor that asks `moka completion --words` for the candidates.
#include <cstdio>

#include "core/error.h"
#include "core/text.h"
#include "tools/verbs/verbs.h"
#include "tools/zoo/entry.h"

namespace moka {
namespace {

constexpr const char* kBash = R"sh(_moka() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$(moka completion --words "${COMP_WORDS[*]:1:COMP_CWORD-1}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o filenames -F _moka moka
)sh";

constexpr const char* kZsh = R"sh(#compdef moka
_moka() {
  local -a candidates
  candidates=(${(f)"$(moka completion --words "${words[2,CURRENT-1]}" 2>/dev/null)"})
  compadd -a candidates
  _files
}
compdef _moka moka
)sh";

constexpr const char* kFish =
    R"sh(complete -c moka -f -a '(moka completion --words (string join " " -- (commandline -opc)[2..-1]) 2>/dev/null)'
complete -c moka -F
)sh";

// Names of the zoo's models; nothing where there are none.
void PrintModels() {
  try {
    for (const std::string& name : EntryNames(ModelsFolder({}))) std::puts(name.c_str());
  } catch (const Error&) {
    return;  // a shell that completes is told no errors
  }
}

void PrintWords(const std::string& typed) {
  const std::vector<Verb>* verbs = &AllVerbs();
  const Verb* verb = nullptr;
  bool is_zoo = false;
  for (const std::string& word : Split(typed, ' ')) {
    for (const Verb& candidate : *verbs) {
      if (candidate.name != word) continue;
      is_zoo = is_zoo || candidate.name == "zoo";
      verb = &candidate;
      verbs = &candidate.subverbs;
      break;
    }
  }
  for (const Verb& candidate : *verbs) std::puts(candidate.name.c_str());
  if (verb == nullptr) return;
  if (is_zoo && verb->run != nullptr && verb->name != "list") PrintModels();
  for (const OptionSpec& option : verb->options)
    std::puts(("--" + option.name + (option.value.empty() ? "" : "=")).c_str());
  for (const OptionSpec& option : CommonOptions()) std::puts(("--" + option.name).c_str());
}

int RunCompletion(const Arguments& arguments) {
  if (arguments.Has("words")) {
    PrintWords(arguments.Get("words"));
    return 0;
  }
  const std::string shell = arguments.positionals.empty() ? "" : arguments.positionals[0];
  const char* script = shell == "bash" ? kBash : shell == "zsh" ? kZsh : shell == "fish" ? kFish : nullptr;
  if (script == nullptr) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("completion is there for bash, zsh and fish, not \"", Printable(shell), "\""),
                DidYouMean(shell, {"bash", "zsh", "fish"}));
  }
  std::fputs(script, stdout);
  return 0;
}

}  // namespace

Verb CompletionVerb() {
  Verb verb;
  verb.name = "completion";
  verb.summary = "print the completion script of a shell";
  verb.usage = "bash|zsh|fish";
  verb.examples = {"source <(moka completion bash)", "moka completion fish > ~/.config/fish/completions/moka.fish"};
  verb.options = {{"words", "TEXT", "print the words that may follow TEXT (what the scripts call)"}};
  verb.run = RunCompletion;
  return verb;
}

}  // namespace moka
