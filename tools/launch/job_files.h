// Files that hand a launch to a scheduler: a batch script of Slurm, a manifest of the MPI Operator for Kubernetes. Both
// run `moka launch` inside the job, which makes the same checks, names a failed rank and starts the ranks again; and
// both go on with the run's folder when the scheduler starts the job again.
#pragma once

#include <string>
#include <vector>

#include "tools/launch/launched_run.h"

namespace moka {

struct JobFile {
  std::string moka;  // this program's path
  int ranks = 1;
  int nodes = 1;          // hosts
  int cpus_per_task = 0;  // 0: the scheduler's default
  int gpus_per_node = 0;
  int restarts = 0;
  std::string time{};   // Slurm's --time; empty: the partition's default
  std::string image{};  // of containers
  std::string claim{};  // PersistentVolumeClaim mounted as the working folder; empty: none
};

// Seconds before a job's end at which Slurm sends SIGUSR1, which asks for a checkpoint.
inline constexpr int kWarningS = 90;

// A script for sbatch. Errors: kUsage when the ranks do not divide over the nodes.
std::string SbatchText(const JobFile& job, const LaunchedVerb& verb);

// An MPIJob (kubeflow.org/v2beta1). Errors: likewise, and kUsage without an image.
std::string ManifestText(const JobFile& job, const LaunchedVerb& verb);

}  // namespace moka
