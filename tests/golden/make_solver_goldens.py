"""Records optimiser steps and learning rates in plain float64, straight from the published formulas.

Usage: python3 make_solver_goldens.py      writes solvers.json

solvers.json:
  parameters   [{"name", "role", "lr_mult", "decay_mult", "start": [...]}]: a weight of 4 values and a bias of 3
  gradients    one list a step: [[gradient of each parameter], ...]; 8 steps, independent of the weights
  cases        [{"name", "solver": SolverParameter text, "weights": [step][parameter] -> values after the step}]
  rates        [{"name", "solver": SolverParameter text, "iterations": [...], "rates": [...]}]: before lr_mult
A gradient is the loss's own: with iter_size k the case feeds k copies, whose sum is divided by k.

One update is Caffe's: clip all gradients by their global L2 norm, divide by iter_size, add the decay (L2: decay*w;
L1: decay*sign(w)), apply the rule, subtract. AdamW and LAMB take no decay into the gradient. r is the rate times
lr_mult, t counts from 1, d is weight_decay times decay_mult:
  SGD       h = momentum*h + r*g;                      w -= h
  Nesterov  h' = momentum*h + r*g;                     w -= (1+momentum)*h' - momentum*h
  AdaGrad   h += g^2;                                  w -= r*g / (sqrt(h)+delta)
  RMSProp   h = rms_decay*h + (1-rms_decay)*g^2;       w -= r*g / (sqrt(h)+delta)
  AdaDelta  h = momentum*h + (1-momentum)*g^2;         s = g*sqrt((u+delta)/(h+delta));
            u = momentum*u + (1-momentum)*s^2;         w -= r*s
  Adam      m, v as usual;                             w -= r * sqrt(1-b2^t)/(1-b1^t) * m/(sqrt(v)+delta)
  AdamW     m, v as usual;                             w -= r*d*w + r * m^/(sqrt(v^)+delta)
  LARS      l = eta*|w| / (|g|+d*|w|), 1 if a norm is 0, g before decay;  h = momentum*h + r*l*(g+d*w);  w -= h
  LAMB      s = m^/(sqrt(v^)+delta) + d*w;             w -= r * |w|/|s| * s, ratio 1 if a norm is 0
Two forks' SGD have a rate a parameter, R in place of r (g before decay, L the rate before lr_mult; 1 in place of the
quotient if a norm is 0):
  larc           q = (1-momentum)*larc_eta*|w|/|g|;    R = L*q (scale) or min(L, q) (clip)
  local_lr_auto  q = local_gw_ratio*|w| / (|g| + weight_decay*|w|);    R = L*q
decay_skip_bias_and_norm: a bias has d = 0 and r for its rate, without LARS's, LAMB's or the forks' factor.
momentum_policy poly: momentum + (max_momentum-momentum) * (i/max_iter)^momentum_power; opt: (1 - sqrt(L)/2)^2, at most
max_momentum. weight_decay_policy poly: likewise between weight_decay and max_weight_decay.
Rates: warm-up is a straight line from warmup_start_lr at 0 to base_lr at warmup_iter; the ramp a parabola from
rampup_lr at 0 to base_lr at rampup_interval. multistep passes its values in order, one an iteration.
policy_after_warmup: the policy counts from the end of the warm-up, and poly and cosine end at max_iter all the same.
"""

import json
import math
import os

import numpy as np

import moka_random

STEPS = 8
PARAMETERS = [("w", 1.0, 1.0, 4), ("b", 2.0, 0.5, 3)]
ROLES = {"w": "weight", "b": "bias"}
DEFAULTS = {"type": "SGD", "lr_policy": "fixed", "base_lr": 0.1, "momentum": 0.0, "momentum2": 0.999, "delta": 1e-8,
            "rms_decay": 0.99, "weight_decay": 0.0, "regularization_type": "L2", "clip_gradients": -1.0,
            "iter_size": 1, "lars_eta": 0.001, "gamma": 0.1, "power": 1.0, "stepsize": 1, "max_iter": 8,
            "stepvalue": [], "warmup_iter": 0, "warmup_start_lr": 0.0, "min_lr": 0.0, "rampup_interval": 0,
            "rampup_lr": 0.0, "stagelr": [], "stageiter": [], "larc": False, "larc_policy": "scale",
            "larc_eta": 0.001, "local_lr_auto": False, "local_gw_ratio": 0.001, "momentum_policy": "fixed",
            "max_momentum": 0.99, "momentum_power": 1.0, "weight_decay_policy": "fixed", "max_weight_decay": 0.0,
            "weight_decay_power": 1.0, "decay_skip_bias_and_norm": False, "policy_after_warmup": False}


def steps_passed(values, last):
    passed = 0
    for i in range(last + 1):
        if passed < len(values) and i >= values[passed]:
            passed += 1
    return passed


def policy_rate(s, i):
    base, gamma, low = s["base_lr"], s["gamma"], s["min_lr"]
    end = s["max_iter"]
    if s["policy_after_warmup"]:
        warm = max(s["warmup_iter"], s["rampup_interval"])
        i, end = i - warm, end - warm
    left = 1 - min(i, end) / end
    return {
        "fixed": lambda: base,
        "step": lambda: base * gamma ** (i // s["stepsize"]),
        "exp": lambda: base * gamma**i,
        "inv": lambda: base * (1 + gamma * i) ** -s["power"],
        "multistep": lambda: base * gamma ** steps_passed(s["stepvalue"], i),
        "multifixed": lambda: next((r for r, end in zip(s["stagelr"], s["stageiter"]) if i <= end), s["stagelr"][-1]),
        "poly": lambda: low + (base - low) * left ** s["power"],
        "sigmoid": lambda: base / (1 + math.exp(-gamma * (i - s["stepsize"]))),
        "cosine": lambda: low + (base - low) * (1 + math.cos(math.pi * (1 - left))) / 2,
    }[s["lr_policy"]]()


def rate(s, i):
    if i < s["warmup_iter"]:
        return s["warmup_start_lr"] + (s["base_lr"] - s["warmup_start_lr"]) * i / s["warmup_iter"]
    if i < s["rampup_interval"]:
        return s["rampup_lr"] + (s["base_lr"] - s["rampup_lr"]) * (i / s["rampup_interval"]) ** 2
    return policy_rate(s, i)


def momentum(s, i):
    if s["momentum_policy"] == "poly":
        return s["momentum"] + (s["max_momentum"] - s["momentum"]) * (i / s["max_iter"]) ** s["momentum_power"]
    if s["momentum_policy"] == "opt":
        return min(s["max_momentum"], (1 - 0.5 * math.sqrt(rate(s, i))) ** 2)
    return s["momentum"]


def weight_decay(s, i):
    if s["weight_decay_policy"] == "fixed":
        return s["weight_decay"]
    rise = (s["max_weight_decay"] - s["weight_decay"]) * (i / s["max_iter"]) ** s["weight_decay_power"]
    return s["weight_decay"] + rise


def fork_rate(s, w, g, step):
    """The rate a parameter of larc and local_lr_auto."""
    whole = rate(s, step)
    zero = norm(w) == 0 or norm(g) == 0
    if s["larc"]:
        quotient = 1 if zero else (1 - momentum(s, step)) * s["larc_eta"] * norm(w) / norm(g)
        return min(whole, quotient) if s["larc_policy"] == "clip" else whole * quotient
    return whole * (1 if zero else s["local_gw_ratio"] * norm(w) / (norm(g) + s["weight_decay"] * norm(w)))


def norm(x):
    return math.sqrt(float((x * x).sum()))


def update(s, w, g, d, r, state, t, is_spared):
    """The weight after one rule; g is clipped and divided, without decay. d is 0 for a spared parameter."""
    kind, mu, delta = s["type"], momentum(s, t - 1), s["delta"]
    decayed = g + d * (w if s["regularization_type"] == "L2" else np.sign(w))
    h = state.setdefault("h", np.zeros_like(w))
    if kind in ("Adam", "AdamW", "LAMB"):
        b2, used = s["momentum2"], decayed if kind == "Adam" else g
        state["m"] = m = mu * state.get("m", 0) + (1 - mu) * used
        state["v"] = v = b2 * state.get("v", 0) + (1 - b2) * used**2
        if kind == "Adam":
            return w - r * math.sqrt(1 - b2**t) / (1 - mu**t) * m / (np.sqrt(v) + delta)
        step = (m / (1 - mu**t)) / (np.sqrt(v / (1 - b2**t)) + delta)
        if kind == "AdamW":
            return w - r * d * w - r * step
        step = step + d * w
        trust = norm(w) / norm(step) if norm(w) > 0 and norm(step) > 0 and not is_spared else 1
        return w - r * trust * step
    g = decayed
    if kind == "SGD":
        if (s["larc"] or s["local_lr_auto"]) and not is_spared:
            r = fork_rate(s, w, g - d * w, t - 1)
        state["h"] = mu * h + r * g
        return w - state["h"]
    if kind == "Nesterov":
        state["h"] = mu * h + r * g
        return w - ((1 + mu) * state["h"] - mu * h)
    if kind == "AdaGrad":
        state["h"] = h + g**2
        return w - r * g / (np.sqrt(state["h"]) + delta)
    if kind == "RMSProp":
        state["h"] = s["rms_decay"] * h + (1 - s["rms_decay"]) * g**2
        return w - r * g / (np.sqrt(state["h"]) + delta)
    if kind == "AdaDelta":
        u = state.get("u", np.zeros_like(w))
        state["h"] = mu * h + (1 - mu) * g**2
        step = g * np.sqrt((u + delta) / (state["h"] + delta))
        state["u"] = mu * u + (1 - mu) * step**2
        return w - r * step
    raw = g - d * w
    local = 1
    if norm(w) > 0 and norm(raw) > 0 and not is_spared:
        local = s["lars_eta"] * norm(w) / (norm(raw) + d * norm(w))
    state["h"] = mu * h + r * local * g
    return w - state["h"]


def text(fields):
    """SolverParameter text of the fields that differ from the defaults above or are always wanted."""
    parts = []
    for key, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, bool):
                parts.append(f"{key}: {str(item).lower()}")
            else:
                parts.append(f'{key}: "{item}"' if isinstance(item, str) else f"{key}: {item:g}")
    return " ".join(parts)


def float32(fields):
    """Solver fields are float32 in the schema; the goldens use the same rounded numbers."""
    def rounded(value):
        if isinstance(value, list):
            return [rounded(v) for v in value]
        return float(np.float32(value)) if isinstance(value, float) else value
    return {k: rounded(v) for k, v in fields.items()}


def run(fields, starts, gradients):
    s = float32({**DEFAULTS, **fields})
    weights, states, history = [w.copy() for w in starts], [{} for _ in starts], []
    for step, step_gradients in enumerate(gradients):
        sums = [g * s["iter_size"] for g in step_gradients]
        total = math.sqrt(sum(norm(g) ** 2 for g in sums))
        shrink = s["clip_gradients"] / total if 0 <= s["clip_gradients"] < total else 1.0
        for i, (name, lr_mult, decay_mult, _) in enumerate(PARAMETERS):
            g = sums[i] * shrink / s["iter_size"]
            is_spared = s["decay_skip_bias_and_norm"] and ROLES[name] == "bias"
            decay = 0 if is_spared else weight_decay(s, step) * decay_mult
            weights[i] = update(s, weights[i], g, decay, rate(s, step) * lr_mult, states[i], step + 1, is_spared)
        history.append([[float(f"{v:.14g}") for v in w] for w in weights])
    return history


MOMENTUM, ADAM = {"momentum": 0.9}, {"momentum": 0.9, "momentum2": 0.99}
RULES = {
    "SGD": MOMENTUM, "Nesterov": MOMENTUM, "AdaGrad": {}, "RMSProp": {"rms_decay": 0.9},
    "AdaDelta": {"base_lr": 1.0, "momentum": 0.95, "delta": 1e-6}, "Adam": {"base_lr": 0.01, **ADAM},
    "AdamW": {"base_lr": 0.01, **ADAM}, "LARS": {"base_lr": 1.0, "lars_eta": 0.02, **MOMENTUM},
    "LAMB": {"base_lr": 0.05, **ADAM},
}
CASES = {f"{kind.lower()}{suffix}": {"type": kind, "base_lr": 0.1, **fields, **extra}
         for kind, fields in RULES.items()
         for suffix, extra in [("_plain", {}), ("_decay", {"weight_decay": 0.05}),
                               ("_clip_decay_step", {"weight_decay": 0.05, "clip_gradients": 1.5, "lr_policy": "step",
                                                     "gamma": 0.5, "stepsize": 3})]}
CASES |= {
    "sgd_no_momentum": {"type": "SGD", "base_lr": 0.1},
    "sgd_l1": {"type": "SGD", "base_lr": 0.1, **MOMENTUM, "weight_decay": 0.05, "regularization_type": "L1"},
    "nesterov_l1": {"type": "Nesterov", "base_lr": 0.1, **MOMENTUM, "weight_decay": 0.05,
                    "regularization_type": "L1"},
    "sgd_clip_iter_size": {"type": "SGD", "base_lr": 0.1, **MOMENTUM, "clip_gradients": 1.5, "iter_size": 4},
    "sgd_clip_not_reached": {"type": "SGD", "base_lr": 0.1, **MOMENTUM, "clip_gradients": 1000.0},
    "sgd_warmup_cosine": {"type": "SGD", "base_lr": 0.1, **MOMENTUM, "lr_policy": "cosine", "max_iter": 8,
                          "warmup_iter": 3, "warmup_start_lr": 0.01, "min_lr": 0.001},
    "sgd_larc_scale": {"base_lr": 1.0, **MOMENTUM, "weight_decay": 0.05, "larc": True, "larc_eta": 0.2},
    "sgd_larc_clip": {"base_lr": 0.005, **MOMENTUM, "weight_decay": 0.05, "larc": True, "larc_policy": "clip",
                      "larc_eta": 0.05, "clip_gradients": 1.5, "iter_size": 2},
    "sgd_local_lr_auto": {"base_lr": 1.0, **MOMENTUM, "weight_decay": 0.05, "local_lr_auto": True,
                          "local_gw_ratio": 0.02},
    "sgd_momentum_poly": {"base_lr": 0.1, "momentum": 0.5, "momentum_policy": "poly", "max_momentum": 0.9,
                          "momentum_power": 2.0, "max_iter": 8},
    "sgd_momentum_opt": {"base_lr": 0.3, "momentum_policy": "opt", "max_momentum": 0.9, "lr_policy": "step",
                         "gamma": 0.25, "stepsize": 3},
    "sgd_decay_poly": {"base_lr": 0.1, **MOMENTUM, "weight_decay": 0.01, "weight_decay_policy": "poly",
                       "max_weight_decay": 0.2, "weight_decay_power": 2.0, "max_iter": 8},
}
# The forms of layer-wise rates, a bias spared.
CASES |= {f"{name}_spared": {**CASES[name], "decay_skip_bias_and_norm": True}
          for name in ("sgd_larc_scale", "sgd_larc_clip", "sgd_local_lr_auto", "lars_clip_decay_step", "lamb_decay",
                       "sgd_decay", "sgd_decay_poly")}
RATES = {
    "fixed": {"base_lr": 0.3},
    "step": {"base_lr": 0.1, "gamma": 0.1, "stepsize": 100},
    "exp": {"base_lr": 0.1, "gamma": 0.99},
    "inv": {"base_lr": 0.01, "gamma": 0.0001, "power": 0.75},
    "multistep": {"base_lr": 0.1, "gamma": 0.1, "stepvalue": [100, 150, 1000]},
    "poly": {"base_lr": 0.1, "power": 2.0, "max_iter": 2000},
    "poly_min_lr": {"base_lr": 0.1, "power": 0.5, "max_iter": 2000, "min_lr": 0.01},
    "sigmoid": {"base_lr": 0.1, "gamma": -0.01, "stepsize": 1000},
    "cosine": {"base_lr": 0.2, "max_iter": 2000},
    "cosine_min_lr": {"base_lr": 0.2, "max_iter": 2000, "min_lr": 0.002},
    "cosine_warmup": {"base_lr": 0.2, "max_iter": 2000, "warmup_iter": 100, "warmup_start_lr": 0.01},
    "fixed_warmup": {"base_lr": 0.2, "warmup_iter": 150, "warmup_start_lr": 0.02},
    "step_warmup": {"base_lr": 0.1, "gamma": 0.5, "stepsize": 50, "warmup_iter": 120},
    "multistep_same": {"base_lr": 0.1, "gamma": 0.1, "stepvalue": [100, 100, 50, 1000]},
    "multifixed": {"stagelr": [0.001, 0.01, 0.1], "stageiter": [100, 150, 1000]},
    "poly_rampup": {"base_lr": 10.0, "power": 2.0, "max_iter": 2000, "min_lr": 0.001, "rampup_interval": 200,
                    "rampup_lr": 1.0},
    "poly_warmup": {"base_lr": 1.0, "power": 2.0, "max_iter": 2000, "warmup_iter": 200, "warmup_start_lr": 0.1},
    "poly_after_warmup": {"base_lr": 24.699, "power": 2.0, "max_iter": 1500, "min_lr": 0.0001, "warmup_iter": 200,
                          "policy_after_warmup": True},
    "poly_after_ramp": {"base_lr": 10.0, "power": 2.0, "max_iter": 2000, "rampup_interval": 150, "rampup_lr": 1.0,
                        "policy_after_warmup": True},
    "cosine_after_warmup": {"base_lr": 0.2, "max_iter": 2000, "min_lr": 0.002, "warmup_iter": 100,
                            "warmup_start_lr": 0.01, "policy_after_warmup": True},
    "step_after_warmup": {"base_lr": 0.1, "gamma": 0.5, "stepsize": 50, "warmup_iter": 100,
                          "policy_after_warmup": True},
    "multistep_after_warmup": {"base_lr": 0.1, "gamma": 0.1, "stepvalue": [49, 900], "warmup_iter": 100,
                               "policy_after_warmup": True},
}
ITERATIONS = [0, 1, 2, 49, 50, 99, 100, 101, 149, 150, 151, 199, 200, 500, 999, 1000, 1001, 1500, 1999, 2000]


def main():
    starts = [moka_random.data((n,), f"start/{name}") for name, _, _, n in PARAMETERS]
    starts[1][1] = 0.0
    gradients = [[moka_random.data((n,), f"gradient{step}/{name}") for name, _, _, n in PARAMETERS]
                 for step in range(STEPS)]
    cases = [{"name": name, "solver": text({"lr_policy": "fixed", **fields}),
              "weights": run(fields, starts, gradients)} for name, fields in CASES.items()]
    rates = []
    for name, fields in RATES.items():
        s = float32({**DEFAULTS, "lr_policy": name.split("_")[0], **fields})
        rates.append({"name": name, "solver": text({"lr_policy": s["lr_policy"], **fields}),
                      "iterations": ITERATIONS, "rates": [float(f"{rate(s, i):.14g}") for i in ITERATIONS]})
    content = {"parameters": [{"name": n, "role": ROLES[n], "lr_mult": lr, "decay_mult": d, "start": list(w)}
                              for (n, lr, d, _), w in zip(PARAMETERS, starts)],
               "gradients": [[list(g) for g in step] for step in gradients]}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "solvers.json")
    with open(path, "w", encoding="utf-8") as file:
        rows = [f' {json.dumps(k)}: {json.dumps(v)}' for k, v in content.items()]
        for key, entries in (("cases", cases), ("rates", rates)):
            rows.append(f' "{key}": [\n' + ",\n".join("  " + json.dumps(e) for e in entries) + "\n ]")
        file.write("{\n" + ",\n".join(rows) + "\n}\n")
    print(len(cases), "cases,", len(rates), "rate policies,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
