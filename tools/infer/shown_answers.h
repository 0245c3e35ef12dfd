// Answers as lines for people, from their JSON, which may have come from this program or from a server.
#pragma once

#include <initializer_list>
#include <string>

#include "tools/infer/task_answers.h"

namespace moka {

// Values of an object. Errors: nlohmann's for one that is missing or of another kind.
std::string TextAt(const PictureJson& object, const char* key);
double NumberAt(const PictureJson& object, const char* key);

// " -> FILE" for the first of the keys that names a file which was written; empty where none does.
std::string WrittenText(const PictureJson& answer, std::initializer_list<const char*> keys);
// The line of an object with label, score and box.
void PrintBox(const PictureJson& found);

}  // namespace moka
