"""Imports point one way (docs/architecture.md): this reads the source, so a forbidden import fails even when unused."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "mada"

# Each part and what it may import; OPEN_TO_ALL and the package itself need no row.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "digest": set(),
    "difference": set(),
    "atomic": set(),
    "seeds": set(),
    "concurrency": set(),
    "text": set(),
    "grading": set(),
    "problems": set(),
    "runs": set(),
    "events": {"runs"},
    "debate": {"problems", "grading", "events"},
    "models": {"debate", "grading", "recipe"},
    "learning": {"models", "grading", "recipe", "runs", "events"},
    "recipe": {"debate", "problems"},
    "agents": {"debate", "models", "recipe", "runs"},
    "team": {"agents", "debate", "events", "models", "grading", "recipe", "runs"},
    "evaluation": {"agents", "debate", "models", "grading", "problems", "runs"},
    "report": {"evaluation", "runs"},
    "export": {"agents", "debate", "evaluation", "models", "problems", "recipe", "report", "runs"},
    "pipeline": {
        "problems",
        "grading",
        "runs",
        "events",
        "recipe",
        "debate",
        "models",
        "learning",
        "agents",
        "evaluation",
        "report",
    },
    "serve": {
        "agents",
        "debate",
        "events",
        "grading",
        "models",
        "pipeline",
        "recipe",
        "report",
        "runs",
        "team",
    },
}
TOP = {"api", "cli", "cluster", "__main__", "__init__"}
OPEN_TO_ALL = {"errors", "digest", "difference", "atomic", "seeds", "concurrency", "text", "__init__"}
HEAVY = {
    *("torch", "transformers", "tokenizers", "safetensors", "huggingface_hub", "peft", "accelerate", "datasets"),
    *("sympy", "math_verify", "pyarrow", "matplotlib", "scipy"),
}


def modules():
    return sorted(SOURCE.rglob("*.py"))


def part_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_parts(tree):
    """The parts of mada that a module imports, inside functions and type-checking blocks too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they point"
            names = [node.module or ""]
            if node.module == "mada":
                names = [f"mada.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("mada."):
                yield name.split(".")[1]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    part = part_of(path)
    if part in TOP:
        return
    assert part in ALLOWED, f"{part} is new: give it a row in ALLOWED and in docs/architecture.md"
    known = {name for name in imported_parts(ast.parse(path.read_text(encoding="utf-8"))) if name != "__version__"}
    assert known - {part} - OPEN_TO_ALL <= ALLOWED[part]


@pytest.mark.parametrize("path", [path for path in modules() if part_of(path) == "cli"], ids=lambda path: path.name)
def test_the_command_line_imports_heavy_things_only_inside_functions(path):
    statements = ast.parse(path.read_text(encoding="utf-8")).body
    names = {alias.name for node in statements if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in statements if isinstance(node, ast.ImportFrom) and node.module}
    names = {name.split(".")[0] for name in names}
    assert not names & (HEAVY | {"pydantic", "numpy", "rich"})


def test_the_rules_have_no_circle():
    settled: set[str] = set()
    while ready := {part for part, uses in ALLOWED.items() if part not in settled and uses <= settled}:
        settled |= ready
    assert settled == set(ALLOWED)
