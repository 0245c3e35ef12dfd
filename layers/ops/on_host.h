// Why GPUs have no kernel for an op, where several ops have the same reason (OpDef::on_host).
#pragma once

namespace moka::on_host {

inline constexpr const char* kSuppresses = "it sorts and suppresses one box after another";
inline constexpr const char* kMatches = "it matches boxes with objects one after another";
inline constexpr const char* kChooses = "it chooses rows one after another, by numbers drawn in order";
inline constexpr const char* kEvaluates = "it counts a few boxes for a report";
inline constexpr const char* kCells = "it goes through the objects of a picture one after another";
inline constexpr const char* kDecodes = "it goes through a sequence one step after another";
inline constexpr const char* kLattice = "it builds a hash table of lattice points";
inline constexpr const char* kAugments = "it draws and changes a picture at a time, as the data layers do";
inline constexpr const char* kMasks = "it works on a few masks of regions";
inline constexpr const char* kPeaks = "it looks for a few peaks of each map";
inline constexpr const char* kSplits = "ranks on GPUs have whole layers so far";
inline constexpr const char* kFlood = "it follows connected pixels one after another";
inline constexpr const char* kRare = "no net that trains on GPUs has needed it";

}  // namespace moka::on_host
