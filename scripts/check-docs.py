#!/usr/bin/env python3
"""check-docs.py [--fix] [FILE ...] - what a script can say of the documents; part of `make test`.

  - no sentence has more than 35 words;
  - links lead to files, headings and anchors that exist;
  - a term is defined once, in docs/concepts.md, and none of the other words that the page lists for it is used instead;
  - README's tables and the tables of docs/ below a line `<!-- figures: FILE ... -->` have only figures that are in these
    files of docs/results, as they stand there or rounded;
  - README's table of results is, line by line, one of docs/results/report.md, which `firm report` makes.

With --fix README gets that table anew first. Without FILE all documents are read. Exit status 1 if something is wrong, with a line for each complaint.
"""
import os
import re
import sys
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
RESULTS = os.path.join(ROOT, "docs", "results")
CONCEPTS = os.path.join(ROOT, "docs", "concepts.md")
MOST_WORDS = 35
MADE = {"docs/results/report.md"}  # by the program


def documents():
    names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
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


def plain(text):
    """Markdown as a reader sees it: an inline piece of code is one word, a link is its text."""
    text = re.sub(r"<!--.*?-->", " ", text)
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


def check_sentences(name, lines, complain):
    for number, text in blocks(lines):
        for sentence in sentences(text):
            count = len(words(sentence))
            if count > MOST_WORDS:
                complain(name, number, f"{count} words: {' '.join(words(sentence)[:9])} ...")


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
            row = re.match(r"\|\s*\*\*(.+?)\*\*\s*\|(.+)\|([^|]*)\|\s*$", line)
            if not row:
                continue
            term = row.group(1)
            if term in terms:
                complain("docs/concepts.md", number, f"{term} is defined twice")
            terms[term] = [w.strip() for w in row.group(3).split(";") if w.strip() not in ("", "–", "-")]
    if len(terms) < 20:
        complain("docs/concepts.md", 1, f"only {len(terms)} terms were found")
    return terms


def check_terms(name, lines, terms, complain):
    if name == "docs/concepts.md":
        return
    for number, line in enumerate(without_code(lines), 1):
        text = plain(line)
        for term, others in terms.items():
            for other in others:
                if re.search(rf"\b{re.escape(other)}s?\b", text, re.IGNORECASE):
                    complain(name, number, f"'{other}' stands for '{term}'; docs/concepts.md has the word")


# ---- figures -----------------------------------------------------------------------------------------------------------------

NUMBER = r"(?<![\w.])[-−+]?\d[\d,\u2009]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])"


def numbers(text):
    for found in re.findall(NUMBER, text):
        digits = re.sub(r"[,\u2009+]", "", found).replace("−", "-")
        if re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", digits):
            yield found, digits


def file_numbers(path, known={}):
    if path not in known:
        with open(path, encoding="utf-8") as f:
            known[path] = {Decimal(d) for _, d in numbers(re.sub(r"[\[\]{}\":;]", " ", f.read().replace(",", " , ")))}
            f.seek(0)
            known[path] |= {Decimal(d) for _, d in numbers(f.read())}
    return known[path]


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


def is_measured(digits, cell):
    """A number with a decimal point, or beside a unit; small whole numbers name and count things."""
    return "." in digits or re.search(re.escape(digits) + r"\s*(%|ms|s\b|frames|updates|px)", cell)


def check_figures(name, lines, complain):
    files = None
    for number, line in enumerate(without_code(lines), 1):
        mark = re.match(r"\s*<!-- figures: (.+?) -->", line)
        if mark:
            files = mark.group(1).split()
            for file in files:
                if not os.path.exists(os.path.join(RESULTS, file)):
                    complain(name, number, f"docs/results/{file} does not exist")
                    files = None
                    break
            continue
        table = line.lstrip().startswith("|")
        if name == "README.md" and table and files is None and any("." in d for _, d in numbers(plain(line))):
            complain(name, number, "a table of figures without a line <!-- figures: FILE -->")
        if files is None or not table:
            files = None if files and line.strip() and not table else files
            continue
        values = set().union(*(file_numbers(os.path.join(RESULTS, f)) for f in files))
        for cell in plain(line).split("|"):
            for shown, digits in numbers(cell):
                if is_measured(digits, cell) and not is_in(digits, values):
                    complain(name, number, f"{shown} is not in {' '.join(files)}")


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


def main():
    wrong = []

    def complain(name, number, text):
        wrong.append(f"{name}:{number}: {text}")

    given = [a for a in sys.argv[1:] if a != "--fix"]
    if len(given) + 1 < len(sys.argv):
        fix_readme()
    terms = read_terms(complain)
    names = [os.path.relpath(os.path.abspath(n), ROOT) for n in given] or documents()
    for name in names:
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            lines = f.read().split("\n")
        check_links(name, lines, complain)
        if name in MADE:
            continue
        check_sentences(name, lines, complain)
        check_terms(name, lines, terms, complain)
        check_figures(name, lines, complain)
        if name == "README.md":
            check_readme(lines, complain)
    print("\n".join(wrong) if wrong else f"check-docs: {len(names)} documents, {len(terms)} terms, nothing wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
