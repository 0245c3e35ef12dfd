// The folders of a set of pictures that are its classes, and the classes' numbers: in alphabetical order, or as a given
// list of classes has them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

class ClassFolders {
 public:
  // `classes`: a file of names, one a line, or a database that has them; empty: the folders that have pictures are the
  // classes. Errors: those of ReadClassList.
  explicit ClassFolders(const std::filesystem::path& classes);

  // A picture CLASS/IMAGE or CLASS/FOLDERS/IMAGE.
  void Add(std::string_view name);
  // After the last picture. Errors: kBadData naming `place` for a name that cannot be a class's, and for a folder that
  // is none of the given classes.
  void Number(const std::string& place);

  // Whether the folders are no classes: those of parts of a set (train, test), or the one folder that holds them. Given
  // classes are what they are.
  bool AreNone() const;
  // Whether a picture lies in a class's folder itself.
  bool HavePictures() const { return has_pictures_; }
  // The folder below which the classes seem to be; empty where none does.
  std::string HolderOfClasses() const;
  // Returns the folders' names, in order.
  std::vector<std::string> names() const { return {folders_.begin(), folders_.end()}; }

  // The classes in the order of their numbers. Requires: Number() was called.
  const std::vector<std::string>& labels() const { return labels_; }
  int32_t LabelOf(std::string_view name) const { return numbers_.find(name)->second; }
  // Returns `before`, the checksum so far, continued with the given classes.
  uint32_t Checksum(uint32_t before) const;
  // About the classes, for the import's report.
  std::vector<std::string> Warnings() const;

 private:
  std::string classes_;  // where they are given
  std::vector<std::string> labels_;
  std::map<std::string, int32_t, std::less<>> numbers_;
  std::set<std::string, std::less<>> folders_;   // of classes
  std::set<std::string, std::less<>> pictured_;  // all folders that hold pictures
  bool has_pictures_ = false;
};

}  // namespace moka
