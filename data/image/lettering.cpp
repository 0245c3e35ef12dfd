// FreeType draws what fontconfig finds, letter by letter, with one lock around both libraries. A letter that no font
// has becomes a box.
#include "data/image/lettering.h"

#include <fontconfig/fontconfig.h>
#include <ft2build.h>
#include FT_FREETYPE_H

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/utf8.h"

namespace moka {
namespace {

constexpr int64_t kFixed = 64;  // FreeType's units of a pixel

struct CloseLibrary {
  void operator()(FT_Library library) const { FT_Done_FreeType(library); }
};
struct CloseFace {
  void operator()(FT_Face face) const { FT_Done_Face(face); }
};
struct CloseConfig {
  void operator()(FcConfig* config) const { FcConfigDestroy(config); }
};
struct ClosePattern {
  void operator()(FcPattern* pattern) const { FcPatternDestroy(pattern); }
};
struct CloseSet {
  void operator()(FcCharSet* set) const { FcCharSetDestroy(set); }
};
using Face = std::unique_ptr<FT_FaceRec_, CloseFace>;

// The fonts that were needed so far, for the whole process; a thread at a time.
class Fonts {
 public:
  static Fonts& Get() {
    static Fonts fonts;
    return fonts;
  }

  // Calls draw(face, glyph) for each character in order: no face for one that no font has.
  template <class Draw>
  void Visit(std::string_view text, int height, Draw&& draw) {
    const std::scoped_lock lock(mutex_);
    for (size_t at = 0; at < text.size();) {
      const Character c = CharacterAt(text, at);
      at += std::max<size_t>(c.bytes, 1);
      constexpr char32_t kNoCharacter = 0xFFFD;
      const FT_Face face = FaceFor(c.bytes == 0 ? kNoCharacter : c.code);
      const bool is_loaded = face != nullptr && FT_Set_Pixel_Sizes(face, 0, static_cast<unsigned>(height)) == 0 &&
                             FT_Load_Char(face, c.bytes == 0 ? kNoCharacter : c.code, FT_LOAD_RENDER) == 0;
      draw(is_loaded ? face->glyph : nullptr);
    }
  }

 private:
  Fonts() {
    FT_Library library = nullptr;
    if (FT_Init_FreeType(&library) == 0) library_.reset(library);
    config_.reset(FcInitLoadConfigAndFonts());
  }

  // Null where there is none.
  FT_Face FaceFor(char32_t code) {
    const auto found = face_of_.find(code);
    if (found != face_of_.end()) return found->second;
    const FT_Face face = FindFace(code);
    face_of_[code] = face;
    if (face == nullptr && !std::exchange(has_told_, true)) {
      std::string letter;
      AppendCharacter(code, letter);
      LogWarning(
          fmt::format("no font of this machine has the letter {} (U+{:04X}): a box stands for it and for others "
                      "that are missing (fonts-dejavu-core and fonts-wqy-microhei have most)",
                      Printable(letter), static_cast<uint32_t>(code)));
    }
    return face;
  }

  FT_Face FindFace(char32_t code) {
    if (library_ == nullptr || config_ == nullptr) return nullptr;
    const std::unique_ptr<FcCharSet, CloseSet> wanted(FcCharSetCreate());
    const std::unique_ptr<FcPattern, ClosePattern> pattern(FcPatternCreate());
    if (wanted == nullptr || pattern == nullptr) return nullptr;
    FcCharSetAddChar(wanted.get(), code);
    FcPatternAddString(pattern.get(), FC_FAMILY, reinterpret_cast<const FcChar8*>("sans"));
    FcPatternAddCharSet(pattern.get(), FC_CHARSET, wanted.get());
    FcPatternAddBool(pattern.get(), FC_SCALABLE, FcTrue);
    FcConfigSubstitute(config_.get(), pattern.get(), FcMatchPattern);
    FcDefaultSubstitute(pattern.get());
    FcResult result = FcResultNoMatch;
    const std::unique_ptr<FcPattern, ClosePattern> match(FcFontMatch(config_.get(), pattern.get(), &result));
    FcCharSet* has = nullptr;
    FcChar8* file = nullptr;
    int index = 0;
    if (match == nullptr || FcPatternGetCharSet(match.get(), FC_CHARSET, 0, &has) != FcResultMatch ||
        FcCharSetHasChar(has, code) == FcFalse || FcPatternGetString(match.get(), FC_FILE, 0, &file) != FcResultMatch) {
      return nullptr;
    }
    FcPatternGetInteger(match.get(), FC_INDEX, 0, &index);
    return Open(reinterpret_cast<const char*>(file), index);
  }

  FT_Face Open(const std::string& file, int index) {
    const auto [found, is_new] = faces_.try_emplace({file, index});
    if (is_new) {
      FT_Face face = nullptr;
      if (FT_New_Face(library_.get(), file.c_str(), index, &face) == 0) found->second.reset(face);
    }
    return found->second.get();
  }

  std::mutex mutex_;
  std::unique_ptr<FT_LibraryRec_, CloseLibrary> library_;
  std::unique_ptr<FcConfig, CloseConfig> config_;
  std::map<std::pair<std::string, int>, Face> faces_;
  std::map<char32_t, FT_Face> face_of_;
  bool has_told_ = false;
};

// Where a letter is missing: a box with a cross, half as wide as it is high.
int64_t MissingWidth(int height) { return std::max<int64_t>(4, height / 2); }

void Blend(int64_t x, int64_t y, Color color, int cover, Image& image) {
  if (x < 0 || y < 0 || x >= image.width || y >= image.height) return;
  uint8_t* const pixel = image.pixels.data() + (y * image.width + x) * 3;
  const int values[] = {color.blue, color.green, color.red};
  for (int c = 0; c < 3; ++c)
    pixel[c] = static_cast<uint8_t>((pixel[c] * (255 - cover) + values[c] * cover + 127) / 255);
}

void DrawLetter(const FT_GlyphSlotRec_& glyph, int64_t x, int64_t y, Color color, Image& image) {
  const FT_Bitmap& bitmap = glyph.bitmap;
  if (bitmap.pixel_mode != FT_PIXEL_MODE_GRAY) return;
  for (unsigned row = 0; row < bitmap.rows; ++row) {
    const uint8_t* from = bitmap.buffer + static_cast<ptrdiff_t>(row) * bitmap.pitch;
    for (unsigned column = 0; column < bitmap.width; ++column) {
      Blend(x + glyph.bitmap_left + column, y - glyph.bitmap_top + row, color, from[column], image);
    }
  }
}

void DrawMissing(int64_t x, int64_t y, int height, Color color, Image& image) {
  constexpr int kFull = 255;
  const int64_t width = MissingWidth(height) - 2;
  const int64_t top = y - height * 3 / 4;
  for (int64_t row = top; row < y; ++row) {
    const int64_t across = (row - top) * (width - 1) / std::max<int64_t>(1, y - 1 - top);
    for (const int64_t column : {int64_t{0}, width - 1, across, width - 1 - across}) {
      Blend(x + column, row, color, kFull, image);
    }
  }
  for (int64_t column = 0; column < width; ++column) {
    Blend(x + column, top, color, kFull, image);
    Blend(x + column, y - 1, color, kFull, image);
  }
}

int64_t AdvanceOf(const FT_GlyphSlotRec_* glyph, int height) {
  return glyph == nullptr ? MissingWidth(height) : (int64_t{glyph->advance.x} + kFixed / 2) / kFixed;
}

}  // namespace

LetterSize SizeOfLetters(std::string_view text, int height) {
  LetterSize size{.width = 0, .above = height * 4 / 5, .below = height / 4};
  Fonts::Get().Visit(text, height, [&](const FT_GlyphSlotRec_* glyph) { size.width += AdvanceOf(glyph, height); });
  return size;
}

void DrawLetters(std::string_view text, int64_t x, int64_t y, int height, Color color, Image& image) {
  Require(image.channels == 3, "letters are drawn on pictures of three channels");
  Fonts::Get().Visit(text, height, [&](const FT_GlyphSlotRec_* glyph) {
    if (glyph == nullptr) {
      DrawMissing(x, y, height, color, image);
    } else {
      DrawLetter(*glyph, x, y, color, image);
    }
    x += AdvanceOf(glyph, height);
  });
}

}  // namespace moka
