// Templates for Slurm and Kubernetes, filled with quoted words; nothing is submitted.
#include "tools/launch/job_files.h"

#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "core/utf8.h"
#include "tools/launch/command.h"

namespace moka {
namespace {

constexpr const char* kWorkFolder = "/work";
// Where the operator lists the workers, with their slots.
constexpr const char* kOperatorHosts = "/etc/mpi/hostfile";
// Stands for a job's number, which no word can hold by chance: it is no text.
constexpr std::string_view kJobMark = "\x01";

int RanksPerNode(const JobFile& job) {
  if (job.ranks % job.nodes != 0) {
    throw Error(ErrorKind::kUsage, {}, StrCat(job.ranks, " ranks do not divide over ", job.nodes, " nodes"),
                StrCat("take -n ", (job.ranks / job.nodes + 1) * job.nodes));
  }
  return job.ranks / job.nodes;
}

std::string NameOf(const LaunchedVerb& verb) { return verb.is_training ? verb.run_name : verb.words.at(0); }

// A name as Kubernetes takes it: small letters, digits and dashes.
std::string KubernetesName(const std::string& name) {
  std::string result;
  for (const unsigned char c : name) result += std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '-';
  return "moka-" + result;
}

// A YAML string in double quotes, which are JSON's.
std::string YamlText(const std::string& text) {
  if (IsUtf8(text)) return nlohmann::json(text).dump();
  throw Error(ErrorKind::kUsage,
              StrCat("\"", Printable(text), "\" is no UTF-8, and a Kubernetes job holds nothing else"));
}

// The words as a shell's line; a word that ends with kJobMark ends with the job's number instead, once it is known.
std::string LineWithJob(const std::vector<std::string>& words) {
  std::vector<std::string> parts;
  for (const std::string& word : words) {
    const bool is_marked = word.ends_with(kJobMark);
    const std::string plain = is_marked ? word.substr(0, word.size() - kJobMark.size()) : word;
    parts.push_back(ShellLine({plain}) + (is_marked ? "\"$SLURM_JOB_ID\"" : ""));
  }
  return Join(parts, " ");
}

// The launch inside the job, up to and with "--".
std::vector<std::string> LaunchInJob(const JobFile& job, const std::vector<std::string>& flags) {
  std::vector<std::string> words = {job.moka, "launch", "-n", std::to_string(job.ranks)};
  words.insert(words.end(), flags.begin(), flags.end());
  if (job.restarts > 0) words.insert(words.end(), {"--restarts", std::to_string(job.restarts)});
  words.push_back("--");
  return words;
}

std::string Directive(const std::string& text) { return StrCat("#SBATCH ", text, "\n"); }

std::string ResourceDirectives(const JobFile& job) {
  std::string text = Directive(StrCat("--nodes=", job.nodes)) + Directive(StrCat("--ntasks=", job.ranks)) +
                     Directive(StrCat("--ntasks-per-node=", RanksPerNode(job)));
  if (job.cpus_per_task > 0) text += Directive(StrCat("--cpus-per-task=", job.cpus_per_task));
  if (job.gpus_per_node > 0) text += Directive(StrCat("--gpus-per-node=", job.gpus_per_node));
  if (!job.time.empty()) text += Directive("--time=" + job.time);
  return text;
}

// One container of the manifest, indented as a list item below "containers:".
std::string ContainerText(const JobFile& job, const std::string& role, const std::string& body) {
  const std::string i = "            ";
  std::string text = StrCat(i, "- name: ", role, "\n", i, "  image: ", YamlText(job.image), "\n");
  if (!job.claim.empty()) text += StrCat(i, "  workingDir: ", kWorkFolder, "\n");
  text += body + StrCat(i, "  volumeMounts:\n", i, "    - { name: shm, mountPath: /dev/shm }\n");
  if (!job.claim.empty()) text += StrCat(i, "    - { name: work, mountPath: ", kWorkFolder, " }\n");
  return text;
}

std::string VolumesText(const JobFile& job) {
  const std::string i = "          ";
  std::string text = StrCat(i, "volumes:\n", i, "  - { name: shm, emptyDir: { medium: Memory } }\n");
  if (!job.claim.empty())
    text += StrCat(i, "  - { name: work, persistentVolumeClaim: { claimName: ", YamlText(job.claim), " } }\n");
  return text;
}

// A role of the job: how many pods, and the one container of each.
std::string ReplicaText(const JobFile& job, const std::string& role, int replicas, const std::string& body) {
  std::string name = role;
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return StrCat("    ", name, ":\n      replicas: ", replicas, "\n      template:\n        spec:\n",
                "          containers:\n", ContainerText(job, role, body), VolumesText(job));
}

}  // namespace

std::string SbatchText(const JobFile& job, const LaunchedVerb& verb) {
  std::string text = "#!/bin/bash\n";
  text +=
      StrCat("# moka launch wrote this file; submit it with sbatch. Time limits and pre-emption end in a checkpoint,\n",
             "# and the job goes on from it when Slurm starts it again.\n");
  text += Directive("--job-name=" + NameOf(verb)) + ResourceDirectives(job);
  text += Directive(StrCat("--signal=USR1@", kWarningS)) + Directive("--requeue") + Directive("--open-mode=append");
  text += Directive("--output=%x-%j.log") + Directive("--error=%x-%j.log");
  // The job's number keeps apart runs of the same net that are in the queue at the same time.
  std::vector<std::string> flags = {"--launcher", "srun", "--nodes", std::to_string(job.nodes)};
  if (job.cpus_per_task > 0) flags.insert(flags.end(), {"--cpus-per-task", std::to_string(job.cpus_per_task)});
  const std::string line = LineWithJob(RequeuedWords(verb, StrCat("-j", kJobMark)));
  text += StrCat("\n", ShellLine(LaunchInJob(job, flags)), " \\\n  ", line, "\ncode=$?\n");
  text += "# 75: interrupted; the next start goes on from the newest checkpoint that is complete.\n";
  text += "if [ \"$code\" -eq 75 ]; then scontrol requeue \"$SLURM_JOB_ID\"; fi\nexit \"$code\"\n";
  return text;
}

std::string ManifestText(const JobFile& job, const LaunchedVerb& verb) {
  if (job.image.empty()) {
    throw Error(ErrorKind::kUsage, {}, "a manifest needs the container image that has moka in it",
                "say it with --image=NAME:TAG");
  }
  const int slots = RanksPerNode(job);
  const std::string i = "              ";
  std::vector<std::string> words = LaunchInJob(job, {"--launcher", "mpirun", "--hostfile", kOperatorHosts});
  const std::vector<std::string> training = RequeuedWords(verb, "");
  words.insert(words.end(), training.begin(), training.end());
  std::string command = i + "command:\n";
  for (const std::string& word : words) command += StrCat(i, "  - ", YamlText(word), "\n");
  std::string limits;
  if (job.cpus_per_task > 0) limits += StrCat(i, "    cpu: ", job.cpus_per_task * slots, "\n");
  if (job.gpus_per_node > 0) limits += StrCat(i, "    nvidia.com/gpu: ", job.gpus_per_node, "\n");
  if (!limits.empty()) limits = StrCat(i, "resources:\n", i, "  limits:\n", limits);
  std::string text = "# moka launch wrote this file; apply it with kubectl where the MPI Operator is installed.\n";
  text +=
      StrCat("apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata:\n  name: ", KubernetesName(NameOf(verb)),
             "\nspec:\n  slotsPerWorker: ", slots, "\n  launcherCreationPolicy: WaitForWorkersReady\n",
             "  runPolicy:\n    cleanPodPolicy: Running\n    backoffLimit: ", job.restarts, "\n  mpiReplicaSpecs:\n");
  text += ReplicaText(job, "launcher", 1, command) + ReplicaText(job, "worker", job.nodes, limits);
  return text;
}

}  // namespace moka
