#!/usr/bin/env python3
"""check-docs.py [--fix] [--try] [--program FIRM] [FILE ...] - what a script can say of the documents; part of `make test`.

  - no sentence has more than 35 words, by either of two ways to cut a page into sentences;
  - links lead to files, headings and anchors that exist; docs/README.md lists every page, docs/results/README.md every result file;
  - a term is defined once, in docs/concepts.md, other documents use it, and none of the other words that the page lists for it is used instead;
  - every figure is in a result file (below);
  - README's table of results is, line by line, one of docs/results/report.md, which `firm report` makes.

A figure is a number with a decimal point, a percentage, a time, a rate, a count like `97 of 100`. It stands below one of two marks, each of
which holds to the next mark or heading:

    <!-- figures: SOURCE ... -->   figures and all numbers of tables are in these files of docs/results, as they stand there or rounded.
                                   A source is FILE, or FILE#WORD: only the lines of it that contain WORD. Where all sources are lines
                                   of measured.jsonl, the numbers of a table's row also follow one another there
    <!-- figures: given -->        nobody measured these: settings, limits, definitions

A number of one or two digits is nearly always somewhere in a file. So a mark can say of a table where each number stands: a line for
each row (or for the row of headings, too), and in it a value for each number of the row, in order.

    <!-- figures: results-pusht.jsonl
    | audit-pusht.json:anchors :h5_mean :h5_p95 :max =25 |
    | * |
    -->

LINE:PATH is a number of the one line of the sources that LINE, a regular expression with ~ for spaces, finds: a path through its JSON, or
the number's place in the line, from 1. :PATH is of the same line as the value before. =25 is a number that nobody measured. Of a row with
* the sources are enough.

Inline code, text in quotes and versions of other programs are no figures.

With --fix README gets the table of results anew first. With --program the help texts of that program are read, too. With --try every
measured figure is changed in its last digit, one after the other, and those that nobody would notice are named; exit status 1 if they are
more than one of fifty. Without FILE all documents are read. Exit status 1 if something is wrong, with a line for each complaint.
"""
import argparse
import functools
import json
import os
import re
import subprocess
import sys
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
RESULTS = os.path.join(ROOT, "docs", "results")
CONCEPTS = os.path.join(ROOT, "docs", "concepts.md")
MOST_WORDS = 35
MADE = {"docs/results/report.md"}  # by the program, from the result files


def documents():
    names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "python/README.md"]
    for folder in ("docs", "docs/results"):
        names += sorted(f"{folder}/{f}" for f in os.listdir(os.path.join(ROOT, folder)) if f.endswith(".md"))
    return names


# ---- text --------------------------------------------------------------------------------------------------------------------


def without_code(lines):
    """Lines with fenced blocks emptied, so that numbers stay those of the file."""
    inside, out = False, []
    for line in lines:
        fence = re.match(r"\s*(```|~~~)", line)
        out.append("" if inside or fence else line)
        if fence:
            inside = not inside
    return out


def without_comments(lines):
    """Lines with comments emptied, so that numbers stay those of the file."""
    inside, out = False, []
    for line in lines:
        out.append("" if inside else re.sub(r"<!--.*?(-->|$)", "", line))
        inside = "-->" not in line if inside else re.search(r"<!--(?!.*-->)", line) is not None
    return out


def plain(text):
    """Markdown as a reader sees it: an inline piece of code is one word, a link is its text."""
    text = re.sub(r"`+[^`]*`+", "`x`", text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"<[^>]+>|[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}", "", text)


def blocks(lines):
    """(number of the first line, text) of every paragraph, list item, heading and cell."""
    text, start = "", 0
    for number, line in enumerate(without_code(lines) + [""], 1):
        item = re.match(r"\s*([-*+]|\d+\.)\s+", line)
        table = line.lstrip().startswith("|")
        if text and (not line.strip() or item or table or line.startswith("#")):
            yield start, text
            text = ""
        if table:
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                yield number, cell
        elif line.startswith("#"):
            yield number, line.lstrip("# ")
        elif line.strip():
            start = start if text else number
            text += " " + (line[item.end():] if item else line)


ABBREVIATION = r"(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)(?<!cf\.)(?<!pct\.)(?<!no\.)"


def sentences(text):
    return re.split(ABBREVIATION + r"(?<=[.!?])[\")”’]*\s+", plain(text).strip())


def words(sentence):
    return [w for w in sentence.split() if re.search(r"[A-Za-z0-9]", w)]


def lines_as_text(lines):
    """(number of the line, sentence) with code and comments counted word by word and a list item part of its sentence."""
    code = without_code(lines)
    kept = [(n, line) for n, line in enumerate(code, 1) if not line.lstrip().startswith(("|", "#")) and (line or not lines[n - 1].strip())]
    text, place = "\n".join(line for _, line in kept), 0
    for cut in re.finditer(r"(?<=[.!?:])\s+|\n\s*[-*0-9]|\n\n|$", text):
        if cut.start() > place:
            yield kept[text.count("\n", 0, place)][0], text[place:cut.start()]
        place = cut.end()


def check_sentences(name, lines, complain):
    found = {}
    for number, text in blocks(without_comments(lines)):
        for sentence in sentences(text):
            found.setdefault((number, len(words(sentence))), sentence)
    for number, sentence in lines_as_text(lines):
        found.setdefault((number, len(sentence.split())), sentence)
    for (number, count), sentence in sorted(found.items()):
        if count > MOST_WORDS:
            complain(name, number, f"{count} words: {' '.join(sentence.split()[:9])} ...")


# ---- links -------------------------------------------------------------------------------------------------------------------


def anchor(heading):
    """As GitHub makes it of a heading."""
    text = re.sub(r"`", "", plain(heading.replace("`", "")))
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors(path, known={}):
    if path not in known:
        found = {}
        with open(path, encoding="utf-8") as f:
            lines = f.read().split("\n")
        for line in without_code(lines):
            if re.match(r"#+ ", line):
                name = anchor(line.lstrip("# "))
                found[name] = found.get(name, -1) + 1
            for explicit in re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line):
                found[explicit] = 0
        known[path] = {n if k == 0 else f"{n}-{k}" for n, times in found.items() for k in range(times + 1)}
    return known[path]


def check_links(name, lines, complain):
    folder = os.path.dirname(os.path.join(ROOT, name))
    for number, line in enumerate(without_code(lines), 1):
        line = re.sub(r"`[^`]*`", "", line)
        for target in re.findall(r"\]\(([^)\s]+)\)", line) + re.findall(r"(?:src|href)=\"([^\"]+)\"", line):
            if re.match(r"(https?|mailto):", target):
                continue
            path, _, part = target.partition("#")
            path = os.path.normpath(os.path.join(folder, path)) if path else os.path.join(ROOT, name)
            if not os.path.exists(path):
                complain(name, number, f"{target} does not exist")
            elif part and path.endswith(".md") and part not in anchors(path):
                complain(name, number, f"there is no heading #{part} in {os.path.relpath(path, ROOT)}")


# ---- terms -------------------------------------------------------------------------------------------------------------------


def read_terms(complain):
    """term -> words that must not stand for it: rows `| **term** | meaning | word; word |` of docs/concepts.md."""
    terms = {}
    with open(CONCEPTS, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            row = re.match(r"\|\s*(\*\*.+?\*\*)\s*\|(.+)\|([^|]*)\|\s*$", line)
            for term in re.findall(r"\*\*(.+?)\*\*", row.group(1)) if row else []:
                if term in terms:
                    complain("docs/concepts.md", number, f"{term} is defined twice")
                terms[term] = [w.strip() for w in row.group(3).split(";") if w.strip() not in ("", "–", "-")]
    if len(terms) < 20:
        complain("docs/concepts.md", 1, f"only {len(terms)} terms were found")
    return terms


def check_terms(name, lines, terms, complain):
    """No word stands for a term that docs/concepts.md says it must not; returns the terms that are used."""
    used = set()
    for number, line in enumerate(without_code(lines), 1):
        text = plain(line)
        for term, others in terms.items():
            if re.search(rf"\b{re.escape(term)}(s|es)?\b", line, re.IGNORECASE):
                used.add(term)
            for other in others:
                if re.search(rf"\b{re.escape(other)}s?\b", text, re.IGNORECASE):
                    complain(name, number, f"'{other}' stands for '{term}'; docs/concepts.md has the word")
    return used


def check_index(complain):
    """docs/README.md leads to every page, docs/results/README.md to every result file."""
    pages = "\n".join(read("docs/README.md"))
    for name in documents():
        if name.startswith("docs/") and name != "docs/README.md" and f"({name[5:]})" not in pages:
            complain("docs/README.md", 1, f"{name} is not in the index")
    files = "\n".join(read("docs/results/README.md"))
    for name in os.listdir(RESULTS):
        if name != "README.md" and re.sub(r"^results-.*\.", "results-TASK.", name) not in files:
            complain("docs/results/README.md", 1, f"{name} is not explained")


# ---- figures -----------------------------------------------------------------------------------------------------------------

NUMBER = r"(?<![\w.])[-−+]?(?:\d{1,3}(?:[,\u2009]\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w|\.\d)"
RATIO = NUMBER.replace(r"(?!\w|\.\d)", r"x(?!\w)")  # 1.39x
UNIT = r"\s*(%|(ms|s|min|px|dB|rad|seconds?|minutes?|hours?|microseconds?|milliseconds?|tolerances?|times|\S+/s)(?![\w]))"
VERSIONS = (r"\b(version|Python|PyTorch|torch|MuJoCo|mujoco|CMake|HDF5|Chipmunk|Zen|Debian|gcc|oneDNN|BLIS|transformers|"
            r"compute capability|Apache|C)[- ]v?\d+(\.\d+)*|\b95 %(?= intervals?\b)")


def as_digits(found):
    return re.sub(r"[,\u2009+x]", "", found).replace("−", "-")


def numbers(text):
    for found in re.findall(rf"{RATIO}|{NUMBER}", text):
        yield found, as_digits(found)


def figures(text):
    """The numbers of a text that look as if somebody had measured them."""
    for match in re.finditer(rf"{RATIO}|{NUMBER}", text):
        found, rest, before = match.group(), text[match.end():], text[:match.start()]
        if ("." in found or "x" in found or re.search(r"\d[eE]-", found) or re.match(UNIT, rest) or re.match(r" of \d+\b", rest)
                or re.search(r"\d of $", before)):
            yield found, as_digits(found)


def json_numbers(value):
    """Numbers of a JSON value and of its texts; not of long lists, which hold something of every trial or frame."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from (d for _, d in numbers(key))
            yield from json_numbers(item)
    elif isinstance(value, list):
        for item in value if len(value) <= 16 else []:
            yield from json_numbers(item)
    elif isinstance(value, str):
        yield from (d for _, d in numbers(value))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield repr(value)


def source_numbers(source, known={}):
    """The numbers of FILE or of the lines of FILE#WORD that contain the word, in order; None if there is no such file or line."""
    if source not in known:
        file, _, word = source.partition("#")
        path = os.path.join(RESULTS, file)
        lines = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                lines = [line for line in f.read().split("\n") if word in line and line.strip()]
        if file.endswith(".jsonl"):
            found = (d for line in lines for d in json_numbers(json.loads(line)))
        elif file.endswith(".json"):
            found = json_numbers(json.loads("\n".join(lines)))
        else:
            found = (d for line in lines for _, d in numbers(line))
        known[source] = [Decimal(d) for d in found] if lines else None
    return known[source]


@functools.cache
def is_in_sources(digits, *sources):
    return is_in(digits, sum(map(source_numbers, sources), []))


def is_in(digits, values):
    """Does one of the values read so, with as many decimals?"""
    wanted = abs(Decimal(digits))
    unit = Decimal(1).scaleb(wanted.as_tuple().exponent)
    for v in values:
        v = abs(v)
        if v == wanted:
            return True
        if abs(v - wanted) < unit and any(v.quantize(unit, r) == wanted for r in (ROUND_HALF_EVEN, ROUND_HALF_UP)):
            return True
    return False


def follow(row, values):
    """Do the numbers of a row follow one another among the values?"""
    return any(all(is_in(d, [v]) for d, v in zip(row, values[i:])) for i in range(len(values) - len(row) + 1))


@functools.cache
def line_of(files, pattern):
    """The one line of the files that the pattern finds: its JSON, or its numbers. A sentence if there is no such line."""
    wanted, found = re.compile(pattern.replace("~", r"\s+")), []
    for file in files:
        found += [(file, line) for line in read(f"docs/results/{file}") if wanted.search(line)]
    if len(found) != 1:
        return f"{len(found)} lines of {' '.join(files)} have {pattern}"
    file, line = found[0]
    if not file.endswith(".jsonl"):
        return [Decimal(d) for _, d in numbers(line)]
    value = json.loads(line)
    return value.get("result", value.get("figures", value))


def value_at(line, path):
    """The number at a path through JSON, or at a place in a line; None if there is none."""
    if path.isdigit() and (isinstance(line, list) or path not in line):
        flat = line if isinstance(line, list) else [Decimal(d) for d in json_numbers(line)]
        return flat[int(path) - 1] if 0 < int(path) <= len(flat) else None
    for key in path.split("."):
        if isinstance(line, list) and key.isdigit() and int(key) < len(line):
            line = line[int(key)]
        elif isinstance(line, dict) and key in line:
            line = line[key]
        else:
            return None
    return Decimal(repr(line)) if isinstance(line, (int, float)) and not isinstance(line, bool) else None


def row_values(files, row, say):
    """The values that a line of a mark names, None for each that is not there; None for `*`."""
    values, pattern = [], ""
    if row.strip("| \t") == "*":
        return None
    for token in row.strip("| \t").split():
        if token.startswith("="):
            values.append(Decimal(as_digits(token[1:])))
            continue
        name, _, path = token.rpartition(":")
        pattern = name or pattern
        line = line_of(files, pattern)
        values.append(None if isinstance(line, str) else value_at(line, path))
        if isinstance(line, str):
            say(line)
        elif values[-1] is None:
            say(f"{pattern} has no number at {path}")
    return values


def table_after(lines, at):
    """Numbers of the lines of the next table from line `at` on: its headings, then its rows."""
    while at < len(lines) and not lines[at].lstrip().startswith("|"):
        at += 1
    end = at
    while end < len(lines) and lines[end].lstrip().startswith("|"):
        end += 1
    return [at] + list(range(at + 2, end))


def read_mark(lines, at):
    """What a mark says, its lines for rows, and the line after it; None where no mark begins."""
    begin = re.match(r"\s*<!-- figures:\s+(.*)", lines[at])
    if not begin:
        return None
    end = at
    while "-->" not in lines[end] and end + 1 < len(lines):
        end += 1
    text = [begin.group(1)] + lines[at + 1:end + 1]
    text = [t.partition("-->")[0].strip() for t in text]
    return text[0], [t for t in text[1:] if t], end + 1


def measured_text(line):
    """A line without what holds no figures, every number where it was."""
    line = re.sub(r"`+[^`]*`+|\"[^\"]*\"|\]\([^)]*\)|<[^>]+>", lambda m: " " * len(m.group()), line)
    return re.sub(VERSIONS, lambda m: " " * len(m.group()), re.sub(r"[*_]", " ", line))


def marked_lines(name, lines, complain):
    """(number, line, sources, given, row) of every line that may hold figures; row: what a mark says of this line, or None."""
    code, sources, given, rows, at = without_code(lines), [], False, {}, 0
    while at < len(code):
        line, mark = code[at], read_mark(code, at)
        if mark or line.startswith("#"):
            given = bool(mark) and mark[0] == "given"
            sources = mark[0].split() if mark and not given else []
            for source in [s for s in sources if source_numbers(s) is None]:
                complain(name, at + 1, f"docs/results has no {source}")
                sources.remove(source)
            if mark and mark[1]:
                table = table_after(code, mark[2])
                table = table if len(mark[1]) == len(table) else table[1:]
                if len(mark[1]) != len(table):
                    complain(name, at + 1, f"the mark has {len(mark[1])} lines, the table below {len(table)} rows")
                rows.update(zip(table, mark[1]))
            at = mark[2] if mark else at + 1
            continue
        if not line.startswith("    "):  # code, too
            yield at + 1, line, sources, given, rows.get(at)
        at += 1


def check_row(name, number, found, sources, row, complain):
    """Each number is the one that the mark names. False if the mark names none."""
    files = tuple(dict.fromkeys(s.partition("#")[0] for s in sources))
    values = row_values(files, row, lambda text: complain(name, number, text))
    if values is None:
        return False
    if len(values) != len(found):
        complain(name, number, f"this row has {len(found)} numbers, its mark {len(values)}")
    for (shown, digits), value in zip(found, values):
        if value is not None and not is_in(digits, [value]):
            complain(name, number, f"{shown} stands here, {value} in {' '.join(sources)}")
    return True


def check_figures(name, lines, complain):
    for number, line, sources, given, row in marked_lines(name, lines, complain):
        text = measured_text(line)
        table = line.lstrip().startswith("|")
        found = list(numbers(text) if table and sources else figures(text))
        if row and check_row(name, number, found, sources, row, complain):
            continue
        missing = [shown for shown, digits in found if sources and not is_in_sources(digits, *sources)]
        if not sources and not given:
            for shown, _ in found:
                complain(name, number, f"{shown} stands below no mark <!-- figures: ... -->")
        for shown in missing:
            complain(name, number, f"{shown} is not in {' '.join(sources)}")
        if (table and sources and not missing and all(s.startswith("measured.jsonl#") for s in sources)
                and not any(follow([d for _, d in found], source_numbers(s)) for s in sources)):
            complain(name, number, f"the numbers of this row do not follow one another in {' '.join(sources)}")


# ---- how much of this is noticed ---------------------------------------------------------------------------------------------


def places(text, table):
    """Where the figures of a line begin and end."""
    known = {shown for shown, _ in figures(text)}
    for match in re.finditer(rf"{RATIO}|{NUMBER}", text):
        if table or match.group() in known:
            yield match.span()


def changed(shown):
    """A number whose last digit is another one."""
    last = max(i for i, c in enumerate(shown) if c.isdigit())
    return shown[:last] + str((int(shown[last]) + 1) % 10) + shown[last + 1:]


def complaints(name, lines):
    wrong = []
    check_figures(name, lines, lambda *what: wrong.append(what))
    if name == "README.md":
        check_readme(lines, lambda *what: wrong.append(what))
    return len(wrong)


def try_figures(names):
    """Changes every measured figure by itself; returns how many were tried, and a line for each that went unnoticed."""
    tried, unnoticed = 0, []
    for name in names:
        lines = read(name)
        before = complaints(name, lines)
        for number, line, sources, _, _ in marked_lines(name, lines, lambda *what: None):
            for begin, end in places(measured_text(line), line.lstrip().startswith("|")) if sources else []:
                shown, tried = line[begin:end], tried + 1
                other = lines[:number - 1] + [line[:begin] + changed(shown) + line[end:]] + lines[number:]
                if complaints(name, other) <= before:
                    unnoticed.append(f"{name}:{number}: {shown} could be {changed(shown)}")
    return tried, unnoticed


MARK, HEADING = "<!-- figures: report.md -->", "## The shipped models on fresh trials"


def fix_readme():
    """Puts the program's table into README, below its mark."""
    with open(os.path.join(RESULTS, "report.md"), encoding="utf-8") as f:
        part = f.read().partition(HEADING)[2].partition("\n## ")[0]
    table = [line for line in part.split("\n") if line.startswith("|")]
    path = os.path.join(ROOT, "README.md")
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    if not table or MARK not in lines:
        raise SystemExit("check-docs: report.md has no table of the shipped models, or README no place for it")
    start = end = lines.index(MARK) + 1
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines[:start] + table + lines[end:]))


def check_readme(lines, complain):
    """The table of results is the program's."""
    with open(os.path.join(RESULTS, "report.md"), encoding="utf-8") as f:
        made = set(f.read().split("\n"))
    inside, rows = False, 0
    for number, line in enumerate(lines, 1):
        if MARK in line:
            inside = True
        elif inside and line.startswith("|"):
            rows += 1
            if line not in made:
                complain("README.md", number, "not a line of docs/results/report.md; scripts/check-docs.py --fix copies the table")
        elif inside and rows:
            inside = False
    if not rows:
        complain("README.md", 1, "there is no table of results from report.md")


# ---- all ---------------------------------------------------------------------------------------------------------------------


def help_texts(program):
    """(name, lines) of everything that `firm help` says: the usage is left out, the summary and every option stand alone."""

    def ask(*words):
        text = subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout
        lines = re.sub(r"\n {33}(?=\S)", " ", text).split("\n")  # an option's help goes on below its first words
        lines = ["" if re.match(r"(       )?firm [a-z]", line) else line for line in lines]
        summary = next((i for i, line in enumerate(lines) if line), 0)
        return [f"- {line.strip()}\n" if i == summary or line.startswith("  ") else line for i, line in enumerate(lines)]

    commands = [m for line in ask("--help") for m in re.findall(r"^- firm (?!help )([a-z]+) ", line)]
    for topic in ["", *commands, "settings"]:
        yield f"firm help {topic}".strip(), "\n".join(ask("help", *topic.split())).split("\n")


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read().split("\n")


def main():
    wrong = []

    def complain(name, number, text):
        wrong.append(f"{name}:{number}: {text}")

    parser = argparse.ArgumentParser(description="checks the documents", epilog=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--try", action="store_true", dest="tried")
    parser.add_argument("--program")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    if options.fix:
        fix_readme()
    terms, used = read_terms(complain), set()
    all_of_them = [n for n in documents() if n not in MADE]
    if options.tried:
        tried, unnoticed = try_figures(all_of_them)
        print("\n".join(unnoticed + [f"check-docs: {tried - len(unnoticed)} of {tried} changed figures are noticed"]))
        return 1 if 50 * len(unnoticed) > tried else 0
    names = [os.path.relpath(os.path.abspath(n), ROOT) for n in options.files] or documents()
    for name in names:
        lines = read(name)
        shown = without_comments(lines)
        check_links(name, shown, complain)
        check_sentences(name, lines, complain)
        if name != "docs/concepts.md":
            used |= check_terms(name, shown, terms, complain)
        if name not in MADE:
            check_figures(name, lines, complain)
        if name == "README.md":
            check_readme(lines, complain)
    for name, lines in help_texts(options.program) if options.program else []:
        check_sentences(name, lines, complain)
        used |= check_terms(name, lines, terms, complain)
    if not options.files:
        check_index(complain)
        for term in sorted(terms.keys() - used):
            complain("docs/concepts.md", 1, f"no other document uses the term '{term}'")
    print("\n".join(wrong) if wrong else f"check-docs: {len(names)} documents, {len(terms)} terms, nothing wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
