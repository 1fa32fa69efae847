"""Links, pictures, targets and names on the pages are alive; each check is shown to fail."""

from __future__ import annotations

import re
import struct
import tomllib
from pathlib import Path

import pytest
from docs_pages import DOCS, PAGES, ROOT, code_spans, dead_links, first_names, named_files, section

import inferometer
from inferometer.catalog import gpu_names, model_names
from inferometer.engine.simulated import memory, roofline

PACKAGE = Path(inferometer.__file__).parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
STRUCTURE = (DOCS / "structure.md").read_text(encoding="utf-8")
ENGINE = (DOCS / "simulated-engine.md").read_text(encoding="utf-8")
LARGEST_PICTURE = 200_000


def missing_files(page: str) -> list[str]:
    """Files and functions that a page names and nobody has."""
    missing = []
    for name in named_files(page):
        path, _, function = name.partition(":")
        places = [root / path for root in (PACKAGE, PACKAGE.parent, PACKAGE / "plan/recipes", ROOT)]
        found = next((place for place in places if place.is_file()), None)
        if found is None or (function and f"def {function}(" not in found.read_text()):
            missing.append(name)
    return missing


def missing_targets(page: str, makefile: str) -> set[str]:
    """Targets that a page names and the Makefile lacks."""
    named = {span.split()[1] for span in code_spans(page) if re.fullmatch(r"make \w+", span)}
    return named - set(re.findall(r"^(\w+):", makefile, re.MULTILINE))


def house_differences(page: str) -> set[str]:
    """Units of the package that the tree on the page lacks, or has too many."""
    tree = page.partition("src/inferometer/")[2].partition("\n\n")[0]
    drawn = set(re.findall(r"^ +(\w+)(?:/|\.py) ", tree, re.MULTILINE))
    units = {path.stem for path in PACKAGE.iterdir() if is_unit(path)} | {"simulated"}
    return drawn ^ units


def is_unit(path: Path) -> bool:
    """A package or module that is a unit of the house."""
    if path.name.startswith("_"):
        return False
    return path.suffix == ".py" or (path / "__init__.py").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_anchors_are_alive(page: Path) -> None:
    assert dead_links(page, page.read_text(encoding="utf-8")) == []


def test_a_dead_link_and_a_dead_anchor_are_seen() -> None:
    text = "# Here\n[a](gone.md) [b](#there) [c](docs/cli.md#gone) [d](#here) [e](https://x.y)"
    assert dead_links(ROOT / "README.md", text) == ["gone.md", "#there", "docs/cli.md#gone"]


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)", README))
    assert linked == {page.name for page in DOCS.glob("*.md")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_functions_named_exist(page: Path) -> None:
    assert missing_files(page.read_text(encoding="utf-8")) == []


def test_a_file_or_function_that_is_gone_is_seen() -> None:
    page = "`run/point.py:measure_point` `run/gone.py` `run/point.py:gone`"
    assert missing_files(page) == ["run/gone.py", "run/point.py:gone"]


def test_the_house_is_drawn_as_it_stands() -> None:
    assert house_differences(STRUCTURE) == set()
    assert house_differences(STRUCTURE.replace("      cli/ ", "      cellar/ ")) == {
        "cli",
        "cellar",
    }


def test_makefile_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        assert missing_targets(page.read_text(encoding="utf-8"), makefile) == set()
    assert missing_targets("`make gone`", makefile) == {"gone"}


def test_the_picture_is_there_and_small() -> None:
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert links == ["docs/quickstart.png"]
    data = (ROOT / links[0]).read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(data) <= LARGEST_PICTURE
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (1280, 900)


def test_the_python_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Python {project['requires-python'].removeprefix('>=')} or newer" in README


def test_every_constant_of_the_cost_model_is_as_stated() -> None:
    values = dict(re.findall(r"^\| `([A-Z_]+)` \| ([\d.]+) \|", ENGINE, re.MULTILINE))
    constants = {name for name in vars(roofline) if name.isupper()} | {"ACTIVATION_RESERVE_BYTES"}
    assert set(values) == constants
    for name, value in values.items():
        module = memory if name == "ACTIVATION_RESERVE_BYTES" else roofline
        assert getattr(module, name) == float(value), name


def test_every_gpu_and_model_of_the_catalog_is_named() -> None:
    spans = set(code_spans(ENGINE))
    assert {*gpu_names(), *model_names()} <= spans


def test_first_names_reads_a_table() -> None:
    page = "# A\n| Field | x |\n|---|---|\n| `a` `b` | `no` |\n| c | |\n\n## B\n| `d` | |\n"
    assert first_names(section(page, "A")) == ["a", "b"]
