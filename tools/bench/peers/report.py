"""Tables from the JSON files of tools/bench/compare: Markdown rows, docs/performance.md and timm's CSV."""

import json
import pathlib
import statistics

import works

HEAD = ("| work | best peer | its rate | Moka | ratio | asked | memory ratio | % of FMA, copy ceiling | outside kernels |"
        "\n|---|---|---|---|---|---|---|---|---|")
OWN_HEAD = ("| work | {} | its rate | Moka | ratio | asked | times Moka's {} | asked | memory beside its {} | "
            "% of the ceilings | machine |\n" + "|---" * 11 + "|")
PEERS = {"bfloat16": "PyTorch's best way", "int8": "best peer in int8"}
MEBI = 1 << 20


def rate(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 20 else f"{value:.2f}"


def spread(values):
    return f"{rate(values['median'])} [{rate(values['min'])}..{rate(values['max'])}]"


def times(ratio, mark=""):
    return f"{mark}{ratio['median']:.2f}{mark} [{ratio['min']:.2f}..{ratio['max']:.2f}]"


def work(result):
    unit = f" ({result['unit']})" if result["unit"] != "images/s" else ""
    return f"{result['net']} {result['mode']}, batch {result['batch']}{unit}"


def row(result):
    moka, own = result["moka"], result["contenders"]["moka"]
    peer = result.get("best_peer")
    theirs = result["contenders"][peer] if peer else None
    ratio = result["ratio"] if peer else None
    # Memory is asked for beside PyTorch, also where another peer is faster.
    beside = [c for n, c in result["contenders"].items() if n.startswith("torch")] or ([theirs] if peer else [])
    memory = min((c["peak_bytes"] for c in beside), default=0)
    cells = [
        work(result),
        peer or "–",
        spread(theirs) if peer else "–",
        spread(own),
        times(ratio, "**") if peer else "–",
        f"≥ {result['required']:.2f}" if result["required"] else "–",
        f"{own['peak_bytes'] / memory:.2f} ({own['peak_bytes'] // MEBI} / {memory // MEBI} MiB)"
        if memory else f"– ({own['peak_bytes'] // MEBI} MiB)",
        ", ".join("–" if moka[s] is None else f"{100 * moka[s]:.0f}" for s in ("fma_share", "copy_share")),
        f"{100 * moka['outside_kernels_share']:.2f} %",
    ]
    return "| " + " | ".join(cells) + " |"


def own_row(result):
    """Of a kind that takes part beside Moka in other numbers; without those where the processor multiplies none."""
    own, plain = result["contenders"]["moka"], result["contenders"].get(works.OWN[result["beside"]][0])
    peer = result.get("best_peer")
    cells = [
        work(result),
        peer or "–",
        spread(result["contenders"][peer]) if peer else "–",
        spread(own),
        times(result["ratio"], "**") if peer else "–",
        f"≥ {result['required']:.1f}" if result["required"] else "–",
        times(result["ratio_own"]) if plain else "–",
        f"≥ {result['required_own']:.1f}" if result.get("required_own") else "–",
        f"{own['peak_bytes'] / plain['peak_bytes']:.2f} ({own['peak_bytes'] // MEBI} / {plain['peak_bytes'] // MEBI} MiB)"
        if plain else f"– ({own['peak_bytes'] // MEBI} MiB)",
        f"{100 * result['moka']['fma_share']:.0f}",
        result["machine"]["isa"],
    ]
    return "| " + " | ".join(cells) + " |"


def build_row(result):
    other = result["other"]
    cells = [f"{result['net']} {result['mode']}, batch {result['batch']}, {result['precision']}",
             spread(result["contenders"]["moka"]), spread(result["contenders"][other["label"]]),
             times(other["ratio"], "**")]
    return "| " + " | ".join(cells) + " |"


def table(found):
    """Rows of one kind: beside another build, in bfloat16, on 8-bit integers, or the others."""
    if not found:
        return "Nothing is measured yet."
    if "other" in found[0]:
        return "\n".join([f"| work | this build | {found[0]['other']['label']} | ratio |\n|---|---|---|---|", *map(build_row, found)])
    kind = found[0]["beside"]
    if kind in works.OWN:
        own = works.OWN[kind][0].removeprefix("moka ")
        return "\n".join([OWN_HEAD.format(PEERS[kind], own, own), *map(own_row, found)])
    return "\n".join([HEAD, *map(row, found)])


def timm_columns(result):
    own, moka = result["contenders"]["moka"], result["moka"]
    mode = result["mode"]
    columns = {"model": result["net"], f"{mode}_samples_per_sec": f"{own['median']:.2f}",
               f"{mode}_step_time": f"{moka['step_ms']:.3f}", f"{mode}_batch_size": result["batch"],
               f"{mode}_img_size": moka["image_size"]}
    if mode == "infer":
        columns["infer_gmacs"] = f"{moka['forward_gflop'] / 2 / result['batch']:.2f}"
        columns["infer_macts"] = f"{moka['activations'] * 1e-6 / result['batch']:.2f}"
    columns["param_count"] = f"{moka['parameters'] * 1e-6:.2f}"
    return columns


def append_csv(result, path):
    """Replaces the work's row, or adds it."""
    columns = timm_columns(result)
    head, line = ",".join(columns), ",".join(str(v) for v in columns.values())
    lines = path.read_text(encoding="utf-8").splitlines()[1:] if path.exists() else []
    key = (str(result["net"]), str(result["batch"]))
    lines = [old for old in lines if (old.split(",")[0], old.split(",")[3]) != key]
    path.write_text("\n".join([head, *sorted([*lines, line])]) + "\n", encoding="utf-8")


def results(folder):
    """In the order of the table asked for, others after it."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(pathlib.Path(folder).glob("*.json"))]
    order = {(row[0], row[1], row[2], row[4].get("beside")): i for i, row in enumerate(works.ROWS)}
    return sorted(found, key=lambda r: order.get((r["net"], r["mode"], r["batch"], r["beside"]), len(order)))


def curves(folder):
    """A row for each curve and a column for each batch: images a second with most threads, and how many times one
    thread's that is."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(pathlib.Path(folder).glob("*.json"))]
    batches = sorted({int(batch) for curve in found for batch in curve["points"]})
    lines = ["| images/s (times one thread's) at batch | " + " | ".join(map(str, batches)) + " |",
             "|---" * (len(batches) + 1) + "|"]
    for curve in found:
        cells = [f"{curve['net']} {curve['mode']}, {max(map(int, next(iter(curve['points'].values()))))} threads"]
        for batch in batches:
            rates = {int(t): r for t, r in curve["points"].get(str(batch), {}).items()}
            if not rates:
                cells.append("–")
                continue
            most = rates[max(rates)]
            gains = [two / one for one, two in zip(rates[min(rates)], most)]
            cells.append(f"{rate(statistics.median(most))} ({statistics.median(gains):.2f})")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def between(text, mark, table):
    """The text with the table between the mark and the next end of a table."""
    before, rest = text.split(f"<!-- table: {mark} -->")
    end = "<!-- end of table -->"
    return f"{before}<!-- table: {mark} -->\n{table}\n{end}{rest.split(end, 1)[1]}"


def write(folder, path):
    """Renews the tables between the marks of docs/performance.md."""
    text = path.read_text(encoding="utf-8")
    found = results(folder)
    kinds = {"--report": [r for r in found if r["beside"] not in works.OWN],
             "--precision bfloat16": [r for r in found if r["beside"] == "bfloat16"],
             "--int8": [r for r in found if r["beside"] == "int8"]}
    for words, rows in kinds.items():
        text = between(text, f"tools/bench/compare {words}", table(rows))
    text = between(text, "tools/bench/compare --other", table(results(folder / "builds")))
    text = between(text, "tools/bench/curve", curves(folder / "curves"))
    path.write_text(text, encoding="utf-8")
    print(path)
