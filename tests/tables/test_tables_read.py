"""What is told of files before a cell of them is looked at."""

import pytest

from taciturn.errors import InputError
from taciturn.tables import Source, read_files

BOUNDS = """source = "public"
[target]
name = "ill"
values = ["no", "yes"]
[columns]
age = { min = 0, max = 99 }
"""


@pytest.mark.parametrize(
    ("header", "message"), [("years,ill", "no column 'age'"), ("age,ill,town", "the column 'town'")]
)
def test_other_columns_are_refused_before_a_cell_is_looked_at(tmp_path, header, message):
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    row = ",".join(["spoilt"] * len(header.split(",")))
    (tmp_path / "t.csv").write_text(f"{header}\n{row}\n")
    source = Source(path=tmp_path / "t.csv", target="ill", bounds=tmp_path / "bounds.toml")
    with pytest.raises(InputError, match=message):
        read_files(source)
    (tmp_path / "t.csv").write_text("age,ill\nspoilt,spoilt\n")
    assert read_files(source).rows == 1
