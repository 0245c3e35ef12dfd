// Prints the results that a verb was asked for to standard output. Names that files and people have given are shown and
// never obeyed by a terminal, and a result that cannot be written is an error (kIo), at once.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>

#include "core/text.h"

namespace moka {

// A text of several lines, such as a table: control characters other than line ends and tabs are shown as \xNN.
void PrintLines(std::string_view text);

// JSON as text, and a line end; what a terminal would obey is written as \uNNNN, which is the same value.
void PrintJsonText(std::string_view json);
// A value of nlohmann's; indent < 0: in one line. Bytes that are no UTF-8 become U+FFFD: JSON has no others.
template <class Json>
void PrintJson(const Json& json, int indent = 2) {
  PrintJsonText(json.dump(indent, ' ', false, Json::error_handler_t::replace));
}

template <class T>
constexpr bool kIsText = std::is_convertible_v<const T&, std::string_view>;
// How an argument of Print is printed: text in its printable form, the rest as it is.
template <class T>
using Printed = std::conditional_t<kIsText<T>, std::string, std::remove_cvref_t<T>>;

template <class T>
decltype(auto) PrintedOf(const T& value) {
  if constexpr (kIsText<T>) {
    return Printable(value);
  } else {
    return (value);
  }
}

// fmt::print with every text among the arguments in its printable form: a name cannot begin a line of its own.
template <class... Args>
void Print(fmt::format_string<const Printed<Args>&...> format, const Args&... args) {
  const fmt::string_view checked = format;
  const auto print = [&](const auto&... printed) {
    PrintLines(fmt::vformat(checked, fmt::make_format_args(printed...)));
  };
  print(PrintedOf(args)...);
}

}  // namespace moka
