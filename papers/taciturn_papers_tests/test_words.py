"""One meaning for every word that several papers use."""

import ast
from pathlib import Path

import taciturn_papers

SOURCE = Path(taciturn_papers.__file__).parent


def test_words_that_several_papers_use_have_one_meaning_each():
    words = {"Arm", "Case", "Claim", "Method", "Pair", "Setting", "Trial", "Verdict"}
    defined = [
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name in words
    ]
    assert len(defined) == len(set(defined))
