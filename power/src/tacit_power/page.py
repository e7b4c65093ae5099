"""What the pages of power flow have in common: their order, the network and the style of plots."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from matplotlib.axes import Axes

import tacit
from tacit.engine import Run
from tacit.report import certificate_box, charged_section, document, section, stamps, table_of
from tacit_power.grids.figure import caption, network_svg
from tacit_power.grids.network import Network
from tacit_power.grids.zones import Zones


def page_of(  # noqa: PLR0913, PLR0917 - the parts of a page, from top to bottom
    run: Run,
    title: str,
    story: str,
    warnings: tuple[str, ...],
    sections: list[str],
    holds: str,
    took: str = "",
) -> str:
    """Return the page of a run of a grid: what it was, its certificate and charge, and sections.

    Parameters
    ----------
    holds
        What the files of the folder hold beside the plan.
    took
        What took the seconds of the run.
    """
    return document(
        title,
        [
            f"<h1>{escape(title)}</h1>",
            f'<p class="lead">{escape(story)}</p>',
            stamps(run.certificate, warnings),
            certificate_box(run.certificate),
            charged_section(run.charged),
            *sections,
            f'<footer class="small">tacit {tacit.__version__}, {run.seconds:.1f} s{took}. Plan '
            f"<code>{run.plan.digest}</code> (plan.json); {holds}.</footer>",
        ],
    )


def network_section(network: Network, zones: Zones, rows: list[tuple[str, str]]) -> str:
    """Return the section that draws a network and tells of its zones."""
    svg = network_svg(network, zones)
    note = f'<p class="small">{escape(caption(network, zones))}</p>' if svg else ""
    return section("The network", svg + note + table_of(rows))


def bus_rows(network: Network, zones: Zones) -> list[tuple[str, str]]:
    """Return (name, text) of every zone: its buses, which are public."""
    return [
        (f"zone {zone + 1}", f"buses {ranges(network.numbers[zones.of_bus == zone].tolist())}")
        for zone in range(zones.count)
    ]


def ranges(numbers: Iterable[int]) -> str:
    """Return whole numbers as text, runs of three and more as ranges.

    Examples
    --------
    >>> ranges([7, 1, 2, 3, 9, 10])
    '1-3, 7, 9, 10'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(texts)


def titled(axes: Axes, title: str, below: str) -> None:
    """Write the title of a plot and what is below it, and draw its grid."""
    axes.set_title(title, loc="left", fontsize=9, color="#1d232b")
    axes.set_xlabel(below)
    axes.grid(axis="y", color="#e3e7ec", linewidth=0.8)
    axes.set_axisbelow(True)
