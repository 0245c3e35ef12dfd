// Functions and types of a C++ source as the structure tests measure them, found by its tokens: no types are known, but
// braces, parentheses and a statement's first words tell what a brace opens.
#pragma once

#include <string>
#include <vector>

namespace moka::testing {

struct ScannedFunction {
  std::string name;    // as written: "Net::Forward"
  int first_line = 0;  // counted from 1: of its signature, without template parameters
  int lines = 0;       // to its closing brace, lambdas and tables within included
};

struct ScannedType {
  std::string name;  // within the types around it: "Outer::Inner"
  int line = 0;
  std::vector<std::string> public_methods;  // one an overload; no constructors, destructors, operators, friends, fields
};

struct ScannedCall {
  std::string name;
  int line = 0;
};

struct ScannedSource {
  std::vector<ScannedFunction> functions;  // those with a body; a function within another is part of it
  std::vector<ScannedType> types;          // classes, structs and unions that are no part of a function
  std::vector<std::string> declared;       // functions of namespaces, with or without a body, as written
  std::vector<std::string> members;        // functions of types, of all of their sections, and their friends
  std::vector<ScannedCall> calls;          // words before a parenthesis that belong to no object, type or namespace
};

ScannedSource ScanSource(const std::vector<std::string>& lines);

}  // namespace moka::testing
