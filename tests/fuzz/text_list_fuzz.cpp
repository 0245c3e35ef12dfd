// Lists and tables in text. The first byte says what: pictures with a label, with two labels, words, windows, a table.
#include "data/files/text_table.h"
#include "data/layer_fields.h"
#include "data/pipeline/window_maker.h"
#include "data/records/record_source.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_file.h"

namespace moka {
namespace {

void ReadNumbers(const Table& table) {
  for (size_t row = 0; row < table.rows.size(); ++row) {
    for (size_t column = 0; column < table.columns(); ++column) NumberAt(table, row, column);
  }
}

void ReadWindows(const std::filesystem::path& list) {
  WindowOptions options;
  options.source = list;
  options.batch = 4;
  options.crop_size = 8;
  const WindowMaker maker(options);
  Require(maker.DataShape(0, *std::make_unique<SampleScratch>()).Count() > 0, "windows have a shape");
}

}  // namespace

FuzzTarget TextListFuzz() {
  return {"text_list", [](std::string_view text) {
            if (text.empty()) return;
            static InputFile file("list.txt");
            const std::filesystem::path& list = file.Write(text.substr(1));
            switch (text.front()) {
              case '1': Require(!ReadImageList(list).empty(), "a list has lines"); return;
              case '2':
                for (const ListedImage& image : ReadImageList(list, 2)) {
                  Require(image.labels.size() == 2, "a line has its labels");
                }
                return;
              case 'l': ReadListLines(list); return;
              case 'w': ReadWindows(list); return;
              default: ReadNumbers(ReadTable(list));
            }
          }};
}

}  // namespace moka
