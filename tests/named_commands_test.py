#!/usr/bin/python3
"""Every subcommand and option that a message, a remedy, a help text, a comment or a page names exists.

Sentences are read, not programs: in C and C++ string literals and comments, elsewhere every line. A command ends where
its sentence or its quotation does."""
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(os.environ.get("REVEAL_SOURCE", pathlib.Path(__file__).parents[1])).resolve()
# Words after "reveal" that continue a sentence of which reveal is the subject or the object.
PROSE = set("""a across act after again alone also and are as asks at be because before begins beside bind but by can
    cannot change changed could did do does each ended for from gave had has have if in inside instead into is it
    itself itself's job kept knows later leaves left made may missed must needs never not of off on once only or over
    package ran read recorded recording releases runs s saw says sees should since so still than that the then to too
    took under until used was were what when where which while who will with without would wrote""".split())

# Where the arguments of a command end: at the end of what is quoted or said, at those of another command.
END = re.compile(r"[`;|&#()]|[.,:](?=\s|$)|\s--(?=\s|$)|(?<![\w./-])(?:reveal|reveal-run|reveal-collect|srun|sbatch) "
                 r"|\s{3,}|\n\s*\n")


def strings_in(paths, pattern):
    return {word for path in paths for word in re.findall(pattern, path.read_text())}


def known_options():
    """The options of each command: "reveal show", "reveal-run", "reveal-collect"."""
    option = r'(?s)add_(?:option|flag)\(\s*"(--[a-z-]+)'
    commands = SOURCE / "postproc/commands"
    shared = strings_in([commands / "shared_options.cpp"], option) | {"--help", "--version"}
    known = {"reveal": shared, "reveal help": shared}
    for path in commands.glob("*.cpp"):
        for name in re.findall(r'\.name = "([a-z-]+)"', path.read_text()):
            known[f"reveal {name}"] = shared | strings_in([path], option)
    known["reveal-run"] = {"--help", "--version"} | strings_in([SOURCE / "wrapper/settings.cpp"], r'"(--[a-z-]+)"')
    collect = strings_in([SOURCE / "core/reveal_collect_main.cpp"], option)
    known["reveal-collect"] = {"--help", "--version"} | collect
    return known


def texts_of(path):
    """(line number, text) of what people read in a file; what goes on over several lines is one text."""
    content = path.read_text(errors="replace")
    if path.suffix not in (".c", ".cpp", ".h"):
        for block in re.finditer(r"(?:.+\n?)+", content) if path.suffix == ".md" else re.finditer(r".+", content):
            yield content.count("\n", 0, block.start()) + 1, block.group()
        return
    token = re.compile(r'(?P<comment>(?://[^\n]*\n?[ \t]*)+|/\*.*?\*/)|(?P<raw>R"(\w*)\((?P<inside>.*?)\)\3")'
                       r'|(?P<text>(?:"(?:[^"\\\n]|\\.)*"\s*)+)|\'(?:[^\'\\\n]|\\.)\'', re.S)
    for found in token.finditer(content):
        text = found.group()
        if found["comment"]:
            text = re.sub(r"(?m)^[ \t]*///?", "", text)
        elif found["raw"]:
            text = found["inside"]
        elif found["text"]:
            text = re.sub(r'"\s*"', "", text.strip())[1:-1].replace('\\"', '"').replace("\\n", "\n")
        yield content.count("\n", 0, found.start()) + 1, text


def mistakes_in(text, known):
    for found in re.finditer(r"(?<![\w./-])(reveal(?:-run|-collect)?)(?=[ \n])", text):
        rest = text[found.end():]
        command = found.group(1)
        if command == "reveal":
            word = re.match(r"\s+(?!reveal-)([a-z]+(?:-[a-z]+)*)(?![\w.:/-])", rest)
            if word and f"reveal {word.group(1)}" in known:
                command += " " + word.group(1)
            elif word:
                quoted = text[:found.start()].endswith("`")
                if quoted or not (word.group(1) in PROSE or word.group(1).endswith("s")):
                    yield f"reveal {word.group(1)}"
                continue
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", END.split(rest)[0]):
            if option not in known[command]:
                yield f"{command} {option}"


def main():
    known = known_options()
    if len(known) < 15 or min(len(options) for options in known.values()) < 4:
        sys.exit(f"the tables of options are not found: { {name: len(options) for name, options in known.items()} }")
    listed = subprocess.run(["git", "ls-files"], cwd=SOURCE, capture_output=True, text=True).stdout.split()
    if not listed:
        print("skipped: no git checkout")
        sys.exit(77)
    failures = 0
    texts = 0
    for name in listed:
        path = SOURCE / name
        if name.startswith("tests/") and path.suffix != ".md" or path.suffix not in (
                ".c", ".cpp", ".h", ".md", ".py", ".sh", ".cmake", ".txt", ".conf", ".in", ".service", ""):
            continue
        for line, text in texts_of(path):
            texts += 1
            for mistake in mistakes_in(text, known):
                print(f"{name}:{line}: names \"{mistake}\", which does not exist")
                failures += 1
    print(f"{failures} names of no command in {texts} texts")
    sys.exit(1 if failures else 0)


main()
