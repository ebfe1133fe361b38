#!/usr/bin/env python3
"""Checks what no compiler checks: layers, purity, compiler traps, sizes, form.

    tools/tidy.py               the whole tree, with clang-format
    tools/tidy.py --no-format   without clang-format
    tools/tidy.py --shrink      rewrites the list of long functions; it may only get shorter

Rules and reasons: CONTRIBUTING.md. The layers are read from cmake/exo_library.cmake.
"""
import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "sim", "fuzz", "tests", "bench", "tools", "cmake", "docs", "third_party", ".ci")
LONG_FUNCTIONS = "tools/long_functions.txt"

COLUMNS_MAX = 100
FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70

# Code that decides: time, randomness and bytes are its arguments; it runs on its caller's thread.
# Their tests may read vectors and golden files.
PURE = re.compile(
    r"src/(model|core|ipc/(?!channel)|net/(?!host/|interfaces/|dnssd/driver/)|api/(?!http/))"
    r"(?!.*tests/)"
)
# Code that acts: the only places where Asio may be included.
DRIVERS = re.compile(
    r"src/(net/host|net/dnssd/driver|api/http|collective/tcp|storage|system|node|runner|main)/|tests/"
    r"|^(sim|fuzz|bench)/"
)
CXX = re.compile(r"\.(cpp|hpp)$")
TEXT = re.compile(r"\.(cpp|hpp|proto|py|sh|cmake|txt|md|json|yml|toml)$|/[A-Za-z_-]+$|^Makefile$")

# Spelled so that this file does not contain what it bans.
LATER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
REGISTRIES = re.compile(
    r"pypi[.]org|pythonhosted[.]|registry[.]npmjs|crates[.]io|proxy[.]golang"
    r"|deb[.]debian[.]org|repo1[.]maven"
)


@dataclasses.dataclass(frozen=True)
class Ban:
    where: re.Pattern
    what: re.Pattern
    why: str


def ban(where, what, why):
    return Ban(re.compile(where) if isinstance(where, str) else where, re.compile(what), why)


BANS = [
    ban(PURE, r"_clock::now\(|\btime\(nullptr\)|\bgettimeofday\(", "pure code is told the time"),
    ban(PURE, r"\bstd::(thread|jthread|mutex|atomic|async|condition_variable)\b",
        "pure code runs on its caller's thread"),
    ban(PURE, r"\bstd::(random_device|mt19937|uniform_|normal_dist|shuffle\b)",
        "pure code uses exo::Random, which gives the same values everywhere"),
    ban(PURE, r"\bstd::unordered_", "its order of iteration differs between nodes"),
    ban(PURE, r"\b(getenv|fopen|std::[io]?fstream)\b", "pure code has no files and no environment"),
    ban(r"src/core/", r"\b(float|double)\b", "decisions are made in integers"),
    ban(r"^(src|sim|tests)/", r"\basio::detached\b", "every coroutine has an owner"),
    ban(r"src/", r"catch \(\.\.\.\)", "catch what can be thrown, and turn it into a Result"),
    # The ranks' and the node's tests are about time that passes: beats, time-outs.
    ban(r"src/(?!collective|node|runner).*/tests/",
        r"\b(sleep_for|sleep_until|usleep|nanosleep)\b", "tests do not sleep"),
]


def read_layers(text):
    """The table of cmake/exo_library.cmake: what each layer may use besides itself."""
    rows = re.findall(r'^set\(EXO_MAY_USE_([a-z]+)\s+([^)]*)\)', text, re.MULTILINE)
    return {layer: set(re.findall(r"[a-z]+", used)) for layer, used in rows}


def blank(text):
    """C++ without the content of comments, strings and characters; every position stays."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(\\.|[^'\\\n])+'",
        re.DOTALL,
    )

    def spaces(found):
        whole = found[0]
        if whole.startswith("/"):
            return re.sub(r"[^\n]", " ", whole)
        return whole[0] + re.sub(r"[^\n]", "_", whole[1:-1]) + whole[-1]

    return pattern.sub(spaces, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def is_initializer(code, brace):
    """Whether the `{` there begins a braced value. clang-format sets a block's brace off by a
    space, and a value's not, unless an operator comes before it."""
    before = code[:brace].rstrip()
    if not before:
        return False
    if re.search(r"(\breturn|\bco_return|\bco_yield|[(,=?:&|])$", before):
        return not re.search(r"[^:]:$|\)\s*:$", before)
    return before[-1] not in ")]}{;" and len(before) == brace


def matching(code, opening, closing, position):
    depth = 0
    for index in range(position, len(code)):
        if code[index] == opening:
            depth += 1
        elif code[index] == closing:
            depth -= 1
            if depth == 0:
                return index
    return len(code) - 1


def full_expression(code, position):
    """Start and end of the expression around `position`: the lambda bodies in it are blanked."""
    start, depth = position, 0
    while start > 0:
        char = code[start - 1]
        if char in ")]":
            depth += 1
        elif char in "([":
            depth -= 1
        elif char == ";" and depth <= 0:
            break
        elif char == "}" and depth <= 0 and not closes_initializer(code, start - 1):
            break
        elif char == "{" and not is_initializer(code, start - 1) and depth <= 0:
            break
        start -= 1
    end, depth, pieces = position, 0, [code[start:position]]
    while end < len(code):
        char = code[end]
        if char == ";":
            break
        if char == "{" and not is_initializer(code, end):
            if depth <= 0:
                break
            end = matching(code, "{", "}", end) + 1
            pieces.append("{ }")
            continue
        depth += (char in "([") - (char in ")]")
        pieces.append(char)
        end += 1
    return "".join(pieces)


def closes_initializer(code, brace):
    depth = 0
    for index in range(brace, -1, -1):
        if code[index] == "}":
            depth += 1
        elif code[index] == "{":
            depth -= 1
            if depth == 0:
                return is_initializer(code, index)
    return False


TWICE = "g++ 12 destroys a {} beside co_await twice: name it first"
LAMBDA = re.compile(r"(?:^|[^\w\])\s]|return|co_await)\s*\[([^\[\]]+)\]\s*(?:\(|\{|mutable)")


def check_awaits(name, code):
    """g++ 12 destroys some temporaries twice when they share a full expression with co_await."""
    for found in re.finditer(r"\bco_await\b", code):
        expression = full_expression(code, found.start())
        where = f"{name}:{line_of(code, found.start())}"
        braces = [m.start() for m in re.finditer(r"\{", expression)]
        if any(is_initializer(expression, brace) for brace in braces):
            yield f"{where}: {TWICE.format('braced temporary')}"
        if LAMBDA.search(expression):
            yield f"{where}: {TWICE.format('capturing lambda')}"


SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$")


def functions(code):
    """Name, first line and number of lines of every function with a body, lambdas aside."""
    index, since, stack = 0, 0, []
    while index < len(code):
        char = code[index]
        if char == "{":
            head = code[since:index]
            outside = all(kind == "scope" for kind, _, _ in stack)
            if outside and SCOPE.search(head):
                stack.append(("scope", "", index))
            elif outside and "(" in head:
                name = re.search(r"([~\w:]+(?:[^\w\s(]+)?)\s*\(", head)
                first = since + len(head) - len(head.lstrip())
                stack.append(("function", name[1] if name else "?", first))
            else:
                stack.append(("other", "", index))
            since = index + 1
        elif char == "}" and stack:
            kind, name, first = stack.pop()
            if kind == "function":
                yield name, line_of(code, first), code.count("\n", first, index) + 1
            since = index + 1
        elif char == ";":
            since = index + 1
        index += 1


def check_layers(name, text, layers):
    if not name.startswith("src/"):
        return
    layer = name.split("/")[1]
    if layer not in layers:
        yield f"{name}: layer '{layer}' is not in cmake/exo_library.cmake"
        return
    for number, line in enumerate(text.splitlines(), 1):
        used = re.match(r'#include "(\w+)/', line)
        if used and used[1] in layers and used[1] not in layers[layer] | {layer}:
            yield f"{name}:{number}: layer '{layer}' may not use '{used[1]}'"
        if re.match(r"#include <boost/(asio|beast|process)", line) and not DRIVERS.search(name):
            yield f"{name}:{number}: only drivers include Asio"
        if re.match(r'#include [<"](ggml|gguf|llama|mtmd|common|chat|sampling)[\w-]*\.h[>"]', line):
            if layer not in ("engine", "runner"):
                yield f"{name}:{number}: llama.cpp and ggml are known to 'engine' and 'runner' only"


def check_cxx(name, text, layers):
    if not text.startswith("// SPDX-License-Identifier: Apache-2.0\n"):
        yield f"{name}:1: the first line is '// SPDX-License-Identifier: Apache-2.0'"
    if name.endswith(".hpp") and "\n#pragma once\n" not in text:
        yield f"{name}:1: no '#pragma once'"
    yield from check_layers(name, text, layers)
    code = blank(text)
    for rule in BANS:
        if rule.where.search(name):
            for found in rule.what.finditer(code):
                yield f"{name}:{line_of(code, found.start())}: {found[0]}: {rule.why}"
    yield from check_awaits(name, code)


def check_markdown(name, text):
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^# ", prose, re.MULTILINE)
    if len(titles) != 1 or not text.startswith("# "):
        yield f"{name}:1: a page begins with its one '# ' title ({len(titles)} found)"


def check_text(name, text, layers):
    """Everything about one file that can be said without running another program."""
    lines = text.splitlines()
    wide = name.endswith(".md") or "testdata" in name or name.startswith("third_party/")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX and not wide and "http" not in line:
            yield f"{name}:{number}: {len(line)} columns: {COLUMNS_MAX} at most"
        if line != line.rstrip():
            yield f"{name}:{number}: space at the end of the line"
        if LATER.search(line):
            yield f"{name}:{number}: do it now, or file an issue"
        if REGISTRIES.search(line):
            yield f"{name}:{number}: a package registry is reached by its client, never named"
    if len(lines) > FILE_LINES_MAX and not wide:
        yield f"{name}: {len(lines)} lines: split it ({FILE_LINES_MAX} at most)"
    if name.endswith("CMakeLists.txt") and name != "CMakeLists.txt" and not text.startswith("# "):
        yield f"{name}:1: begins with one line that says what the folder is for"
    if name.endswith(".md"):
        yield from check_markdown(name, text)
    if CXX.search(name):
        yield from check_cxx(name, text, layers)


def read_allowed(text):
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {(path, name): int(lines) for path, name, lines in rows}


def long_functions(files):
    """The longest function of each name that is over the limit, with its line."""
    found = {}
    for name, text in files.items():
        if CXX.search(name):
            for function, line, lines in functions(blank(text)):
                key = (name, function)
                if lines > max(FUNCTION_LINES_MAX, found.get(key, (0, 0))[1]):
                    found[key] = (line, lines)
    return found


def check_functions(found, allowed):
    for (name, function), (line, lines) in sorted(found.items()):
        limit = allowed.get((name, function), FUNCTION_LINES_MAX)
        if lines > limit:
            yield f"{name}:{line}: {function} has {lines} lines: {limit} at most"
    for (name, function), lines in sorted(allowed.items()):
        now = found.get((name, function), (0, 0))[1]
        if now < lines:
            yield f"{LONG_FUNCTIONS}: {function} of {name} is shorter now: tools/tidy.py --shrink"


def shrink(found, allowed):
    """Rewrites the list of long functions, and returns it. Nothing is added, nothing grows."""
    kept = {}
    for key, limit in allowed.items():
        lines = found.get(key, (0, 0))[1]
        if lines:
            kept[key] = min(lines, limit)
    path = ROOT / LONG_FUNCTIONS
    rows = [f"{name} {function} {lines}" for (name, function), lines in sorted(kept.items())]
    path.write_text("\n".join([path.read_text().split("\n")[0], *rows]) + "\n")
    return kept


def check_format(names):
    command = ["clang-format-19", "--dry-run", "--Werror", "--ferror-limit=1", *names]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    pattern = re.compile(r"^(?:\./)?([^:\n]+:\d+):\d+: error: code should be", re.MULTILINE)
    yield from (f"{where}: not as clang-format has it: make format"
                for where in pattern.findall(result.stderr))
    if result.returncode and not pattern.search(result.stderr):
        yield f"clang-format-19: {result.stderr.strip()}"


def read_tree():
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    paths += [path for path in ROOT.iterdir() if not path.name.startswith("compile_commands")]
    files = {}
    for path in sorted(paths):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and TEXT.search(name) and "__pycache__" not in name:
            try:
                files[name] = path.read_text()
            except UnicodeDecodeError:
                pass  # A corpus file: bytes, not text.
    return files


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-format", action="store_true")
    parser.add_argument("--shrink", action="store_true")
    arguments = parser.parse_args()
    files = read_tree()
    layers = read_layers(files["cmake/exo_library.cmake"])
    allowed = read_allowed(files.get(LONG_FUNCTIONS, ""))
    found = long_functions(files)
    if arguments.shrink:
        allowed = shrink(found, allowed)
    problems = []
    for name, content in files.items():
        problems += check_text(name, content, layers)
    problems += check_functions(found, allowed)
    if not arguments.no_format:
        problems += check_format([name for name in files if CXX.search(name)])
    print("\n".join(problems) if problems else f"tidy: {len(files)} files")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
