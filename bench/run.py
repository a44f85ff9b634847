#!/usr/bin/env python3
"""Races our program against a peer, and first proves that both give the same answer.

usage: bench/run.py [--rounds N] [--build DIR] [--plant-wrong-answer] NAME
       bench/run.py --list

A scenario is bench/scenarios/NAME.py. One that races defines contestants `ours` and `peer`; they
take turns (ours peer, peer ours, ...) for at least 5 rounds, of which the first is dropped. One
without a peer, or with many, defines `measure`. Limits stand in bench/budgets.toml. The result is printed and
written to build/bench/NAME.json. Exit 1: answers differ, or a budget is missed.
  --plant-wrong-answer   spoil our answers, to see the check refuse them
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
from arena import Arena, Refused, first_difference, spoil  # noqa: E402

ROUNDS, ROUNDS_MIN = 7, 5


def load(name: str):
    path = ROOT / f"bench/scenarios/{name}.py"
    if not path.is_file():
        sys.exit(f"bench: no scenario '{name}'; there are: {', '.join(scenarios())}")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scenarios() -> list[str]:
    return sorted(p.stem for p in (ROOT / "bench/scenarios").glob("*.py"))


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def race(scenario, arena: Arena, rounds: int, plant_wrong_answer: bool) -> dict:
    """One entry per kept round: what each side measured, and how many times ours is better."""
    tolerance = getattr(scenario, "TOLERANCE", 0.0)
    sides = {"ours": scenario.ours(arena), "peer": scenario.peer(arena)}
    kept = []
    try:
        for number in range(rounds):
            order = ("ours", "peer") if number % 2 == 0 else ("peer", "ours")
            measured, answers = {}, {}
            for turn, side in enumerate(order):
                progress(f"round {number + 1}/{rounds}: {side} ({turn + 1}/2)")
                measured[side], answers[side] = sides[side].round()
            if plant_wrong_answer:
                answers["ours"] = spoil(answers["ours"])
            difference = first_difference(answers["ours"], answers["peer"], tolerance)
            if difference:
                raise Refused(f"round {number + 1}: the answers differ: {difference}")
            if number > 0:
                kept.append({**measured, "ratio": ratio(scenario, measured)})
    finally:
        progress("")
        for side in sides.values():
            side.close()
    return {"kind": "race", "unit": scenario.UNIT, "rounds": kept,
            "ours": spread(r["ours"] for r in kept), "peer": spread(r["peer"] for r in kept),
            "ratio": spread(r["ratio"] for r in kept),
            "extra": extras(sides)}


def extras(sides: dict) -> dict:
    """Further figures of both sides; the peer's carry its name."""
    found = dict(getattr(sides["ours"], "extra", {}))
    return found | {f"peer_{k}": v for k, v in getattr(sides["peer"], "extra", {}).items()}


def ratio(scenario, measured: dict) -> float:
    better_is_lower = scenario.UNIT in ("s", "ms", "us")
    ours, peer = measured["ours"], measured["peer"]
    return peer / ours if better_is_lower else ours / peer


def spread(values) -> dict:
    """Of numbers, or of lists of them: what was measured in turns inside a round."""
    values = [v for each in values for v in (each if isinstance(each, list) else [each])]
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure(scenario, arena: Arena, rounds: int) -> dict:
    kept = []
    for number in range(rounds):
        progress(f"round {number + 1}/{rounds}")
        figures = scenario.measure(arena)
        if number > 0 or rounds == 1:
            kept.append(figures)
    progress("")
    return {"kind": "measure", "rounds": kept,
            "figures": {name: spread(r[name] for r in kept) for name in kept[0]}}


def missed_budgets(result: dict, budgets: dict, not_raced: dict) -> list[str]:
    """budgets: figure_max or figure_min = limit; judged on the median. What a scenario did not race
    it names in NOT_RACED, with the reason: that is told, and is no miss."""
    figures = dict(result.get("figures", {}))
    if result["kind"] == "race":
        figures |= {"ratio": result["ratio"]}
        figures |= {name: {"median": value} for name, value in result["extra"].items()}
    missed = []
    for key, limit in budgets.items():
        name, _, bound = key.rpartition("_")
        if name in not_raced:
            continue
        if name not in figures:
            missed.append(f"{key}: the scenario measured no '{name}'")
            continue
        got = figures[name]["median"]
        if (bound == "max" and got > limit) or (bound == "min" and got < limit):
            missed.append(f"{name} is {got:.4g}, the budget is {bound} {limit:g}")
    return missed


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def show(name: str, scenario, result: dict, missed: list[str]) -> None:
    print(f"{name}: {scenario.TITLE}")
    if result["kind"] == "race":
        for side in ("ours", "peer"):
            s = result[side]
            print(f"  {side}   {figure(s['median']):>12} {result['unit']}"
                  f"   ({figure(s['min'])} to {figure(s['max'])})")
        s = result["ratio"]
        print(f"  ratio  {s['median']:>12,.2f} times   ({s['min']:,.2f} to {s['max']:,.2f}), "
              f"{len(result['rounds'])} rounds, answers equal")
        for key, value in result["extra"].items():
            print(f"  {key:<12} {value:>12,.4g}")
    for name_of, s in result.get("figures", {}).items():
        line = f"  {name_of:<20} {s['median']:>10,.4g}   ({s['min']:,.4g} to {s['max']:,.4g})"
        print(line + verdict(name_of, result, missed))
    for name_of, why in result["not_raced"].items():
        print(f"  {name_of:<20} not raced: {why}")
    for line in missed:
        print(f"  MISSED: {line}")


def verdict(figure_name: str, result: dict, missed: list[str]) -> str:
    """"   met (min 10)" beside a figure that has a budget."""
    limits = [f"{bound} {result['budgets'][f'{figure_name}_{bound}']:g}" for bound in ("min", "max")
              if f"{figure_name}_{bound}" in result["budgets"]]
    if not limits:
        return ""
    word = "missed" if any(m.startswith(figure_name + " is ") for m in missed) else "met"
    return f"   {word} ({', '.join(limits)})"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(usage="\n".join(__doc__.split("\n\n")[1].split("\n")))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--plant-wrong-answer", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("name", nargs="?")
    options = parser.parse_args()
    if not options.list and not options.name:
        parser.error("name a scenario, or use --list")
    return options


def main() -> None:
    options = parse()
    if options.list:
        for name in scenarios():
            print(f"{name:<18} {load(name).TITLE}")
        return
    scenario = load(options.name)
    rounds = options.rounds or getattr(scenario, "ROUNDS", ROUNDS)
    if not hasattr(scenario, "measure") and rounds < ROUNDS_MIN:
        sys.exit(f"bench: a race takes at least {ROUNDS_MIN} rounds, not {rounds}")
    work = ROOT / f"build/bench/{options.name}.work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    arena = Arena(ROOT, options.build.resolve(), work)
    try:
        if hasattr(scenario, "measure"):
            result = measure(scenario, arena, rounds)
        else:
            result = race(scenario, arena, rounds, options.plant_wrong_answer)
    except Refused as refused:
        sys.exit(f"bench: {options.name}: refused: {refused}")
    finally:
        arena.close()
        shutil.rmtree(work, ignore_errors=True)
    budgets = tomllib.loads((ROOT / "bench/budgets.toml").read_text()).get(options.name, {})
    not_raced = getattr(scenario, "NOT_RACED", {})
    missed = missed_budgets(result, budgets, not_raced)
    result |= {"not_raced": not_raced, "name": options.name, "title": scenario.TITLE, "budgets": budgets,
               "missed": missed, "cpus": os.cpu_count(), "load": os.getloadavg()[0]}
    (ROOT / f"build/bench/{options.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    show(options.name, scenario, result, missed)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
