"""How many nets and solvers of a folder of prototxt files are understood: parsed, built in every phase they declare
(with some set of their stages), their rates computed.

Usage: python3 caffe_corpus.py MOKA FOLDER [OUT.json]

A file's kind is that of the first group below one of whose layer types it has. Prints a line a kind; OUT.json holds the
counts and, for each file that is not understood, the first line of its error.
"""

import json
import os
import re
import subprocess
import sys

GROUPS = [
    ("detection", {"PriorBox", "MultiBoxLoss", "DetectionOutput", "AnnotatedData", "ROIPooling", "PSROIPooling", "ROIAlign",
                   "Proposal", "RegionLoss", "Yolov3", "EvalDetection", "Yolov3DetectionOutput",
                   "YoloDetectionOutput"}),
    ("recurrent", {"LSTM", "RNN", "Lstm", "LSTMUnit", "Embed"}),
    ("segmentation", {"Upsample", "Interp", "DenseImageData", "Crop", "Deconvolution", "ImageSegData", "Unpooling",
                      "SegAccuracy"}),
    ("video and 3-D", {"VideoData", "NdConvolution", "NdPooling", "Pooling3D", "Convolution3D"}),
    ("metric and faces", {"CenterLoss", "MarginInnerProduct", "ContrastiveLoss", "TripletLoss"}),
]
BATCH = 50


def kind_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        text = re.sub(r"#.*", "", file.read())
    types = set(re.findall(r"\btype\s*:\s*[\"']([^\"']+)[\"']", text))
    return next((name for name, group in GROUPS if types & group), "classification and other")


def main():
    moka, folder = sys.argv[1:3]
    files = sorted(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names)
    counts, failures = {}, {}
    for begin in range(0, len(files), BATCH):
        part = files[begin:begin + BATCH]
        done = subprocess.run([moka, "model", "check", "--json", "--quiet", *part], capture_output=True, check=False)
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            row = json.loads(line)
            kind = "solver" if row.get("kind") == "solver" else kind_of(row["file"])
            count = counts.setdefault(kind, {"files": 0, "parsed": 0, "understood": 0})
            count["files"] += 1
            count["parsed"] += "error" not in row
            count["understood"] += row["ok"]
            if not row["ok"]:
                errors = [row.get("error")] + [state.get("error") for state in row.get("states", [])]
                failures[os.path.relpath(row["file"], folder)] = next(e for e in errors if e).split("\n")[0]
    for kind, count in sorted(counts.items()):
        print(f"{kind:26} {count['understood']:5} of {count['files']:5} understood, {count['parsed']} parsed")
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w", encoding="utf-8") as file:
            json.dump({"counts": counts, "failures": failures}, file, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
