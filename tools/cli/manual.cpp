// Writes what man(7) reads: lines that begin with a dot are requests, and a backslash begins an escape, so each text of
// a row is escaped on its way in.
#include "tools/cli/manual.h"

#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/version.h"

namespace moka {
namespace {

// A text that is shown as it is: signs that the formatter takes for typographic ones become themselves, and no line of
// it is a request.
std::string Escaped(std::string_view text) {
  std::string escaped;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) escaped += "\\&";
    begins_line = c == '\n';
    switch (c) {
      case '\\': escaped += "\\e"; break;
      case '-': escaped += "\\-"; break;
      case '\'': escaped += "\\(aq"; break;
      case '`': escaped += "\\(ga"; break;
      case '^': escaped += "\\(ha"; break;
      case '~': escaped += "\\(ti"; break;
      case '"': escaped += "\\(dq"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string Bold(std::string_view text) { return StrCat("\\fB", Escaped(text), "\\fR"); }
std::string Italic(std::string_view text) { return StrCat("\\fI", Escaped(text), "\\fR"); }

// A term with what it means below it.
std::string Item(const std::string& term, std::string_view meaning) {
  return StrCat(".TP\n", term, "\n", Escaped(meaning), "\n");
}

std::string Lines(const std::vector<std::string>& lines) {
  return StrCat(".RS 4\n.nf\n", Escaped(Join(lines, "\n")), "\n.fi\n.RE\n");
}

std::string OptionItems(const std::vector<OptionSpec>& options) {
  std::string text;
  for (const OptionSpec& option : options) {
    if (option.doc.empty()) continue;
    const std::string name = Bold(StrCat(option.name.size() == 1 ? "-" : "--", option.name));
    text += Item(option.value.empty() ? name : StrCat(name, " ", Italic(option.value)), option.doc);
  }
  return text;
}

void AddVerb(const Verb& verb, const std::string& path, std::string& page) {
  page += StrCat(".SS ", Escaped(StrCat("moka ", path)), "\n", Escaped(verb.summary), "\n.PP\n");
  page += StrCat(Bold(StrCat("moka ", path)), " ", Escaped(verb.usage), "\n");
  if (!verb.examples.empty()) page += ".PP\n" + Lines(verb.examples);
  for (const auto& [form, meaning] : verb.operands) page += Item(Escaped(form), meaning);
  page += OptionItems(verb.options);
  for (const Verb& subverb : verb.subverbs) AddVerb(subverb, StrCat(path, " ", subverb.name), page);
}

}  // namespace

std::string ManualText() {
  const std::string overview = OverviewText();
  const std::string title = overview.substr(0, overview.find('\n'));
  const size_t colon = title.find(": ");
  std::string page = StrCat(".TH MOKA 1 \"\" \"moka ", Version(), "\" \"User Commands\"\n.SH NAME\n",
                            title.substr(0, colon), " \\- ", Escaped(title.substr(colon + 2)), "\n.SH SYNOPSIS\n");
  page += StrCat(Bold("moka"), " ", Italic("VERB"), " [", Italic("argument"), " ...] [", Italic("key"), "=",
                 Italic("value"), " ...] [", Bold("--flag"), " ...]\n.SH DESCRIPTION\n");
  page += ".nf\n" + Escaped(overview.substr(overview.find_first_not_of('\n', title.size()))) + ".fi\n";
  page += ".SH OPTIONS OF EVERY VERB\n" + OptionItems(CommonOptions());
  page += ".SH VERBS\n";
  for (const Verb& verb : AllVerbs()) AddVerb(verb, verb.name, page);
  page += StrCat(".SH EXIT STATUS\n",
                 Escaped("0 where all was done, 75 where a training was interrupted and has a "
                         "complete checkpoint to go on from; others tell kinds of errors, which "
                         "standard error says in words."),
                 "\n");
  return page;
}

}  // namespace moka
