// Values are asked for by at(), which throws where an answer is not of its task's form.
#include "tools/infer/shown_answers.h"

#include "core/text.h"
#include "tools/cli/print.h"

namespace moka {

std::string TextAt(const PictureJson& object, const char* key) { return object.at(key).get<std::string>(); }

double NumberAt(const PictureJson& object, const char* key) { return object.at(key).get<double>(); }

std::string WrittenText(const PictureJson& answer, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (answer.contains(key)) return StrCat(" -> ", TextAt(answer, key));
  }
  return {};
}

void PrintBox(const PictureJson& found) {
  const PictureJson& box = found.at("box");
  const auto side = [&](size_t i) { return box.at(i).get<double>(); };
  Print("  {:.4f} - \"{}\" {:.0f},{:.0f} to {:.0f},{:.0f}\n", NumberAt(found, "score"), TextAt(found, "label"), side(0),
        side(1), side(2), side(3));
}

}  // namespace moka
