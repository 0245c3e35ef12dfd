// Whatever form an archive or a folder of classes has, each picture is read or said to be left out.
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>

#include "core/text.h"
#include "data/files/packed_file.h"
#include "data/import/import.h"
#include "data/inspect/inspect.h"
#include "tests/data/data_fixture.h"
#include "tests/data/import/tar_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

const std::string kEnd(1024, '\0');

std::string PaxRecord(const std::string& key, const std::string& value) {
  const std::string rest = StrCat(" ", key, "=", value, "\n");
  size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() > length) ++length;
  return StrCat(length, rest);
}

class Archives : public DataTest {
 protected:
  // Names and contents as they are read, and what the reader says besides, without the archive's name.
  std::pair<std::vector<std::string>, std::vector<std::string>> Read(const std::string& bytes) const {
    Write("a.tar", bytes);
    std::vector<std::string> members;
    ArchiveReader reader(At("a.tar"));
    while (reader.Next()) {
      const std::string name = reader.name();
      members.push_back(StrCat(name, ":", reader.Read()));
    }
    std::vector<std::string> warnings = reader.Warnings();
    for (std::string& warning : warnings) warning.erase(0, At("a.tar").string().size() + 2);
    return {members, warnings};
  }
  static std::string HintOf(const std::function<void()>& run) {
    try {
      run();
    } catch (const Error& e) {
      return e.hint();
    }
    return "no error";
  }
  static fs::path Case(const std::string& name) { return fs::path(MOKA_SOURCE_DIR) / "tests/cases" / name; }
};

using Members = std::vector<std::string>;

TEST_F(Archives, NamesOfAnyLengthAndScript) {
  const std::string name = std::string(150, 'd') + "/猫.png";
  EXPECT_EQ(
      Read(TarMember("x", PaxRecord("mtime", "1.5") + PaxRecord("path", name), 'x') + TarMember("short", "hi") + kEnd),
      std::pair(Members{name + ":hi"}, Members()));
  EXPECT_EQ(
      Read(TarMember("x", PaxRecord("path", "one"), 'x') + TarMember("a", "1") + TarMember("b", "2") + kEnd).first,
      (Members{"one:1", "b:2"}))
      << "an extended header is the next member's alone";
  EXPECT_EQ(Read(TarMember("././@LongLink", name + '\0', 'L') + TarMember("././@LongLink", "t", 'K') +
                 TarMember("cut", "hi") + kEnd)
                .first,
            Members{name + ":hi"})
      << "the target of a long link may stand between a name and its member";
  EXPECT_EQ(Read(TarMember("g", PaxRecord("comment", "by git"), 'g') + TarMember("a", "1") + kEnd).first,
            Members{"a:1"});
}

TEST_F(Archives, SizesThatOctalDigitsDoNotHold) {
  std::string member = TarMember("a", "hello");
  member.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\x05", 12));
  member.replace(148, 8, "        ");
  size_t sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<uint8_t>(member[i]);
  member.replace(148, 8, Octal(sum, 6) + std::string("\0 ", 2));
  EXPECT_EQ(Read(member + kEnd).first, Members{"a:hello"});
  EXPECT_EQ(Read(TarMember("x", PaxRecord("size", "3"), 'x') + TarMember("a", "abc") + kEnd).first, Members{"a:abc"});
}

TEST_F(Archives, WhatIsNoFileIsCounted) {
  const auto [members, warnings] = Read(
      TarMember("hard", "", '1') + TarMember("soft", "", '2') + TarMember("pipe", "", '6') + TarMember("d/", "", '5') +
      TarMember("old/", "", '\0') + TarMember("x", PaxRecord("GNU.sparse.major", "1"), 'x') + TarMember("holes", "z") +
      TarMember("odd", "", 'Q') + TarMember("a", "1") + kEnd);
  EXPECT_EQ(members, Members{"a:1"});
  EXPECT_EQ(warnings, (Members{"left out, devices: 1 (pipe)", "left out, links: 2 (hard, soft)",
                               "left out, members of an unknown kind: 1 (odd)", "left out, sparse files: 1 (holes)"}));
  EXPECT_EQ(Read(TarMember("a", "1")).second, Members{"ends without its end mark: it may have been cut"});
  EXPECT_EQ(Read(TarMember("a", "1") + kEnd + TarMember("b", "2") + kEnd).second,
            Members{"what is joined behind its end is not read"});
}

TEST_F(Archives, NamesArePlainAndMetOnce) {
  const auto [members, warnings] =
      Read(TarMember("./a//b.png", "1") + TarMember("/a/./c.png", "2") + TarMember("a/b.png", "3") + kEnd);
  EXPECT_EQ(members, (Members{"a/b.png:1", "a/c.png:2", "a/b.png:3"}));
  EXPECT_EQ(warnings, Members{"met again, members of one name: 1 (a/b.png); each counts"});
  for (const char* name : {"../a.png", "dog/../cat/a.png", "dog/.."}) {
    EXPECT_THAT(ErrorOf([&] { Read(TarMember(name, "1") + kEnd); }),
                testing::HasSubstr(StrCat("member \"", name, "\" has .. in its name")));
  }
}

TEST_F(Archives, WhatHasNoClassesIsSaid) {
  const auto fault = [&](const std::string& bytes) {
    Write("a.tar", bytes);
    const std::string text = ErrorOf([&] { Import(StrCat("tar:", At("a.tar").string()), At("db"), {}); });
    return text.substr(text.find("CLASS/IMAGE; ") + 13);
  };
  EXPECT_EQ(fault(kEnd), "it has no files");
  EXPECT_EQ(fault(TarMember("a.png", "1") + kEnd), "its files lie in no folder");
  EXPECT_EQ(
      fault(TarMember("/data/cat/a.png", "1") + kEnd),
      StrCat("its top folders are: data; tar:", At("a.tar").string(), ",data names that of the classes; if these ",
             "are the classes, a file of their names says so: --classes FILE"));
}

TEST_F(Archives, LiesAreRefused) {
  for (const std::string& text :
       {std::string("12 path=x"), std::string("99 path=x\n"), std::string("x path=y\n"), std::string("-5 p=\n"),
        PaxRecord("size", "-1"), PaxRecord("size", "9999999999999"), PaxRecord("path", std::string(5000, 'n'))}) {
    const auto read = [&] { Read(TarMember("x", text, 'x') + TarMember("a", "1") + kEnd); };
    EXPECT_THAT(ErrorOf(read), testing::HasSubstr("a.tar: ")) << text;
  }
}

// The forms that tar writes, of one folder with long and foreign names: all give the same records.
TEST_F(Archives, EveryFormGivesTheSameRecords) {
  const fs::path photos = Case("nested-class-folders") / "photos";
  const fs::path folder = At("set");
  const std::string deep = std::string(90, 'a') + "/" + std::string(90, 'b');
  for (const std::string& name : {std::string("cat/1.jpg"), "cat/" + deep + "/2.jpg", std::string("dog/3.jpg")}) {
    fs::create_directories((folder / name).parent_path());
    fs::copy_file(photos / "cat/1.jpg", folder / name);
  }
  std::map<std::string, int64_t> wanted = {{"cat", 2}, {"dog", 1}};
  for (const std::string form : {"ustar", "gnu", "oldgnu", "posix"}) {
    const std::string made =
        StrCat("tar --format=", form, " -cf '", At(form).string(), ".tar' -C '", folder.string(), "' .");
    ASSERT_EQ(std::system(made.c_str()), 0) << made;
    for (const std::string ending : {".tar", ".tar.gz"}) {
      const fs::path archive = At(form + ending);
      if (ending == ".tar.gz") Write(form + ending, Gzipped(ReadFile(At(form + ".tar")), At("scratch.gz")));
      fs::remove_all(At("db"));
      const ImportReport report = Import(StrCat("tar:", archive.string()), At("db"), {});
      EXPECT_EQ(report.records, 3) << archive;
      EXPECT_EQ(report.labels, (std::vector<std::string>{"cat", "dog"})) << archive;
      EXPECT_THAT(report.warnings, testing::IsEmpty()) << archive;
    }
  }
}

TEST_F(Archives, CasePaxTar) {
  const ImportReport report = Import(StrCat("tar:", (Case("pax-tar") / "photos.tar").string(), ",train"), At("db"), {});
  EXPECT_EQ(report.records, 5);
  EXPECT_EQ(report.labels, (std::vector<std::string>{"cat", "dog", "猫"}));
}

TEST_F(Archives, CaseNestedClassFolders) {
  const ImportReport report = Import((Case("nested-class-folders") / "photos").string(), At("db"), {});
  EXPECT_EQ(report.records, 3);
  EXPECT_EQ(report.labels, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_THAT(report.warnings, testing::IsEmpty());
}

TEST_F(Archives, WhatAFolderHasBesideItsClassesIsSaid) {
  const fs::path folder = At("set");
  const std::string picture = ReadFile(Case("nested-class-folders") / "photos/cat/1.jpg");
  for (const char* name : {"cat/a.JPG", "cat/deep/b.jpeg", "dog/c.jpg", "stray.jpg", "cat/notes.txt", "cat/.DS_Store",
                           "Thumbs.db", "empty/x.csv"}) {
    fs::create_directories((folder / name).parent_path());
    Write(StrCat("set/", name), picture);
  }
  fs::create_directory_symlink("..", folder / "cat" / "loop");
  const ImportReport report = Import(folder.string(), At("db"), {});
  EXPECT_EQ(report.records, 3);
  EXPECT_EQ(report.labels, (std::vector<std::string>{"cat", "dog"}));
  const std::string warnings = Join(report.warnings, "\n");
  for (const char* said :
       {"pictures that lie in no class's folder: 1 (stray.jpg)", "files that are no pictures by their names",
        "folders without a picture, which are no classes: 1 (empty)", "links to folders of the set itself"}) {
    EXPECT_NE(warnings.find(said), std::string::npos) << said << " in\n" << warnings;
  }
  EXPECT_EQ(warnings.find("DS_Store"), std::string::npos);
  EXPECT_EQ(warnings.find("Thumbs"), std::string::npos);
}

// A folder that notebooks and programs keep beside pictures is neither a class nor a picture, in folders and archives
// alike.
TEST_F(Archives, HiddenFoldersAreNoClasses) {
  const std::string picture = ReadFile(Case("nested-class-folders") / "photos/cat/1.jpg");
  std::string archive;
  for (const std::string name :
       {".ipynb_checkpoints/1.jpg", "cat/1.jpg", "cat/._1.jpg", "dog/.cache/2.jpg", "dog/.cache/3.jpg", "dog/2.jpg"}) {
    Write("set/" + name, picture);
    archive += TarMember(name, picture);
  }
  Write("set.tar", archive + kEnd);
  for (const std::string set : {"set", "set.tar"}) {
    fs::remove_all(At("db"));
    const ImportReport report = Import(At(set).string(), At("db"), {});
    EXPECT_EQ(report.records, 2) << set;
    EXPECT_EQ(report.labels, (std::vector<std::string>{"cat", "dog"})) << set;
    ASSERT_EQ(report.warnings.size(), 1U) << set;
    EXPECT_THAT(report.warnings[0], testing::HasSubstr("left out, hidden folders, which are not looked into")) << set;
    EXPECT_THAT(report.warnings[0], testing::HasSubstr("looked into: 2 (")) << set;
  }
}

// Neither train and test nor the one folder that holds the classes are classes.
TEST_F(Archives, FoldersThatHoldClassesAreNone) {
  const std::string picture = ReadFile(Case("nested-class-folders") / "photos/cat/1.jpg");
  for (const std::string set : {"a/train/cat/1.jpg", "a/test/cat/2.jpg", "b/photos/cat/1.jpg", "b/photos/dog/2.jpg",
                                "c/cat/one/1.jpg", "c/dog/two/2.jpg"}) {
    Write(set, picture);
  }
  EXPECT_THAT(ErrorOf([&] { Import(At("a").string(), At("none"), {}); }),
              testing::HasSubstr("its folders (test, train) hold folders of pictures and no pictures"));
  EXPECT_THAT(ErrorOf([&] { Import(At("b").string(), At("none"), {}); }), testing::HasSubstr("its folders (photos)"));
  EXPECT_EQ(Import(At("c").string(), At("db"), {}).labels, (std::vector<std::string>{"cat", "dog"}));
}

// Kaggle's layout has test pictures in no class; a hint leads to the folder of the classes and no further.
TEST_F(Archives, PartsOfASetAreNoClassesWhereverTheyLie) {
  const std::string picture = ReadFile(Case("nested-class-folders") / "photos/cat/1.jpg");
  std::string parts;
  std::string kaggle;
  for (const char* name : {"ds/test/cat/1.jpg", "ds/train/cat/1.jpg", "ds/train/dog/2.jpg", "ds/val/dog/2.jpg"}) {
    parts += TarMember(name, picture);
    Write(name, picture);
  }
  for (const char* name : {"Test/7.jpg", "Train/cat/1.jpg", "Train/dog/2.jpg"}) {
    kaggle += TarMember(name, picture);
    Write(StrCat("kag/", name), picture);
  }
  Write("parts.tar", parts + TarMember("__MACOSX/ds/._test", "x") + kEnd);
  Write("kag.tar", kaggle + kEnd);
  const std::string tar = At("parts.tar").string();
  for (const std::string& source : {tar, StrCat("tar:", tar, ",ds")}) {
    EXPECT_THAT(HintOf([&] { Import(source, At("none"), {}); }),
                testing::StartsWith(StrCat("tar:", tar, ",ds/train names that of the classes")))
        << source;
  }
  EXPECT_EQ(Import(StrCat("tar:", tar, ",ds/train"), At("db"), {}).labels, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_THAT(HintOf([&] { Import(At("kag.tar").string(), At("none"), {}); }), testing::HasSubstr(",Train names that"));
  EXPECT_THAT(ErrorOf([&] { Import(At("kag").string(), At("none"), {}); }),
              testing::HasSubstr("its folders (Test, Train) are called as the parts of a set are"));
  EXPECT_THAT(HintOf([&] { Import(At("kag").string(), At("none"), {}); }), testing::HasSubstr("kag/Train; if these"));
  // Vehicles, say.
  Write("classes.txt", "Train\nTest\n");
  EXPECT_EQ(Import(At("kag").string(), At("vehicles"), {.classes = At("classes.txt")}).labels,
            (std::vector<std::string>{"Train", "Test"}));
}

TEST_F(Archives, NamesOfClassesAreLines) {
  const std::string picture = ReadFile(Case("nested-class-folders") / "photos/cat/1.jpg");
  for (const auto& [name, fault] : std::map<std::string, std::string>{
           {"a\nb", "has a control character"}, {"d ", "has a blank at an end"}, {" d", "has a blank at an end"}}) {
    fs::remove_all(At("set"));
    Write(StrCat("set/", name, "/1.jpg"), picture);
    Write("set/d/1.jpg", picture);
    Write("set.tar", TarMember(StrCat(name, "/1.jpg"), picture) + TarMember("d/1.jpg", picture) + kEnd);
    for (const char* set : {"set", "set.tar"}) {
      EXPECT_THAT(ErrorOf([&] { Import(At(set).string(), At("none"), {}); }), testing::HasSubstr(fault)) << set << name;
    }
  }
}

TEST_F(Archives, AListOfClassesNumbersThem) {
  const std::string picture = ReadFile(Case("nested-class-folders") / "photos/cat/1.jpg");
  Write("train/ant/1.jpg", picture);
  Write("train/cat/1.jpg", picture);
  Write("train/dog/1.jpg", picture);
  Write("test/dog/2.jpg", picture);
  Write("test/cat/1.jpg", picture);
  Write("test.tar", TarMember("dog/2.jpg", picture) + TarMember("cat/1.jpg", picture) + kEnd);
  Import(At("train").string(), At("db"), {});
  for (const char* set : {"test", "test.tar"}) {
    fs::remove_all(At("tested"));
    const ImportReport report = Import(At(set).string(), At("tested"), {.classes = At("db")});
    EXPECT_EQ(report.labels, (std::vector<std::string>{"ant", "cat", "dog"})) << set;
    EXPECT_EQ(ReadFile(At("tested/labels.txt")), "ant\ncat\ndog\n");
    EXPECT_EQ(InspectLmdb(At("tested")).labels, (std::map<int64_t, int64_t>{{1, 1}, {2, 1}})) << set;
    EXPECT_EQ(report.classes_met, 2) << set;
    EXPECT_THAT(report.warnings, testing::ElementsAre("2 of 3 classes have records; without records, classes: 1 (ant)"))
        << set;
  }
  Write("names.txt", "dogs\ncat\n");
  const auto import = [&](const std::string& source, const char* classes) {
    Import(source, At("none"), {.classes = At(classes)});
  };
  EXPECT_THAT(ErrorOf([&] { import(At("test").string(), "names.txt"); }),
              testing::HasSubstr("the folder \"dog\" is none of the 2 classes of "));
  EXPECT_THAT(HintOf([&] { import(At("test").string(), "names.txt"); }), testing::HasSubstr("dogs"));
  EXPECT_THAT(ErrorOf([&] { import(At("test").string(), "test"); }), testing::HasSubstr("has no labels.txt"));
  Write("list.txt", "test/dog/2.jpg 1\n");
  EXPECT_THAT(ErrorOf([&] { import("list:" + At("list.txt").string(), "db"); }),
              testing::HasSubstr("--classes numbers the classes of a folder, a tar or a zip, and not of list"));
  EXPECT_THAT(ErrorOf([&] { import(At("list.txt").string(), "db"); }), testing::HasSubstr("and not of list"));
}

TEST_F(Archives, ClassesAreCountedByTheirRecords) {
  const std::string picture = ReadFile(Case("nested-class-folders") / "photos/cat/1.jpg");
  for (const char* name : {"set/a/1.jpg", "set/a/2.jpg", "set/b/1.jpg", "one/a/1.jpg"}) Write(name, picture);
  const ImportReport cut = Import(At("set").string(), At("cut"), {.limit = 2});
  EXPECT_EQ(cut.classes_met, 1);
  EXPECT_THAT(cut.warnings, testing::ElementsAre("1 of 2 classes have records; without records, classes: 1 (b)"));
  EXPECT_EQ(Import(At("set").string(), At("all"), {}).classes_met, 2);
  EXPECT_THAT(Import(At("one").string(), At("single"), {}).warnings,
              testing::ElementsAre("there is one class, \"a\": a classifier learns nothing from it"));
}

TEST_F(Archives, CaseCocoMixedOutlines) {
  const fs::path folder = Case("coco-mixed-outlines");
  const ImportReport report =
      Import(StrCat("coco:", (folder / "boxes.json").string(), ",", (folder / "pictures").string()), At("db"), {});
  EXPECT_EQ(report.records, 1);
  EXPECT_NE(Join(report.warnings, "\n").find("1 box has no outline, as others have: the whole rectangle is the mask"),
            std::string::npos)
      << Join(report.warnings, "\n");
}

}  // namespace
}  // namespace moka
