// Archives that other programs than gzip packed, and zip archives: read to the last byte, or refused with a reason.
#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>
#include <zip.h>

#include "core/rng.h"
#include "core/text.h"
#include "data/files/packed_file.h"
#include "data/import/import.h"
#include "tests/data/data_fixture.h"
#include "tests/data/import/tar_fixture.h"

namespace moka {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

class PackedArchives : public DataTest {
 protected:
  PackedArchives() {
    Image image;
    image.Resize(3, 2, 3);
    picture_ = EncodePng(image);
  }

  // Bytes packed by libarchive's filter.
  std::string Packed(const std::string& bytes, int (*add_filter)(archive*)) const {
    archive* const file = archive_write_new();
    archive_write_set_format_raw(file);
    add_filter(file);
    archive_write_open_filename(file, At("packed").c_str());
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_write_header(file, entry);
    archive_write_data(file, bytes.data(), bytes.size());
    archive_entry_free(entry);
    archive_write_free(file);
    return ReadFile(At("packed"));
  }

  struct ZipEntry {
    std::string name;
    std::string bytes;
    bool is_link = false;
    bool is_encrypted = false;
  };
  void WriteZip(const std::string& name, const std::vector<ZipEntry>& entries) const {
    int code = 0;
    zip_t* const zip = zip_open(At(name).c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
    for (const ZipEntry& entry : entries) {
      zip_source_t* const source = zip_source_buffer(zip, entry.bytes.data(), entry.bytes.size(), 0);
      const auto index = static_cast<zip_uint64_t>(zip_file_add(zip, entry.name.c_str(), source, ZIP_FL_ENC_UTF_8));
      if (entry.is_link) zip_file_set_external_attributes(zip, index, 0, ZIP_OPSYS_UNIX, (S_IFLNK | 0777U) << 16U);
      if (entry.is_encrypted) zip_file_set_encryption(zip, index, ZIP_EM_AES_256, "secret");
    }
    ASSERT_EQ(zip_close(zip), 0);
  }

  static std::vector<std::string> MembersOf(const std::filesystem::path& path) {
    std::vector<std::string> members;
    for (ArchiveReader reader(path); reader.Next();) {
      const std::string name = reader.name();
      members.push_back(StrCat(name, ":", reader.Read()));
    }
    return members;
  }

  std::string picture_;
};

constexpr std::pair<const char*, int (*)(archive*)> kFilters[] = {{"xz", archive_write_add_filter_xz},
                                                                  {"bz2", archive_write_add_filter_bzip2},
                                                                  {"zst", archive_write_add_filter_zstd}};

TEST_F(PackedArchives, TarsOfEveryPackerAreImported) {
  const std::string end(1024, '\0');
  std::string big(300000, '\0');
  RandomStream random(3, 4);
  for (char& c : big) c = static_cast<char>(random.Bits());
  const std::string tar =
      TarMember("cat/猫.png", picture_) + TarMember("dog/b.png", picture_) + TarMember("note.txt", big) + end;
  for (const auto& [ending, filter] : kFilters) {
    const std::string name = StrCat("t.tar.", ending);
    const std::string packed = Packed(tar, filter);
    Write(name, packed);
    const std::vector<std::string> members = MembersOf(At(name));
    ASSERT_EQ(members.size(), 3U) << ending;
    EXPECT_EQ(members[0], StrCat("cat/猫.png:", picture_));
    EXPECT_EQ(members[2], StrCat("note.txt:", big));
    const ImportReport report = Import(At(name).string(), At(StrCat("db", ending)), {});
    EXPECT_EQ(report.records, 2);
    EXPECT_THAT(report.labels, testing::ElementsAre("cat", "dog"));
    for (const size_t cut : {packed.size() / 2, packed.size() - 9}) {
      Write(name, packed.substr(0, cut));
      EXPECT_THAT(ErrorOf([&] { MembersOf(At(name)); }),
                  AnyOf(HasSubstr("damaged or truncated"), HasSubstr("ends inside"), HasSubstr("not a tar archive")))
          << ending << " cut at " << cut;
    }
    if (ending == std::string("zst")) continue;  // libarchive writes it without a checksum
    std::string damaged = packed;
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
    Write(name, damaged);
    EXPECT_THAT(ErrorOf([&] { MembersOf(At(name)); }), StartsWith(At(name).string())) << ending;
  }
}

TEST_F(PackedArchives, ZipsAreReadAndWhatIsNoFileIsCounted) {
  WriteZip("t.zip", {{"flowers/rose/a.png", picture_},
                     {"flowers/rosé/b.png", picture_},
                     {"flowers/rose/link.png", "a.png", true},
                     {"flowers/rose/secret.png", picture_, false, true},
                     {"flowers/rose/c.heic", "x"}});
  const ImportReport report = Import(StrCat("tar:", At("t.zip").string(), ",flowers"), At("db"), {});
  EXPECT_EQ(report.records, 2);
  EXPECT_THAT(report.labels, testing::ElementsAre("rose", "rosé"));
  EXPECT_THAT(Join(report.warnings, "\n"),
              testing::AllOf(HasSubstr("left out, HEIC files, a format that is not read: 1 (rose/c.heic)"),
                             HasSubstr("left out, encrypted members: 1 (flowers/rose/secret.png)"),
                             HasSubstr("left out, links: 1 (flowers/rose/link.png)")));
  const std::string zip = ReadFile(At("t.zip"));
  Write("cut.zip", zip.substr(0, zip.size() / 2));
  EXPECT_THAT(ErrorOf([&] { MembersOf(At("cut.zip")); }), HasSubstr("a damaged or truncated zip archive"));
  WriteZip("big.zip", {{"a/x.png", std::string(100000, 'x')}});
  std::string damaged = ReadFile(At("big.zip"));
  damaged[60] = static_cast<char>(damaged[60] ^ 0x7F);
  Write("big.zip", damaged);
  EXPECT_THAT(ErrorOf([&] { MembersOf(At("big.zip")); }), HasSubstr("member \"a/x.png\" of the zip archive"));
}

TEST_F(PackedArchives, OthersAreNamed) {
  Write("a.tar", std::string("7z\xBC\xAF\x27\x1C") + std::string(600, 'x'));
  EXPECT_THAT(ErrorOf([&] { MembersOf(At("a.tar")); }), HasSubstr("not a tar archive, but a 7z archive"));
  Write("a.tar", "Rar!\x1A\x07" + std::string(600, 'x'));
  EXPECT_THAT(ErrorOf([&] { MembersOf(At("a.tar")); }), HasSubstr("but a RAR archive"));
}

TEST_F(PackedArchives, TextsAndNumbersMayBePackedToo) {
  for (const auto& [ending, filter] : kFilters) {
    Write("bytes", Packed("hello", filter));
    PackedFile file(At("bytes"));
    std::string bytes(10, '\0');
    ASSERT_EQ(file.Read(bytes.data(), 10), 5) << ending;
    EXPECT_EQ(bytes.substr(0, 5), "hello");
    EXPECT_EQ(file.offset(), 5);
    EXPECT_FALSE(file.is_plain());
  }
}

}  // namespace
}  // namespace moka
