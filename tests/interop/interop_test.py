#!/usr/bin/env python3
"""Our libp2p stack against the real ones of rust, js and go: builds the peers of ../shared/interop,
sets each against exo_interop_peer in every case, and prints what worked as a table.

usage: interop_test.py --exo-peer PROGRAM --work FOLDER [--foreign NAME,NAME] [--cases TEXT,TEXT]

All traffic stays on 127.0.0.1, but for mDNS, which gets two network namespaces of its own.

Exit status: 0 all went as it must, 1 something did not, 77 none of the foreign peers is to be had
here (the reason is printed, and ctest reports the test as skipped)."""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import sys
import time
import xml.etree.ElementTree as ET

import cases
import peers

SKIPPED = 77
NOT_APPLICABLE = "-"


@dataclasses.dataclass
class Outcome:
    verdict: str  # "ok", "FAIL", "skip"
    why: str = ""
    seconds: float = 0


def build_all(foreign, shared, work):
    """Commands of the peers that could be built, and why the others could not."""
    commands, missing = {}, {}
    # js is the cheapest by far: the one that stands at the other end of a row.
    wanted = sorted({*foreign, "js"})
    print(f"building {', '.join(wanted)}", flush=True)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        builds = {name: pool.submit(peers.build, name, shared, work / "peers")
                  for name in wanted}
    for name, future in builds.items():
        try:
            commands[name] = future.result()
        except peers.Skip as reason:
            missing[name] = str(reason)
    if "js" in commands:
        node, script = commands["js"]
        commands["js guest"] = [node, script.parent / "js_guest.mjs"]
    return commands, missing


def run_cell(case, cell):
    began = time.monotonic()
    try:
        wrong = cases.CASES[case](cell)
        outcome = Outcome("FAIL" if wrong else "ok", "; ".join(wrong))
    except peers.Broken as reason:
        outcome = Outcome("FAIL", str(reason))
    except peers.Skip as reason:
        outcome = Outcome("skip", str(reason))
    finally:
        cell.stop()
    outcome.seconds = time.monotonic() - began
    print(f"{outcome.verdict:4} {cell.dialer:4} dials {cell.listener:4} {case} "
          f"[{outcome.seconds:.1f} s] {outcome.why}", flush=True)
    return outcome


def title(foreign, ours_dials):
    return f"exo dials {foreign}" if ours_dials else f"{foreign} dials exo"


def run_all(names, foreign, commands, jobs, logs):
    """Outcomes by (case, title of the pair)."""
    futures, outcomes = {}, {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for case in names:
            for peer in foreign:
                for ours_dials in (True, False):
                    key = case, title(peer, ours_dials)
                    if case in cases.ONLY_JS and peer != "js":
                        outcomes[key] = Outcome(NOT_APPLICABLE)
                        continue
                    folder = logs / f"{case}, {key[1]}".replace(", ", "-").replace(" ", "-")
                    cell = cases.Cell(commands, peer, ours_dials, folder)
                    futures[key] = pool.submit(run_cell, case, cell)
    return outcomes | {key: future.result() for key, future in futures.items()}


# --- What is said about it ---


def table_of(names, titles, outcomes, missing):
    width = max(map(len, names))
    lines = [" ".join([" " * width, *titles])]
    for name in names:
        verdicts = (outcomes[name, pair].verdict.center(len(pair)) for pair in titles)
        lines.append(" ".join([name.ljust(width), *verdicts]))
    for (name, pair), outcome in outcomes.items():
        if outcome.why:
            lines.append(f"{outcome.verdict}: {pair}, {name}: {outcome.why}")
    lines += [f"skip: {peer}: {why}" for peer, why in missing.items()]
    for peer, size in cases.LARGEST_OF_THEIRS.items():
        if any(peer in pair for pair in titles):
            lines.append(f"8 MiB messages: {peer} takes them; it sends {size} bytes at most")
    if any(outcome.verdict == NOT_APPLICABLE for outcome in outcomes.values()):
        lines.append("-: this peer has no flag to misbehave")
    return "\n".join(line.rstrip() for line in lines)


def write_report(folder, name, outcomes, table):
    """For tools/run_tests: the cells as cases, and the table."""
    folder.mkdir(parents=True, exist_ok=True)
    suite = ET.Element("testsuite", name=name)
    for (case, pair), outcome in outcomes.items():
        if outcome.verdict == NOT_APPLICABLE:
            continue
        cell = ET.SubElement(suite, "testcase", classname=name, name=f"{pair}, {case}",
                             time=f"{outcome.seconds:.1f}")
        if outcome.verdict != "ok":
            kind = "failure" if outcome.verdict == "FAIL" else "skipped"
            ET.SubElement(cell, kind, message=outcome.why)
    ET.ElementTree(suite).write(folder / f"{name}.xml")
    (folder / f"{name}.txt").write_text(table + "\n")


def arguments():
    source = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exo-peer", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--shared", type=pathlib.Path, default=source.parent / "shared/interop")
    parser.add_argument("--foreign", default=",".join(peers.BUILDERS))
    parser.add_argument("--cases", default="", help="parts of the names of the cases to run")
    parser.add_argument("--jobs", type=int, default=6, help="cells at a time; most of them wait")
    parser.add_argument("--name", default="interop", help="of the report, in $EXO_TEST_REPORTS")
    return parser.parse_args()


def main():
    args = arguments()
    work = args.work.resolve()
    foreign = args.foreign.split(",")
    commands, missing = build_all(foreign, args.shared, work)
    there = [name for name in foreign if name in commands]
    if not there:
        print("\n".join(f"skipped: {name}: {why}" for name, why in missing.items()))
        return SKIPPED
    commands["exo"] = [args.exo_peer.resolve()]
    wanted = args.cases.split(",")
    names = [name for name in cases.CASES if any(part in name for part in wanted)]
    outcomes = run_all(names, there, commands, args.jobs, work / "logs" / args.name)
    titles = [title(name, ours_dials) for name in there for ours_dials in (True, False)]
    table = table_of(names, titles, outcomes, missing)
    print(f"\n{table}\n(logs: {work / 'logs' / args.name})")
    if folder := os.environ.get("EXO_TEST_REPORTS"):
        write_report(pathlib.Path(folder), args.name, outcomes, table)
    return 1 if any(outcome.verdict == "FAIL" for outcome in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
