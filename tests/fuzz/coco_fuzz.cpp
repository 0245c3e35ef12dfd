// COCO's annotations: what is read, and the pixels of objects in small pictures.
#include "data/labels/coco_file.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_file.h"

namespace moka {
namespace {

void CheckPixels(const CocoAnnotation& object, const PictureSize& size) {
  constexpr int64_t kMostSide = 64;
  if (size.width < 1 || size.height < 1 || size.width > kMostSide || size.height > kMostSide) return;
  try {
    const Image mask = MaskOf(PixelsOf(object, size), size.width, size.height);
    Require(mask.pixels.size() == static_cast<size_t>(size.width * size.height), "a mask has the picture's size");
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
  }
}

}  // namespace

FuzzTarget CocoFuzz() {
  return {"coco", [](std::string_view text) {
            static InputFile file("instances.json");
            const CocoFile coco = ReadCocoFile(file.Write(text), [] {});
            for (const CocoPicture& picture : coco.pictures) {
              for (const CocoAnnotation& object : picture.objects) {
                const bool has_name = object.label > 0 && static_cast<size_t>(object.label) < coco.classes.size();
                Require(has_name, "every object is of a listed class");
                CheckPixels(object, picture.size);
              }
            }
          }};
}

}  // namespace moka
