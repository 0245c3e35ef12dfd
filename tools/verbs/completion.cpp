// moka completion SHELL: a small adaptor that asks `moka completion --line` for the candidates.
#include "core/error.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/verbs/completion_words.h"

namespace moka {
namespace {

// Bash takes "=" and ":" for ends of words: what a candidate has up to the last of them stands there already.
constexpr const char* kBash = R"sh(_moka() {
  local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}" typed kept i
  typed="${line##*[[:blank:]]}"
  kept="${typed%"${typed##*[=:]}"}"
  COMPREPLY=($("${COMP_WORDS[0]}" completion --line="${line#*[[:blank:]]}" 2>/dev/null))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
  for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]="${COMPREPLY[i]#"$kept"}"; done
  case "${COMPREPLY[0]}" in *[=.[]) compopt -o nospace 2>/dev/null ;; esac
}
complete -o filenames -F _moka moka
)sh";

// Sourced, it is known from then on; as a file of a folder of $fpath it is the function itself when it is first called.
constexpr const char* kZsh = R"sh(#compdef moka
_moka() {
  local -a candidates
  candidates=(${(f)"$(moka completion --line="${LBUFFER#*[[:blank:]]}" 2>/dev/null)"})
  compadd -S '' -a candidates
  _files
}
if [ "${funcstack[1]}" = _moka ]; then _moka "$@"; else compdef _moka moka; fi
)sh";

constexpr const char* kFish =
    R"sh(complete -c moka -f -a '(moka completion --line=(string replace -r "^\\S+\\s" "" -- (commandline -cp)) 2>/dev/null)'
complete -c moka -F
)sh";

int RunCompletion(const Arguments& arguments) {
  if (arguments.Has("line")) {
    arguments.RefuseUnread();
    for (const std::string& word : CompletionsOf(AllVerbs(), arguments.Get("line"))) {
      if (Printable(word) == word) Print("{}\n", word);  // no shell could type what is escaped
    }
    return 0;
  }
  const std::string shell = arguments.positionals.empty() ? "" : arguments.positionals[0];
  const char* script = shell == "bash" ? kBash : shell == "zsh" ? kZsh : shell == "fish" ? kFish : nullptr;
  if (script == nullptr) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("completion is there for bash, zsh and fish, not \"", Printable(shell), "\""),
                DidYouMean(shell, {"bash", "zsh", "fish"}));
  }
  arguments.RefuseUnread();
  PrintLines(script);
  return 0;
}

}  // namespace

Verb CompletionVerb() {
  Verb verb;
  verb.name = "completion";
  verb.summary = "print the completion script of a shell";
  verb.usage = "bash|zsh|fish";
  verb.examples = {"source <(moka completion bash)", "moka completion fish > ~/.config/fish/completions/moka.fish"};
  verb.options = {{"line", "[TEXT]", "print what TEXT's last word may become (what the scripts call)"}};
  verb.computes = false;
  verb.run = RunCompletion;
  return verb;
}

}  // namespace moka
