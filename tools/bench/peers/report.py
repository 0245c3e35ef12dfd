"""Tables from the JSON files of tools/bench/compare: Markdown rows, docs/performance.md and timm's CSV."""

import json
import pathlib

import works

HEAD = ("| work | best peer | its rate | Moka | ratio | asked | memory ratio | % of FMA, copy ceiling | outside kernels |"
        "\n|---|---|---|---|---|---|---|---|---|")
MEBI = 1 << 20


def rate(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 20 else f"{value:.2f}"


def spread(values):
    return f"{rate(values['median'])} [{rate(values['min'])}..{rate(values['max'])}]"


def row(result):
    moka, own = result["moka"], result["contenders"]["moka"]
    peer = result.get("best_peer")
    name = f"{result['net']} {result['mode']}, batch {result['batch']}"
    theirs = result["contenders"][peer] if peer else None
    ratio = result["ratio"] if peer else None
    cells = [
        name + (f" ({result['unit']})" if result["unit"] != "images/s" else ""),
        peer or "–",
        spread(theirs) if peer else "–",
        spread(own),
        f"**{ratio['median']:.2f}** [{ratio['min']:.2f}..{ratio['max']:.2f}]" if peer else "–",
        f"≥ {result['required']:.2f}" if result["required"] else "–",
        f"{result['memory_ratio']:.2f} ({own['peak_bytes'] // MEBI} / {theirs['peak_bytes'] // MEBI} MiB)"
        if peer and theirs["peak_bytes"] else f"– ({own['peak_bytes'] // MEBI} MiB)",
        ", ".join("–" if moka[s] is None else f"{100 * moka[s]:.0f}" for s in ("fma_share", "copy_share")),
        f"{100 * moka['outside_kernels_share']:.2f} %",
    ]
    return "| " + " | ".join(cells) + " |"


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


def write(folder, path):
    """Renews the table between the marks of docs/performance.md."""
    begin, end = "<!-- table: tools/bench/compare --report -->", "<!-- end of table -->"
    text = path.read_text(encoding="utf-8") if path.exists() else f"# Performance\n\n{begin}\n{end}\n"
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    table = "\n".join([HEAD, *[row(result) for result in results(folder)]])
    path.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
    print(path)
